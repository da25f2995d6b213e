//! The flow while a decision changes it, and what the decision has gathered so far.
//!
//! Every change of a step goes through [`Draft::edit`] and every change of a run through [`Draft::edit_run`], so that the
//! index stays true and the row is written. Nothing here decides anything.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use orc_domain::claim::Claim;
use orc_domain::effect::{Change, Decision, Effect, EffectKind};
use orc_domain::event::{EventBody, Fact};
use orc_domain::flow::{FlowState, Phase, Step, StepNo, StepState, Stop};
use orc_domain::graph::StepSpec;
use orc_domain::ids::{EffectId, RunId};
use orc_domain::principal::Principal;
use orc_domain::run::{Run, RunState};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::transition::Transition;

use crate::Context;
use crate::resident::{Resident, alarm_of};

/// A step that waits for a slot is looked at again after this time even if nobody says that one is free.
pub(crate) const HELD_RETRY: Millis = Millis::from_secs(5);

pub(crate) struct Draft<'a> {
    pub(crate) resident: Resident,
    pub(crate) context: &'a Context,
    pub(crate) by: &'a Principal,
    /// The context's time, or the latest the flow saw if the clock jumped back.
    pub(crate) now: Timestamp,
    /// Finished steps whose consequences are not drawn yet.
    pub(crate) open: VecDeque<StepNo>,
    /// Steps that became ready in this decision.
    pub(crate) fresh: BTreeSet<StepNo>,
    /// Slots that may still be tried.
    pub(crate) slots: u32,
    head_changed: bool,
    steps: BTreeSet<StepNo>,
    runs: BTreeMap<RunId, Run>,
    decision: Decision,
}

impl<'a> Draft<'a> {
    pub(crate) fn begin(resident: Resident, by: &'a Principal, context: &'a Context) -> Self {
        let now = context.now.max(resident.flow.head.seen);
        Self {
            resident,
            context,
            by,
            now,
            open: VecDeque::new(),
            fresh: BTreeSet::new(),
            slots: context.slots,
            head_changed: false,
            steps: BTreeSet::new(),
            runs: BTreeMap::new(),
            decision: Decision::default(),
        }
    }

    /// Closes the decision: the rows that changed, the head last, with its version and its next alarm.
    pub(crate) fn end(mut self) -> (Resident, Decision) {
        let steps = self.steps.iter().filter_map(|no| self.resident.flow.step(*no).cloned());
        let mut changes: Vec<Change> = steps.map(Change::Step).collect();
        changes.extend(self.runs.into_values().map(Change::Run));
        let wake_at = next_alarm(&self.resident, self.now, self.context.now);
        self.resident.wake_at = wake_at;
        if changes.is_empty() && !self.head_changed {
            return (self.resident, self.decision);
        }
        let head = &mut self.resident.flow.head;
        head.version += 1;
        head.seen = self.now;
        head.wake_at = wake_at;
        changes.push(Change::Head(head.clone()));
        self.decision.changes = changes;
        (self.resident, self.decision)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.resident.flow.is_finished()
    }

    /// The phase and stop of a live flow; a finished one is nowhere.
    pub(crate) fn live(&self) -> Option<(Phase, &Stop)> {
        match &self.resident.flow.head.state {
            FlowState::Live { phase, stop } => Some((*phase, stop)),
            FlowState::Finished { .. } => None,
        }
    }

    pub(crate) fn take(&mut self, transition: Transition) {
        self.decision.transitions.push(transition);
    }

    pub(crate) fn tell(&mut self, fact: Fact) {
        self.decision.events.push(EventBody { at: self.now, actor: self.by.clone(), fact });
    }

    pub(crate) fn claim(&mut self, run: RunId) {
        self.decision.claims.push(Claim::Slot { run });
    }

    pub(crate) fn release(&mut self, run: RunId) {
        self.decision.releases.push(Claim::Slot { run });
    }

    /// Adds an effect about a run. `label` tells apart the effects that one decision has for one run.
    pub(crate) fn effect(&mut self, run: RunId, label: &str, kind: EffectKind) {
        let version = self.resident.flow.head.version;
        let id = EffectId::derived(run.uuid(), &format!("{label}@{version}"));
        self.decision.effects.push(Effect { id, kind });
    }

    pub(crate) fn step(&self, no: StepNo) -> &Step {
        &self.resident.flow.steps[no.0 as usize]
    }

    pub(crate) fn spec(&self, no: StepNo) -> &StepSpec {
        self.resident.spec_of(self.step(no))
    }

    pub(crate) fn edit_head(&mut self, change: impl FnOnce(&mut orc_domain::flow::FlowHead)) {
        change(&mut self.resident.flow.head);
        self.head_changed = true;
    }

    /// Changes a step and keeps the index true.
    pub(crate) fn edit(&mut self, no: StepNo, change: impl FnOnce(&mut Step)) {
        self.unindex(no);
        change(&mut self.resident.flow.steps[no.0 as usize]);
        self.index(no);
        self.steps.insert(no);
    }

    /// Puts a step into another state.
    pub(crate) fn set_state(&mut self, no: StepNo, state: StepState) {
        let now = self.now;
        self.edit(no, |step| {
            step.state = state;
            step.since = now;
        });
    }

    /// The time of a ready step has come. `fresh`: it was not held before, so that it must say why if it does not start.
    pub(crate) fn come_due(&mut self, no: StepNo, fresh: bool) {
        self.unindex(no);
        self.index(no);
        if fresh {
            self.fresh.insert(no);
        }
    }

    /// Marks every step as changed: the first commit of a flow.
    pub(crate) fn write_all_steps(&mut self) {
        self.steps.extend(self.resident.flow.steps.iter().map(|step| step.no));
        self.head_changed = true;
    }

    /// Adds a step instance.
    pub(crate) fn add_step(&mut self, step: Step) {
        let no = step.no;
        self.resident.flow.steps.push(step);
        self.index(no);
        self.steps.insert(no);
    }

    /// Changes a live run, and the index of the step it tries. A finished run leaves memory but its row is written.
    pub(crate) fn edit_run(&mut self, no: StepNo, id: RunId, change: impl FnOnce(&mut Run)) {
        self.unindex(no);
        if let Some(run) = self.resident.flow.runs.get_mut(&id) {
            change(run);
            self.runs.insert(id, run.clone());
            if run.state.is_final() {
                self.resident.flow.runs.remove(&id);
            }
        }
        self.index(no);
    }

    pub(crate) fn add_run(&mut self, run: Run) {
        self.runs.insert(run.id, run.clone());
        self.resident.flow.runs.insert(run.id, run);
    }

    /// The step that a live run tries.
    pub(crate) fn step_of_run(&self, id: RunId) -> Option<StepNo> {
        self.resident.flow.runs.get(&id).map(|run| run.no)
    }

    fn unindex(&mut self, no: StepNo) {
        let step = &self.resident.flow.steps[no.0 as usize];
        if let Some(at) = alarm_of(step, &self.resident.flow) {
            self.resident.index.alarms.remove(&(at, no));
        }
        let group = step.element.as_ref().map(|element| element.group);
        if let Some(due) = self.resident.index.due.get_mut(&group) {
            due.remove(&no);
            if due.is_empty() {
                self.resident.index.due.remove(&group);
            }
        }
        self.resident.index.uncount_element(step);
    }

    fn index(&mut self, no: StepNo) {
        let step = &self.resident.flow.steps[no.0 as usize];
        let ready_now = matches!(step.state, StepState::Ready { not_before, .. } if not_before <= self.now);
        if ready_now {
            let group = step.element.as_ref().map(|element| element.group);
            self.resident.index.due.entry(group).or_default().insert(no);
        } else if let Some(at) = alarm_of(step, &self.resident.flow) {
            self.resident.index.alarms.insert((at, no));
        }
        if let StepState::Waiting(fan) = &step.state {
            self.resident.index.groups.entry(no).or_default();
            if fan.expanded < fan.total {
                self.resident.index.expanding.insert(no);
            } else {
                self.resident.index.expanding.remove(&no);
            }
        } else {
            self.resident.index.expanding.remove(&no);
            self.resident.index.groups.remove(&no);
        }
        self.resident.index.count_element(step);
    }

    /// Whether a live run was asked to end.
    pub(crate) fn stopping(&self, id: RunId) -> Option<orc_domain::run::StopReason> {
        match &self.resident.flow.runs.get(&id)?.state {
            RunState::Pending { stop, .. } | RunState::Running { stop, .. } => stop.as_ref().map(|stop| stop.reason),
            RunState::Finished { .. } => None,
        }
    }
}

/// When the flow wants to be looked at again. `None` only for a finished flow. Deadlines follow the flow's own time `now`;
/// what only wants another look follows the clock, which may stand behind it after a jump.
fn next_alarm(resident: &Resident, now: Timestamp, clock: Timestamp) -> Option<Timestamp> {
    let FlowState::Live { phase, .. } = &resident.flow.head.state else {
        return None;
    };
    let step = resident.index.alarms.first().map(|(at, _)| *at);
    let page = (!resident.index.expanding.is_empty()).then_some(clock);
    let held = resident.wants_slot().then_some(clock + HELD_RETRY);
    let finally = match phase {
        Phase::Finally { deadline } if *deadline > now => Some(*deadline),
        Phase::Finally { .. } | Phase::Main => None,
    };
    [step, page, held, finally].into_iter().flatten().min()
}
