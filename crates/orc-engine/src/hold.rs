//! Holds: nothing of a flow, or of a step and what is below it, starts while one is there. What runs goes on, but for runs
//! that can go on later where they stand: those end at their next turn and give their slots back. Answers and times still
//! count. Child flows are held with their parent.

use orc_domain::event::Fact;
use orc_domain::flow::{FlowState, StepNo, StepState};
use orc_domain::hold::{Hold, HoldReason, HoldScope};
use orc_domain::ids::{FlowId, HoldId};
use orc_domain::input::Input;
use orc_domain::path::StepPath;
use orc_domain::run::StopReason;
use orc_domain::time::Timestamp;
use orc_domain::transition::Transition;
use orc_domain::wait::Wait;

use crate::draft::Draft;

impl Draft<'_> {
    /// Somebody wants nothing more to start. The same hold twice is one.
    pub(crate) fn hold(&mut self, step: Option<&StepPath>, reason: HoldReason, note: &str, until: Option<Timestamp>) {
        let scope = scope_of(step);
        let open = matches!(self.resident.flow.head.state, FlowState::Live { .. } | FlowState::Queued { .. });
        let known = step.is_none_or(|path| self.resident.flow.steps.iter().any(|step| step.path == *path));
        let held = self.resident.flow.head.holds.iter().any(|hold| hold.scope == scope && hold.reason == reason);
        if !open || !known || held {
            return;
        }
        self.take(if step.is_some() { Transition::StepHeld } else { Transition::FlowHeld });
        let version = self.resident.flow.head.version;
        let label = format!("{} {reason:?}@{version}", step.map_or("flow", StepPath::as_str));
        let hold = Hold {
            id: HoldId::derived(self.flow_id().uuid(), &label),
            scope,
            reason,
            note: note.to_owned(),
            by: self.by.clone(),
            since: self.now,
            until,
            sticky: until.is_none(),
        };
        self.tell(Fact::HoldPlaced { path: step.cloned(), reason, note: note.to_owned(), until });
        self.edit_head(|head| head.holds.push(hold));
        if !matches!(reason, HoldReason::Wall(_)) {
            self.pause_runs(step);
            let held = Input::Hold { step: None, reason: HoldReason::ParentHeld, note: note.to_owned(), until: None };
            self.tell_children(step, "hold", &held);
        }
    }

    /// Runs that can go on where they stand give their slots back; all others come to their end.
    fn pause_runs(&mut self, step: Option<&StepPath>) {
        let held = |no: StepNo| step.is_none_or(|path| self.resident.ancestry(no).any(|above| above.path == *path));
        let steps = self.resident.flow.steps.iter().filter(|step| matches!(step.state, StepState::Active { .. }));
        let active: Vec<StepNo> = steps.map(|step| step.no).filter(|no| held(*no)).collect();
        for no in active {
            if let Some(run) = self.steerable(no).filter(|_| self.spec(no).idempotent) {
                self.take(Transition::RunPaused);
                self.ask_to_stop(no, run, StopReason::Paused, false);
            }
        }
    }

    /// Somebody wants it to go on.
    pub(crate) fn lift(&mut self, step: Option<&StepPath>, reason: HoldReason) {
        let scope = scope_of(step);
        let holds = &self.resident.flow.head.holds;
        if !holds.iter().any(|hold| hold.scope == scope && hold.reason == reason) {
            return;
        }
        self.take(if step.is_some() { Transition::StepLifted } else { Transition::FlowLifted });
        self.tell(Fact::HoldLifted { path: step.cloned(), reason });
        self.edit_head(|head| head.holds.retain(|hold| hold.scope != scope || hold.reason != reason));
        // What became ready while it was held has not said yet what else it waits for.
        let due: Vec<StepNo> = self.resident.index.due.values().flatten().map(|(_, no)| *no).collect();
        let silent = |no: &StepNo| matches!(self.step(*no).state, StepState::Ready { held_by: None, .. });
        let silent: Vec<StepNo> = due.into_iter().filter(silent).collect();
        self.fresh.extend(silent);
        if !matches!(reason, HoldReason::Wall(_)) {
            self.tell_children(step, "lift", &Input::Lift { step: None, reason: HoldReason::ParentHeld });
        }
    }

    /// Holds that end by themselves.
    pub(crate) fn lift_expired(&mut self) {
        let over = |hold: &&Hold| !hold.sticky && hold.until.is_some_and(|until| until <= self.now);
        let expired: Vec<Hold> = self.resident.flow.head.holds.iter().filter(over).cloned().collect();
        for hold in expired {
            match &hold.scope {
                HoldScope::Flow => self.lift(None, hold.reason),
                HoldScope::Step(path) => self.lift(Some(path), hold.reason),
            }
        }
    }

    /// Whether the child flow of a step is held with this one. A wall is this flow's own: its children have theirs.
    pub(crate) fn holds_child(&self, no: StepNo) -> bool {
        let holds = self.resident.flow.head.holds.iter();
        let whole = |hold: &Hold| hold.scope == HoldScope::Flow && !matches!(hold.reason, HoldReason::Wall(_));
        holds.clone().any(whole) || self.resident.hold_on(no).is_some()
    }

    /// Somebody wants the flow to end: what kept it from going on keeps it no longer from ending, `finally` included.
    pub(crate) fn lift_all(&mut self) {
        let holds = self.resident.flow.head.holds.iter().filter(|hold| hold.scope == HoldScope::Flow);
        for reason in holds.map(|hold| hold.reason).collect::<Vec<_>>() {
            self.lift(None, reason);
        }
    }

    /// Tells every child flow below a step, or of the whole flow. One that is still held by another hold of this flow is not
    /// told to go on.
    fn tell_children(&mut self, step: Option<&StepPath>, label: &str, input: &Input) {
        let lifts = matches!(input, Input::Lift { .. });
        let children = self.resident.flow.steps.iter().filter_map(|child| {
            let StepState::Waiting(Wait::Flow { flow, .. }) = child.state else { return None };
            let below = step.is_none_or(|path| self.resident.ancestry(child.no).any(|above| above.path == *path));
            (below && !(lifts && self.holds_child(child.no))).then_some(flow)
        });
        let children: Vec<FlowId> = children.collect();
        for flow in children {
            self.tell_flow(flow, label, input.clone());
        }
    }
}

fn scope_of(step: Option<&StepPath>) -> HoldScope {
    step.map_or(HoldScope::Flow, |path| HoldScope::Step(path.clone()))
}
