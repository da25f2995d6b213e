//! Cancel: durable, and it reaches the whole tree. Nothing new starts, what runs gets TERM, grace and KILL, `finally`
//! still runs under its own deadline; a second cancel ends everything at once.

use orc_domain::event::Fact;
use orc_domain::flow::{FlowState, Phase, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::PhaseKind;
use orc_domain::permission::Scope;
use orc_domain::request::Answer;
use orc_domain::run::{RunState, StopReason};
use orc_domain::transition::Transition;
use orc_domain::wait::Wait;

use crate::draft::Draft;

impl Draft<'_> {
    pub(crate) fn cancel(&mut self, force: bool) {
        if matches!(self.resident.flow.head.state, FlowState::Queued { .. }) {
            return self.cancel_queued(Transition::FlowUnqueuedCancelled);
        }
        let Some((_, stop)) = self.live() else { return };
        let (by, at) = (self.by.clone(), self.now);
        let (transition, next) = match (stop, force) {
            (Stop::Force { .. }, _) => return self.take(Transition::FlowCancelRepeated),
            (Stop::Cancel { .. } | Stop::Exhausted { .. }, _) => (Transition::FlowForced, Stop::Force { by, at }),
            (Stop::None, true) => (Transition::FlowForcedAtOnce, Stop::Force { by, at }),
            (Stop::None, false) => (Transition::FlowCancelled, Stop::Cancel { by, at }),
        };
        let force = matches!(next, Stop::Force { .. });
        self.take(transition);
        self.tell(Fact::FlowCancelRequested { force });
        self.lift_all();
        self.stop_main(next);
    }

    /// Another flow wants this one to end. Heard again it changes nothing.
    pub(crate) fn end_for_another(&mut self, force: bool) {
        match self.live() {
            Some((_, Stop::Cancel { .. } | Stop::Exhausted { .. })) if !force => {
                self.take(Transition::FlowCancelRepeated);
            }
            _ => self.cancel(force),
        }
    }

    /// Ends the main part, and with force `finally` too.
    pub(crate) fn stop_main(&mut self, next: Stop) {
        let forced = matches!(next, Stop::Force { .. });
        self.edit_head(|head| {
            if let FlowState::Live { stop, .. } = &mut head.state {
                *stop = next;
            }
        });
        self.withdraw_own_requests();
        let mut open = self.unfinished(PhaseKind::Main);
        if forced {
            open.extend(self.unfinished(PhaseKind::Finally));
        }
        for no in open {
            self.cancel_step(no, StopReason::Cancel, forced);
        }
    }

    /// Ends a flow of which nothing has begun because somebody wants that.
    pub(crate) fn cancel_queued(&mut self, transition: Transition) {
        let (by, at) = (self.by.clone(), self.now);
        self.take(transition);
        self.give_up(Stop::Force { by, at });
    }

    /// Ends a flow of which nothing has begun: also its `finally` does not run.
    pub(crate) fn give_up(&mut self, stop: Stop) {
        self.edit_head(|head| head.state = FlowState::Live { phase: Phase::Main, stop });
        for phase in [PhaseKind::Main, PhaseKind::Finally] {
            for no in self.unfinished(phase) {
                self.cancel_step(no, StopReason::Cancel, true);
            }
        }
    }

    /// Steps of a phase that are not finished, what was made before what made it.
    pub(crate) fn unfinished(&self, phase: PhaseKind) -> Vec<StepNo> {
        let steps = self.resident.flow.steps.iter().rev();
        let open = steps.filter(|step| !matches!(step.state, StepState::Finished { .. }));
        open.filter(|step| self.resident.spec_of(step).phase == phase).map(|step| step.no).collect()
    }

    /// Ends one step that is no longer wanted, with what is below it. True when that changed anything.
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
            StepState::Waiting(wait) => match wait {
                Wait::Elements(_) => {
                    let cut = self.stop_expanding(no);
                    self.cancel_below(no, reason, forced) || cut
                }
                Wait::Round(_) => self.cancel_below(no, reason, forced),
                Wait::Flow { .. } => self.stop_child(no, reason, forced),
                Wait::Request { request } => {
                    let request = *request;
                    if let Some(request) = self.open_request(request, |_| true) {
                        self.resolve(request, (Answer::Withdrawn, Scope::Call), "");
                    }
                    self.take(Transition::RequestWithdrawn);
                    self.finish(no, StepOutcome::Cancelled);
                    true
                }
                Wait::Until { .. } | Wait::Event { .. } => {
                    self.take(Transition::WaitEnded);
                    self.finish(no, StepOutcome::Cancelled);
                    true
                }
            },
            StepState::Finished { .. } => false,
        }
    }

    fn cancel_below(&mut self, no: StepNo, reason: StopReason, forced: bool) -> bool {
        let open = self.resident.below(no).filter(|step| !matches!(step.state, StepState::Finished { .. }));
        let open: Vec<StepNo> = open.map(|step| step.no).collect();
        let mut changed = false;
        for no in open.into_iter().rev() {
            changed |= self.cancel_step(no, reason, forced);
        }
        changed
    }

    /// `None`: the run was not asked to end. Else whether it was told to end at once.
    fn is_forced(&self, run: orc_domain::ids::RunId) -> Option<bool> {
        match &self.resident.flow.runs.get(&run)?.state {
            RunState::Pending { stop, .. } | RunState::Running { stop, .. } => stop.as_ref().map(|stop| stop.forced),
            RunState::Finished { .. } => None,
        }
    }
}
