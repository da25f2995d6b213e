//! Whether a flow wants to be looked at early enough for all that waits for a time: runs, steps, requests, holds, its own
//! deadlines. As in [`super::judge`], from the changes alone.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::flow::{FlowState, Phase, Step, StepNo, StepState, Stop};
use orc_domain::hold::HoldScope;
use orc_domain::request::{Request, RequestState};
use orc_domain::run::{Run, RunState};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::wait::Wait;

use super::judge::{Evidence, Shadow, is_finished};
use super::rule::{Checked, Rule, hold};

/// A step that waits for a slot is looked at again at least this often.
const HELD_AT_MOST: Millis = Millis::from_secs(60);
/// The same for a flow that queues.
const QUEUED_AT_MOST: Millis = Millis::from_secs(60);

impl Shadow {
    /// What is not finished has an alarm, early enough for everything that waits for one.
    pub(super) fn check_alarm(&self, evidence: &Evidence<'_>) -> Checked {
        let flow = evidence.flow;
        let Some(head) = &self.head else { return Ok(()) };
        if self.is_finished() {
            let open = self.steps.iter().find(|step| !is_finished(step));
            hold(open.is_none(), Rule::Final, flow, || {
                format!("the flow is over and {:?} is not", open.map(|step| step.path.as_str()))
            })?;
            return hold(head.wake_at.is_none(), Rule::Alarm, flow, || "a finished flow has an alarm".to_owned());
        }
        let Some(wake_at) = head.wake_at else {
            return hold(false, Rule::Alarm, flow, || "a live flow has no alarm".to_owned());
        };
        let deadline = match &head.state {
            FlowState::Live { phase: Phase::Finally { deadline }, .. } if *deadline > head.seen => {
                Some((*deadline, "`finally`"))
            }
            _ => None,
        };
        let own = self.own_alarms(evidence.wall);
        let live = self.runs.values().filter_map(|run| Some((run_alarm(run)?, run.path.as_str())));
        let full = self.full_groups();
        let steps = self
            .steps
            .iter()
            .filter_map(|step| Some((self.step_alarm(step, &full, evidence.wall)?, step.path.as_str())));
        let first = live.chain(steps).chain(deadline).chain(own).min();
        let late = first.filter(|(at, _)| *at < wake_at);
        hold(late.is_none(), Rule::Alarm, flow, || format!("the alarm is at {wake_at}, too late for {late:?}"))
    }

    fn step_alarm(&self, step: &Step, full: &BTreeSet<StepNo>, wall: Timestamp) -> Option<Timestamp> {
        let seen = self.head.as_ref()?.seen;
        let limited = step.origin.element().is_some_and(|element| full.contains(&element.group));
        match &step.state {
            // Whoever lifts the hold looks at it.
            StepState::Ready { .. } if self.is_held(step) => None,
            StepState::Ready { not_before, .. } if *not_before > seen => Some(*not_before),
            StepState::Ready { .. } if !limited => Some(wall + HELD_AT_MOST),
            StepState::Waiting(wait) => self.wait_alarm(wait, wall),
            _ => None,
        }
    }

    /// Fan-outs of which as many elements run as `limit` allows: the others wait for the end of one of them.
    fn full_groups(&self) -> BTreeSet<StepNo> {
        let mut active: BTreeMap<StepNo, u32> = BTreeMap::new();
        let runs = |state: &StepState| match state {
            StepState::Active { .. } => true,
            StepState::Waiting(wait) => matches!(wait, Wait::Elements(_) | Wait::Round(_) | Wait::Flow { .. }),
            _ => false,
        };
        for step in self.steps.iter().filter(|step| runs(&step.state)) {
            if let Some(element) = step.origin.element() {
                *active.entry(element.group).or_default() += 1;
            }
        }
        let limit = |group: StepNo| {
            let spec = &self.plan.pipeline.steps[self.steps[group.0 as usize].spec.0 as usize];
            spec.fan.as_ref().and_then(|foreach| foreach.limit)
        };
        let full = active.into_iter().filter(|(group, count)| limit(*group).is_some_and(|limit| *count >= limit));
        full.map(|(group, _)| group).collect()
    }

    /// Alarms that are not of a step or run: of a flow that queues or has a time, of its own requests and holds.
    pub(super) fn own_alarms(&self, wall: Timestamp) -> Vec<(Timestamp, &'static str)> {
        let Some(head) = &self.head else { return Vec::new() };
        let mut alarms = Vec::new();
        match &head.state {
            FlowState::Queued { .. } => return vec![(wall + QUEUED_AT_MOST, "the queue")],
            FlowState::Live { phase: Phase::Main, stop: Stop::None } if head.open_main > 0 => {
                alarms.extend(head.time_over.map(|at| (at, "the time of the flow")));
            }
            _ => {}
        }
        let ends = head.holds.iter().filter_map(|hold| hold.until);
        alarms.extend(ends.map(|at| (at, "a hold")));
        let own = self.requests.values().filter(|request| request.step.is_none());
        alarms.extend(own.filter_map(request_alarm).map(|at| (at, "a request of the flow")));
        alarms
    }

    /// The alarm of what a step waits for.
    pub(super) fn wait_alarm(&self, wait: &Wait, wall: Timestamp) -> Option<Timestamp> {
        match wait {
            Wait::Elements(fan) => (fan.expanded < fan.total).then_some(wall),
            Wait::Round(_) => None,
            Wait::Flow { look_at, .. } => Some(*look_at),
            Wait::Request { request } => self.requests.get(request).and_then(request_alarm),
            Wait::Until { at } => Some(*at),
            Wait::Event { deadline, .. } => Some(*deadline),
        }
    }

    /// Whether nothing of this step may start.
    pub(super) fn is_held(&self, step: &Step) -> bool {
        let holds = self.head.iter().flat_map(|head| &head.holds);
        holds.into_iter().any(|hold| match &hold.scope {
            HoldScope::Flow => true,
            HoldScope::Step(path) => self.ancestry(step).any(|above| above.path == *path),
        })
    }
}

fn request_alarm(request: &Request) -> Option<Timestamp> {
    match request.state {
        RequestState::Open { deadline, tell_at, .. } => Some(tell_at.map_or(deadline, |at| at.min(deadline))),
        RequestState::Resolved { .. } => None,
    }
}

fn run_alarm(run: &Run) -> Option<Timestamp> {
    match &run.state {
        RunState::Pending { deadline, stop, .. } => Some(stop.as_ref().map_or(*deadline, |stop| stop.again_at)),
        RunState::Running { since, deadline, stop, .. } => {
            let silent = run
                .agent
                .as_ref()
                .map(|agent| agent.statistics.last_output_at.map_or(*since, |last| last.max(*since)) + agent.silence);
            let first = silent.map_or(*deadline, |at| at.min(*deadline));
            Some(stop.as_ref().map_or(first, |stop| stop.again_at))
        }
        RunState::Finished { .. } => None,
    }
}
