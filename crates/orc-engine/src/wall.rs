//! Walls: hard limits of time and of what agents use. A step's wall fails its attempt. A flow's wall ends the flow, or holds
//! it until somebody raises the wall.

use orc_domain::budget::{OnExhausted, Wall};
use orc_domain::event::Fact;
use orc_domain::flow::{Phase, StepNo, StepOutcome, Stop};
use orc_domain::hold::{HoldReason, HoldScope};
use orc_domain::ids::RunId;
use orc_domain::meter::{Limits, Owner, Shortfall};
use orc_domain::run::{Cause, ErrorFamily, Failure, RunOutcome, StopReason, WakeReason};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::transition::Transition;

use crate::draft::Draft;

impl Draft<'_> {
    /// The clock of the flow's own budget begins with its work, not while it queues.
    pub(crate) fn begin_time(&mut self) {
        let time = self.resident.pipeline.budget.and_then(|budget| budget.time);
        if let Some(time) = time {
            let over = self.now + time;
            self.edit_head(|head| head.time_over = Some(over));
        }
    }

    /// The longest that an attempt may take, and the wall that this is, if its `timeout` is not.
    pub(crate) fn time_limit(&self, no: StepNo) -> (Millis, Option<Wall>) {
        let spec = self.spec(no);
        match spec.budget.and_then(|budget| budget.time) {
            Some(time) if time < spec.timeout => (time, Some(Wall::Time)),
            _ => (spec.timeout, None),
        }
    }

    /// Ends a run that has used up the budget of its step.
    pub(crate) fn check_step_wall(&mut self, no: StepNo, id: RunId) {
        let used = self.resident.flow.runs.get(&id).and_then(|run| run.agent.as_ref()).map(|agent| agent.usage);
        let (Some(budget), Some(used)) = (self.spec(no).budget, used) else { return };
        let Some(wall) = budget.reached(&used, 1) else { return };
        if self.stopping(id).is_some() {
            return;
        }
        self.reach_step_wall(no, id, wall, budget.figures(wall, &used, 1));
    }

    /// Looks at the walls of a flow that has something left to do. True when it reached one.
    pub(crate) fn check_walls(&mut self) -> bool {
        let Some(budget) = self.resident.pipeline.budget else { return false };
        let head = &self.resident.flow.head;
        let goes_on = matches!(self.live(), Some((Phase::Main, Stop::None))) && head.open_main > 0;
        if !goes_on || self.is_at_wall() {
            return false;
        }
        let late = head.time_over.is_some_and(|at| at <= self.now).then_some(Wall::Time);
        let Some(wall) = late.or_else(|| budget.reached(&head.usage, head.raised)) else { return false };
        let figures = budget.figures(wall, &head.usage, head.raised);
        self.at_wall(wall, figures, budget.on_exhausted);
        true
    }

    fn at_wall(&mut self, wall: Wall, short: Option<Shortfall>, on_exhausted: OnExhausted) {
        self.tell(Fact::WallReached { path: None, wall, short });
        let figures = figures(wall, short);
        match on_exhausted {
            OnExhausted::Fail => {
                self.take(Transition::FlowWallEnds);
                self.exhaust(wall, &figures);
            }
            OnExhausted::Wait(patience) => {
                self.take(Transition::FlowWallWaits);
                self.hold(None, HoldReason::Wall(wall), &figures, None);
                self.edit_head(|head| head.time_over = None);
                self.open_wall_request((wall, short), &figures, patience);
            }
        }
    }

    /// Walls above the calls of a run, the nearest first.
    pub(crate) fn walls_of(&self, no: StepNo, run: RunId) -> Vec<(Owner, Limits)> {
        let own = self.spec(no).budget.map(|budget| (Owner::Run(run), Limits::of(&budget, 1)));
        own.filter(|(_, limits)| !limits.is_none()).into_iter().chain(self.walls_of_flow()).collect()
    }

    /// Walls of the flow and of those above it, the nearest first.
    pub(crate) fn walls_of_flow(&self) -> Vec<(Owner, Limits)> {
        let flow = &self.resident.flow;
        let own = self.resident.pipeline.budget;
        let own = own.map(|budget| (Owner::Flow(flow.spec.id), Limits::of(&budget, flow.head.raised)));
        let above = flow.spec.walls_above.iter().copied();
        own.filter(|(_, limits)| !limits.is_none()).into_iter().chain(above).collect()
    }

    /// The gateway refused a call: what is left below the wall is of no use to a model, so the wall is reached.
    pub(crate) fn call_refused(&mut self, no: StepNo, id: RunId, (whose, wall): (Owner, Wall), short: Shortfall) {
        let is_stopping = self.stopping(id).is_some();
        match whose {
            Owner::Run(_) if !is_stopping => self.reach_step_wall(no, id, wall, Some(short)),
            Owner::Run(_) => {}
            Owner::Flow(_) | Owner::Gateway => {
                let own = whose == Owner::Flow(self.flow_id());
                let on_exhausted = self.resident.pipeline.budget.filter(|_| own).map(|budget| budget.on_exhausted);
                let goes_on = matches!(self.live(), Some((Phase::Main, Stop::None)));
                if goes_on && !self.is_at_wall() {
                    // Who is below a wall of a flow above cannot have it raised.
                    self.at_wall(wall, Some(short), on_exhausted.unwrap_or_default());
                }
                // What is not stopped with its flow waits with it; `finally` has nothing left to wait for.
                if self.stopping(id).is_none() {
                    if self.is_at_wall() {
                        self.take(Transition::RunFlowWall);
                        self.ask_to_stop(no, id, StopReason::FlowWall(wall), false);
                    } else {
                        self.reach_step_wall(no, id, wall, Some(short));
                    }
                }
            }
        }
    }

    fn reach_step_wall(&mut self, no: StepNo, id: RunId, wall: Wall, short: Option<Shortfall>) {
        self.take(Transition::RunWall);
        let path = Some(self.step(no).path.clone());
        self.tell(Fact::WallReached { path, wall, short });
        self.edit_run(no, id, |run| {
            if let Some(agent) = &mut run.agent {
                agent.short = short;
            }
        });
        self.ask_to_stop(no, id, StopReason::Wall(wall), false);
    }

    /// The provider of its model takes nothing: the run gives its slot to others until then.
    pub(crate) fn run_parked(&mut self, no: StepNo, id: RunId, (provider, until): (&str, Timestamp), why: &str) {
        if self.stopping(id).is_some() {
            return;
        }
        self.take(Transition::RunParked);
        let (path, provider, why) = (self.step(no).path.clone(), provider.to_owned(), why.to_owned());
        self.tell(Fact::RunParked { path, run: id, provider, until, why });
        self.ask_to_stop(no, id, StopReason::Parked(until), false);
    }

    /// A run ended because it could not go on for now: its step runs again when it can, and no attempt is used up.
    pub(crate) fn runs_later(&mut self, no: StepNo, id: RunId, reason: StopReason) {
        let (not_before, transition) = match reason {
            StopReason::Parked(until) => (until.max(self.now), Transition::StepParked),
            StopReason::Paused => (self.now, Transition::StepPaused),
            _ => (self.now, Transition::StepAtWall),
        };
        self.take(Transition::RunCancelled);
        self.keep_messages(no, id);
        self.finish_run(no, id, RunOutcome::Cancelled { reason });
        if !self.is_wanted(no) {
            self.take(Transition::StepStopped);
            return self.finish(no, StepOutcome::Cancelled);
        }
        if !self.spec(no).idempotent {
            let family = match reason {
                StopReason::Parked(_) => ErrorFamily::TransientUpstream,
                _ => ErrorFamily::BudgetExceeded,
            };
            let detail = "its run had to be stopped, and it is not run again by itself".to_owned();
            self.take(Transition::StepLostNotIdempotent);
            let failure = Failure { family, cause: Cause::LostNotIdempotent, detail };
            return self.finish(no, StepOutcome::Failed(failure));
        }
        self.take(transition);
        self.make_ready(no, not_before, WakeReason::Recovery { lost: id });
    }

    fn is_at_wall(&self) -> bool {
        self.wall_held().is_some() || self.wall_request().is_some()
    }

    /// The wall that holds the flow, with its figures in words.
    fn wall_held(&self) -> Option<(Wall, &str)> {
        self.resident.flow.head.holds.iter().find_map(|hold| match (&hold.scope, hold.reason) {
            (HoldScope::Flow, HoldReason::Wall(wall)) => Some((wall, &*hold.note)),
            _ => None,
        })
    }

    fn exhaust(&mut self, wall: Wall, figures: &str) {
        let at = self.now;
        let figures = if figures.is_empty() { String::new() } else { format!(": {figures}") };
        self.edit_head(|head| head.detail = format!("its budget of `{}` was reached{figures}", wall.word()));
        self.stop_main(Stop::Exhausted { wall, at });
    }

    /// Somebody raised the wall, or nobody will.
    pub(crate) fn wall_answered(&mut self, raised: bool) {
        let Some((wall, figures)) = self.wall_held() else { return };
        let figures = figures.to_owned();
        self.lift(None, HoldReason::Wall(wall));
        if !raised {
            self.take(Transition::FlowWallKept);
            return self.exhaust(wall, &figures);
        }
        self.take(Transition::FlowWallRaised);
        let time = self.resident.pipeline.budget.and_then(|budget| budget.time);
        let now = self.now;
        self.edit_head(|head| {
            head.raised = head.raised.saturating_add(1);
            head.time_over = time.map(|time| now + time);
        });
    }
}

fn figures(wall: Wall, short: Option<Shortfall>) -> String {
    short.map_or_else(String::new, |short| short.told(wall))
}
