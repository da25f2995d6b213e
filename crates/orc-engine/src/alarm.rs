//! What has come due: back-offs that are over, runs past their deadline or silent, ends that were not confirmed, waits and
//! requests at their end, holds, places in a queue.

use orc_domain::effect::EffectKind;
use orc_domain::event::Fact;
use orc_domain::flow::{Phase, StepNo, StepState};
use orc_domain::graph::PhaseKind;
use orc_domain::ids::RunId;
use orc_domain::run::{RunState, StopReason, Stopping};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;

use crate::draft::Draft;

/// How long after the end of the grace time a stop that was not confirmed is asked for again.
pub(crate) const STOP_MARGIN: Millis = Millis::from_secs(30);
/// How long a paused run may take to come to the end of its turn, before it is ended in the middle of it.
const PAUSE_GRACE: Millis = Millis::from_secs(15 * 60);

impl Draft<'_> {
    /// Draws the consequences of time.
    pub(crate) fn fire_alarms(&mut self) {
        self.lift_expired();
        self.leave_queue();
        while let Some((at, no)) = self.resident.index.alarms.first().copied() {
            if at > self.now {
                break;
            }
            match &self.step(no).state {
                StepState::Ready { held_by, .. } => {
                    let fresh = held_by.is_none();
                    self.come_due(no, fresh);
                }
                StepState::Active { run } => {
                    let run = *run;
                    self.run_alarm(no, run);
                }
                StepState::Waiting(wait) => {
                    let wait = wait.clone();
                    self.wait_alarm(no, wait);
                }
                StepState::Blocked | StepState::Finished { .. } => {
                    self.resident.index.alarms.remove(&(at, no));
                }
            }
        }
        self.fire_requests();
        if let Some((Phase::Finally { deadline }, _)) = self.live()
            && deadline <= self.now
        {
            self.end_finally();
        }
    }

    fn run_alarm(&mut self, no: StepNo, id: RunId) {
        let Some(run) = self.resident.flow.runs.get(&id) else {
            return;
        };
        match &run.state {
            RunState::Pending { stop: None, .. } => {
                self.take(Transition::RunStartDeadline);
                self.ask_to_stop(no, id, StopReason::StartDeadline, true);
            }
            RunState::Running { stop: None, deadline, .. } => {
                let late = *deadline <= self.now;
                if late || !self.fell_silent(no, id) {
                    self.take(Transition::RunTimeout);
                    self.ask_to_stop(no, id, StopReason::Timeout, false);
                }
            }
            RunState::Pending { stop: Some(stop), .. } | RunState::Running { stop: Some(stop), .. } => {
                let reason = stop.reason;
                self.take(Transition::RunStopAgain);
                self.ask_to_stop(no, id, reason, true);
            }
            RunState::Finished { .. } => {}
        }
    }

    /// Asks a live run to end; a run that was asked before keeps the first reason.
    pub(crate) fn ask_to_stop(&mut self, no: StepNo, id: RunId, reason: StopReason, forced: bool) {
        let grace = match (forced, reason) {
            (true, _) => Millis::ZERO,
            // Nobody is in a hurry: a tool or an answer that is under way may come to its end.
            (false, StopReason::Paused) => PAUSE_GRACE,
            (false, _) => self.context.grace,
        };
        let again_at = self.now + grace + STOP_MARGIN;
        let mut kept = reason;
        self.edit_run(no, id, |run| {
            if let RunState::Pending { stop, .. } | RunState::Running { stop, .. } = &mut run.state {
                kept = stop.as_ref().map_or(reason, |stop| stop.reason);
                *stop = Some(Stopping { reason: kept, again_at, forced });
            }
        });
        let path = self.step(no).path.clone();
        self.tell(Fact::RunStopRequested { path, run: id, reason: kept, forced });
        let label = if forced { "kill" } else { "stop" };
        self.effect(id.uuid(), label, EffectKind::StopRun { run: id, reason: kept, grace });
    }

    /// The deadline of `finally`: what has not begun is cancelled, what runs is ended, and `finally` has failed, also if all
    /// that is left of it was asked to end before. Does nothing the second time.
    fn end_finally(&mut self) {
        let open: Vec<StepNo> = self.unfinished(PhaseKind::Finally);
        let mut changed = !open.is_empty() && !self.resident.flow.head.finally_failed;
        for no in open {
            changed |= self.cancel_step(no, StopReason::FinallyDeadline, false);
        }
        if changed {
            self.take(Transition::FlowFinallyDeadline);
            self.edit_head(|head| head.finally_failed = true);
        }
    }
}
