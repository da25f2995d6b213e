//! Cancel: durable, and it reaches the whole tree. Nothing new starts, what runs gets TERM, grace and KILL, `finally`
//! still runs under its own deadline; a second cancel ends everything at once.

use orc_domain::event::Fact;
use orc_domain::flow::{FlowState, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::PhaseKind;
use orc_domain::run::{RunState, StopReason};
use orc_domain::transition::Transition;

use crate::draft::Draft;

impl Draft<'_> {
    pub(crate) fn cancel(&mut self, force: bool) {
        let Some((_, stop)) = self.live() else { return };
        let (by, at) = (self.by.clone(), self.now);
        let (transition, next) = match (stop, force) {
            (Stop::Force { .. }, _) => return self.take(Transition::FlowCancelRepeated),
            (Stop::Cancel { .. }, _) => (Transition::FlowForced, Stop::Force { by, at }),
            (Stop::None, true) => (Transition::FlowForcedAtOnce, Stop::Force { by, at }),
            (Stop::None, false) => (Transition::FlowCancelled, Stop::Cancel { by, at }),
        };
        let forced = matches!(next, Stop::Force { .. });
        self.take(transition);
        self.tell(Fact::FlowCancelRequested { force: forced });
        self.edit_head(|head| {
            if let FlowState::Live { stop, .. } = &mut head.state {
                *stop = next;
            }
        });
        let mut open = self.unfinished(PhaseKind::Main);
        if forced {
            open.extend(self.unfinished(PhaseKind::Finally));
        }
        for no in open {
            self.cancel_step(no, StopReason::Cancel, forced);
        }
    }

    /// Steps of a phase that are not finished, elements before the fan-out that joins them.
    pub(crate) fn unfinished(&self, phase: PhaseKind) -> Vec<StepNo> {
        let steps = self.resident.flow.steps.iter().rev();
        let open = steps.filter(|step| !matches!(step.state, StepState::Finished { .. }));
        open.filter(|step| self.resident.spec_of(step).phase == phase).map(|step| step.no).collect()
    }

    /// Ends one step that is no longer wanted. True when that changed anything.
    pub(crate) fn cancel_step(&mut self, no: StepNo, reason: StopReason, forced: bool) -> bool {
        match &self.step(no).state {
            StepState::Blocked | StepState::Ready { .. } => {
                let fail_fast = reason == StopReason::FailFast;
                self.take(if fail_fast { Transition::ElementFailFast } else { Transition::StepCancelled });
                self.finish(no, StepOutcome::Cancelled);
                true
            }
            StepState::Active { run } => {
                let run = *run;
                match self.is_forced(run) {
                    None => self.take(Transition::RunStop),
                    Some(false) if forced => self.take(Transition::RunStopForced),
                    Some(_) => return false,
                }
                self.ask_to_stop(no, run, reason, forced);
                true
            }
            StepState::Waiting(_) => self.stop_expanding(no),
            StepState::Finished { .. } => false,
        }
    }

    /// `None`: the run was not asked to end. Else whether it was told to end at once.
    fn is_forced(&self, run: orc_domain::ids::RunId) -> Option<bool> {
        match &self.resident.flow.runs.get(&run)?.state {
            RunState::Pending { stop, .. } | RunState::Running { stop, .. } => stop.as_ref().map(|stop| stop.forced),
            RunState::Finished { .. } => None,
        }
    }
}
