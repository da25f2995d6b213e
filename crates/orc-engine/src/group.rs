//! Concurrency groups: a place for a flow as a whole, places for its steps, and one for each agent with `max_concurrent`.
//! The store has the last word; the context says which groups are known to be full.

use std::collections::BTreeSet;

use orc_domain::claim::Holder;
use orc_domain::event::Fact;
use orc_domain::expr::{EvalError, Root, Scope, StatusFn, Template};
use orc_domain::flow::{FlowOutcome, FlowState, Held, Phase, SkipReason, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::{Action, Concurrency, OnLimit};
use orc_domain::input::Input;
use orc_domain::profile::Profile;
use orc_domain::transition::Transition;
use orc_domain::value::Value;

use crate::draft::Draft;
use crate::scope::StepScope;

/// A group that a step wants to be in.
struct Wanted {
    name: String,
    limit: u32,
    on_limit: OnLimit,
}

/// Whether a step may go on to start.
pub(crate) enum Entry {
    /// It has its places.
    In,
    /// It waits, or was skipped.
    Out,
}

impl Draft<'_> {
    /// A new flow takes its place, or queues for it. False when nothing of it may begin.
    pub(crate) fn enter_group(&mut self) -> bool {
        let Some(concurrency) = self.resident.pipeline.concurrency.clone() else {
            return true;
        };
        match group_name(&concurrency.group, &InputScope(self)) {
            Ok(name) => self.try_enter(&name, &concurrency),
            Err(detail) => {
                self.edit_head(|head| {
                    head.main_failed = true;
                    head.detail = format!("concurrency: {detail}");
                });
                self.take(Transition::FlowGroupError);
                self.give_up(Stop::None);
                false
            }
        }
    }

    fn try_enter(&mut self, name: &str, concurrency: &Concurrency) -> bool {
        if self.resident.flow.spec.groups_above.contains(name) {
            return true;
        }
        let Some(behind) = self.who_fills(name, concurrency.limit) else {
            self.claim_group(name, concurrency.limit, None);
            self.edit_head(|head| head.group = Some(name.to_owned()));
            return true;
        };
        match concurrency.on_limit {
            OnLimit::Skip => {
                self.edit_head(|head| head.detail = format!("skipped: the concurrency group `{name}` was full"));
                self.cancel_queued(Transition::FlowSkippedGroup);
            }
            OnLimit::Queue => self.queue(name, behind, Transition::FlowQueued),
            OnLimit::CancelRunning => {
                for holder in behind.iter().filter(|holder| holder.step.is_none()) {
                    self.tell_flow(holder.flow, "make room", Input::End { force: false });
                }
                self.queue(name, behind, Transition::FlowCancelsGroup);
            }
        }
        false
    }

    fn queue(&mut self, group: &str, behind: Vec<Holder>, transition: Transition) {
        let (since, group) = (self.now, group.to_owned());
        self.take(transition);
        self.tell(Fact::FlowQueued { group: group.clone() });
        self.edit_head(|head| head.state = FlowState::Queued { since, group, behind });
    }

    /// A queued flow is looked at: it begins if there is a place now, and nothing holds it.
    pub(crate) fn leave_queue(&mut self) {
        let FlowState::Queued { since, group, behind } = self.resident.flow.head.state.clone() else {
            return;
        };
        let Some(concurrency) = self.resident.pipeline.concurrency.clone() else { return };
        if self.resident.is_held() {
            return;
        }
        if let Some(now) = self.who_fills(&group, concurrency.limit) {
            if now != behind {
                self.take(Transition::FlowQueuedAgain);
                let new = now.iter().filter(|holder| holder.step.is_none() && !behind.contains(holder));
                if concurrency.on_limit == OnLimit::CancelRunning {
                    for holder in new {
                        self.tell_flow(holder.flow, "make room", Input::End { force: false });
                    }
                }
                self.edit_head(|head| head.state = FlowState::Queued { since, group, behind: now });
            }
            return;
        }
        self.take(Transition::FlowUnqueued);
        self.claim_group(&group, concurrency.limit, None);
        self.edit_head(|head| {
            head.state = FlowState::Live { phase: Phase::Main, stop: Stop::None };
            head.group = Some(group);
        });
        self.begin_work();
    }

    /// A flow that is over gives its place back.
    pub(crate) fn leave_group(&mut self) {
        if let Some(group) = self.resident.flow.head.group.clone() {
            self.release_group(&group, None);
            self.edit_head(|head| head.group = None);
        }
    }

    /// A step that is about to start takes its places, or says which it waits for.
    pub(crate) fn enter_places(&mut self, no: StepNo) -> Result<Entry, String> {
        let wanted = self.places_of(no)?;
        let full = wanted.iter().find_map(|want| self.who_fills(&want.name, want.limit).map(|behind| (want, behind)));
        let Some((want, behind)) = full else {
            for want in &wanted {
                self.claim_group(&want.name, want.limit, Some(no));
            }
            if !wanted.is_empty() {
                self.edit(no, |step| step.places = wanted.into_iter().map(|want| want.name).collect());
            }
            return Ok(Entry::In);
        };
        let name = want.name.clone();
        if want.on_limit == OnLimit::Skip {
            self.take(Transition::StepSkippedGroup);
            self.finish(no, StepOutcome::Skipped(SkipReason::Group { name }));
            return Ok(Entry::Out);
        }
        let held = Held::Group { name, behind };
        if let StepState::Ready { not_before, held_by, wake } = &self.step(no).state
            && held_by.as_ref() != Some(&held)
        {
            let (not_before, wake) = (*not_before, wake.clone());
            self.take(Transition::StepHeldGroup);
            self.edit(no, |step| step.state = StepState::Ready { not_before, held_by: Some(held), wake });
        }
        Ok(Entry::Out)
    }

    /// Who is in a group that is full. Of other flows the context tells; of this one its own steps do, for the caller may
    /// have heard of places that a decision which did not come true wanted, or that this one gives back.
    fn who_fills(&self, name: &str, limit: u32) -> Option<Vec<Holder>> {
        let known = self.context.full.get(name);
        let others = known.into_iter().flatten().filter(|holder| holder.flow != self.flow_id()).copied();
        let mut behind: Vec<Holder> = others.collect();
        let own = self.resident.index.places.get(name).copied().unwrap_or(0) as usize;
        if behind.len() + own < limit as usize {
            return None;
        }
        let steps = self.resident.flow.steps.iter().filter(|step| step.places.iter().any(|place| place == name));
        behind.extend(steps.map(|step| Holder { flow: self.flow_id(), step: Some(step.no) }));
        Some(behind)
    }

    /// Without a free slot nobody tries whether a group still is full: a step that may find room in its group waits for a
    /// slot again, so that the flow is thought of when one is free.
    pub(crate) fn wait_for_slot_again(&mut self) {
        if self.slots > 0 || self.resident.wants_slot().is_some() {
            return;
        }
        let mut looked_at: BTreeSet<String> = BTreeSet::new();
        let held = self.resident.held_by_groups().filter(|(_, name)| looked_at.insert((*name).to_owned()));
        let held: Vec<StepNo> = held.map(|(no, _)| no).collect();
        let is_full = |want: &Wanted| self.who_fills(&want.name, want.limit).is_some();
        let free = held.into_iter().find(|no| self.places_of(*no).is_ok_and(|wanted| !wanted.iter().any(is_full)));
        let Some(no) = free else { return };
        let StepState::Ready { not_before, wake, .. } = &self.step(no).state else { return };
        let (not_before, wake) = (*not_before, wake.clone());
        self.take(Transition::StepHeldSlot);
        self.edit(no, |step| step.state = StepState::Ready { not_before, held_by: Some(Held::Slot), wake });
    }

    fn places_of(&self, no: StepNo) -> Result<Vec<Wanted>, String> {
        let mut wanted = Vec::new();
        // A fan-out is in none of the groups of its elements, which are all over when it merges what they made.
        let joins = self.joins(no);
        if let Some(concurrency) = self.spec(no).concurrency.as_ref().filter(|_| !joins) {
            let scope = StepScope::of(&self.resident, no).with_env()?;
            let name = group_name(&concurrency.group, &scope).map_err(|error| format!("concurrency: {error}"))?;
            if !self.has_above(no, &name) {
                wanted.push(Wanted { name, limit: concurrency.limit, on_limit: concurrency.on_limit });
            }
        }
        if let Some((profile, limit)) = self.profile(no).and_then(|profile| Some((profile, profile.max_concurrent?))) {
            let name = format!("agent:{}", profile.name);
            // A group that is called so is the same group.
            wanted.retain(|want: &Wanted| want.name != name);
            wanted.push(Wanted { name, limit, on_limit: OnLimit::Queue });
        }
        Ok(wanted)
    }

    /// Whether something above a step is in a group: it is in it with that.
    fn has_above(&self, no: StepNo, name: &str) -> bool {
        let flow = &self.resident.flow;
        let mut above = self.resident.ancestry(no).skip(1);
        flow.spec.groups_above.contains(name)
            || flow.head.group.as_deref() == Some(name)
            || above.any(|step| step.places.iter().any(|place| place == name))
    }

    /// A step that is over, or that goes back to wait, gives its places back.
    pub(crate) fn leave_places(&mut self, no: StepNo) {
        let places = self.step(no).places.clone();
        if places.is_empty() {
            return;
        }
        for place in &places {
            self.release_group(place, Some(no));
        }
        self.edit(no, |step| step.places.clear());
    }

    /// The profile of the agent whose run is next.
    pub(crate) fn profile(&self, no: StepNo) -> Option<&Profile> {
        let agent = match (&self.spec(no).action, &self.spec(no).on_conflict) {
            (_, Some(agent)) if self.step(no).merging.is_contradicting() => agent,
            // A merge is nobody's work.
            _ if self.joins(no) => return None,
            (Action::Agent(agent), _) => agent,
            _ => return None,
        };
        self.resident.pipeline.agents.get(&agent.agent)
    }

    /// How the flow stands as a word, for its parent.
    pub(crate) const fn ended_by(stop: &Stop, failed: bool) -> FlowOutcome {
        match stop {
            Stop::Cancel { .. } | Stop::Force { .. } => FlowOutcome::Cancelled,
            Stop::Exhausted { .. } => FlowOutcome::BudgetExhausted,
            Stop::None if failed => FlowOutcome::Failed,
            Stop::None => FlowOutcome::Succeeded,
        }
    }
}

/// A group's name as text that fits a table.
fn group_name(template: &Template, scope: &dyn Scope) -> Result<String, String> {
    let name = template.render(scope).map_err(|error| error.to_string())?.to_text().text;
    if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
        return Err(format!("a group's name is one line of 1 to 200 bytes, and this has {}", name.len()));
    }
    Ok(name)
}

/// What the name of a flow's group may read: its inputs and the flow itself.
struct InputScope<'a>(&'a Draft<'a>);

impl Scope for InputScope<'_> {
    fn resolve(&self, root: &Root, member: Option<&str>) -> Result<Value, EvalError> {
        crate::scope::resolve_flow(&self.0.resident, root, member)
    }

    fn status(&self, function: StatusFn) -> bool {
        matches!(function, StatusFn::Always | StatusFn::Success)
    }
}
