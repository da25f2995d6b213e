//! Walls: hard limits of time and of what agents use. A step's wall fails its attempt. A flow's wall ends the flow, or holds
//! it until somebody raises the wall.

use orc_domain::budget::{OnExhausted, Wall};
use orc_domain::event::Fact;
use orc_domain::flow::{Phase, StepNo, Stop};
use orc_domain::hold::{HoldReason, HoldScope};
use orc_domain::ids::RunId;
use orc_domain::run::StopReason;
use orc_domain::time::Millis;
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
        self.take(Transition::RunWall);
        let path = Some(self.step(no).path.clone());
        self.tell(Fact::WallReached { path, wall });
        self.ask_to_stop(no, id, StopReason::Wall(wall), false);
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
        self.tell(Fact::WallReached { path: None, wall });
        match budget.on_exhausted {
            OnExhausted::Fail => {
                self.take(Transition::FlowWallEnds);
                self.exhaust(wall);
            }
            OnExhausted::Wait(patience) => {
                self.take(Transition::FlowWallWaits);
                self.hold(None, HoldReason::Wall(wall), "", None);
                self.edit_head(|head| head.time_over = None);
                self.open_wall_request(wall, patience);
            }
        }
        true
    }

    fn is_at_wall(&self) -> bool {
        self.wall_held().is_some() || self.wall_request().is_some()
    }

    fn wall_held(&self) -> Option<Wall> {
        self.resident.flow.head.holds.iter().find_map(|hold| match (&hold.scope, hold.reason) {
            (HoldScope::Flow, HoldReason::Wall(wall)) => Some(wall),
            _ => None,
        })
    }

    fn exhaust(&mut self, wall: Wall) {
        let at = self.now;
        self.edit_head(|head| head.detail = format!("its budget of `{}` was used up", wall.word()));
        self.stop_main(Stop::Exhausted { wall, at });
    }

    /// Somebody raised the wall, or nobody will.
    pub(crate) fn wall_answered(&mut self, raised: bool) {
        let Some(wall) = self.wall_held() else { return };
        self.lift(None, HoldReason::Wall(wall));
        if !raised {
            self.take(Transition::FlowWallKept);
            return self.exhaust(wall);
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
