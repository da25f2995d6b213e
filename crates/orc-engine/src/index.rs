//! What answers "what may start", "what comes due next" and "how far is this fan-out" without walking over a thousand
//! steps. Derived from the flow and never stored; every change of a step takes its part out and puts it in again.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::flow::{Flow, Origin, Step, StepNo, StepOutcome, StepState};
use orc_domain::graph::{PRIORITY_AGE, StepSpec};
use orc_domain::request::{Request, RequestState};
use orc_domain::run::{Run, RunState};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::wait::Wait;

use crate::resident::Resident;

/// Ready steps that wait for the same: the room of their fan-out, and a slot or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    /// The fan-out; none: not an element.
    pub(crate) group: Option<StepNo>,
    /// Whether it needs a slot.
    pub(crate) slot: bool,
}

/// Derived from the steps and runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// Steps that may start as far as time goes, with their rank: the smallest is the first.
    pub(crate) due: BTreeMap<Lane, BTreeSet<(Timestamp, StepNo)>>,
    /// When a step or its run wants to be looked at.
    pub(crate) alarms: BTreeSet<(Timestamp, StepNo)>,
    /// Fan-outs whose elements are not all written.
    pub(crate) expanding: BTreeSet<StepNo>,
    /// Counts of each fan-out and each step that repeats that is not finished.
    pub(crate) groups: BTreeMap<StepNo, GroupCount>,
    /// What each step made.
    pub(crate) below: BTreeMap<StepNo, Vec<StepNo>>,
    /// Direct parents that are not finished, for each instance.
    pub(crate) blockers: Vec<u32>,
    /// How many steps of this flow are in a concurrency group.
    pub(crate) places: BTreeMap<String, u32>,
}

/// How far a fan-out or a step that repeats is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCount {
    /// Elements that are under way; those that wait for people, a time or an event are not.
    pub(crate) active: u32,
    pub(crate) finished: u32,
    /// Those that count as failed: of a round, not those under `continue_on_fail`.
    pub(crate) failed: u32,
    pub(crate) cancelled: u32,
}

impl Resident {
    /// Whether the index is what it would be if it were built now: a check for proofs.
    #[must_use]
    pub fn index_is_true(&self) -> bool {
        let built = self.build_index();
        let due = |index: &Index| -> BTreeSet<StepNo> { index.due.values().flatten().map(|(_, no)| *no).collect() };
        // A ready step whose time has come lies in `due`, in an index built anew still under its alarm.
        let waiting = |index: &Index| -> BTreeSet<StepNo> {
            let alarms = index.alarms.iter().map(|(_, no)| *no);
            alarms.chain(due(index)).collect()
        };
        waiting(&self.index) == waiting(&built)
            && self.index.expanding == built.expanding
            && self.index.groups == built.groups
            && self.index.below == built.below
            && self.index.blockers == built.blockers
            && self.index.places == built.places
    }

    pub(crate) fn build_index(&self) -> Index {
        let mut index = Index::default();
        for step in &self.flow.steps {
            if let Some(above) = step.origin.above() {
                index.below.entry(above).or_default().push(step.no);
            }
            index.blockers.push(self.count_blockers(step));
            index.add_group(step);
        }
        for step in &self.flow.steps {
            if let Some(at) = alarm_of(step, &self.flow) {
                index.alarms.insert((at, step.no));
            }
            index.count(step, self.spec_of(step));
        }
        index
    }

    /// Direct parents of a step that are not finished. Elements have none: their fan-out had them.
    pub(crate) fn count_blockers(&self, step: &Step) -> u32 {
        if matches!(step.origin, Origin::Element(_)) {
            return 0;
        }
        let body = self.body_of(step.no);
        let open = |no: StepNo| {
            let step = self.flow.step(no);
            step.is_none_or(|step| !matches!(step.state, StepState::Finished { .. }))
        };
        let needs = self.spec_of(step).needs.iter();
        u32::try_from(needs.filter(|need| open(body.instance(**need))).count()).unwrap_or(u32::MAX)
    }

    /// Where a ready step stands among those that wait: it is as old as it has been ready, and older for its priority.
    pub(crate) fn rank(&self, step: &Step, not_before: Timestamp) -> Timestamp {
        let priority = i64::from(self.spec_of(step).priority) + i64::from(self.flow.spec.priority);
        let worth = priority.saturating_mul(i64::try_from(PRIORITY_AGE.as_millis()).unwrap_or(i64::MAX));
        Timestamp::from_millis(not_before.as_millis().saturating_sub(worth))
    }
}

impl Index {
    /// Keeps the entries of a step that others are below of.
    pub(crate) fn add_group(&mut self, step: &Step) {
        match &step.state {
            StepState::Waiting(Wait::Elements(fan)) => {
                self.groups.entry(step.no).or_default();
                if fan.expanded < fan.total {
                    self.expanding.insert(step.no);
                } else {
                    self.expanding.remove(&step.no);
                }
            }
            StepState::Waiting(Wait::Round(_)) => {
                self.groups.entry(step.no).or_default();
            }
            _ => {
                self.expanding.remove(&step.no);
                self.groups.remove(&step.no);
            }
        }
    }

    /// Adds what a step contributes to counts.
    pub(crate) fn count(&mut self, step: &Step, spec: &StepSpec) {
        for place in &step.places {
            *self.places.entry(place.clone()).or_default() += 1;
        }
        self.tally(step, spec, |count, by| *count += by);
    }

    /// Takes it away again, before the step changes.
    pub(crate) fn uncount(&mut self, step: &Step, spec: &StepSpec) {
        for place in &step.places {
            if let Some(count) = self.places.get_mut(place) {
                *count -= 1;
                if *count == 0 {
                    self.places.remove(place);
                }
            }
        }
        self.tally(step, spec, |count, by| *count -= by);
    }

    fn tally(&mut self, step: &Step, spec: &StepSpec, apply: impl Fn(&mut u32, u32)) {
        let Some(count) = step.origin.above().and_then(|above| self.groups.get_mut(&above)) else {
            return;
        };
        let forgiven = matches!(step.origin, Origin::Round { .. }) && spec.continue_on_fail;
        match &step.state {
            StepState::Active { .. } | StepState::Waiting(Wait::Elements(_) | Wait::Round(_) | Wait::Flow { .. }) => {
                apply(&mut count.active, 1)
            }
            StepState::Finished { outcome } => {
                apply(&mut count.finished, 1);
                match outcome {
                    StepOutcome::Failed(_) if !forgiven => apply(&mut count.failed, 1),
                    StepOutcome::Cancelled => apply(&mut count.cancelled, 1),
                    StepOutcome::Failed(_)
                    | StepOutcome::Succeeded
                    | StepOutcome::NoChange
                    | StepOutcome::Skipped(_) => {}
                }
            }
            StepState::Blocked
            | StepState::Ready { .. }
            | StepState::Waiting(Wait::Request { .. } | Wait::Until { .. } | Wait::Event { .. }) => {}
        }
    }
}

/// When a step wants to be looked at: its back-off, the deadline of its run, the end of its wait.
pub(crate) fn alarm_of(step: &Step, flow: &Flow) -> Option<Timestamp> {
    match &step.state {
        StepState::Ready { not_before, .. } => Some(*not_before),
        StepState::Active { run } => flow.runs.get(run).and_then(run_alarm),
        StepState::Waiting(wait) => match wait {
            Wait::Flow { look_at, stop, .. } => {
                Some(stop.as_ref().map_or(*look_at, |stop| stop.again_at.min(*look_at)))
            }
            Wait::Request { request } => flow.requests.get(request).and_then(request_alarm),
            Wait::Until { at } => Some(*at),
            Wait::Event { deadline, .. } => Some(*deadline),
            Wait::Elements(_) | Wait::Round(_) => None,
        },
        StepState::Blocked | StepState::Finished { .. } => None,
    }
}

/// The alarm of a run: the next time its end is asked for, else its deadline or the end of its silence.
pub(crate) fn run_alarm(run: &Run) -> Option<Timestamp> {
    match &run.state {
        RunState::Pending { stop: Some(stop), .. } | RunState::Running { stop: Some(stop), .. } => Some(stop.again_at),
        RunState::Pending { deadline, .. } => Some(*deadline),
        RunState::Running { deadline, .. } => Some(silent_at(run).map_or(*deadline, |at| at.min(*deadline))),
        RunState::Finished { .. } => None,
    }
}

/// When an agent that says nothing from now on has been silent for too long.
pub(crate) fn silent_at(run: &Run) -> Option<Timestamp> {
    let RunState::Running { since, .. } = run.state else { return None };
    let agent = run.agent.as_ref()?;
    Some(agent.statistics.last_output_at.unwrap_or(since).max(since) + agent.silence)
}

/// The alarm of an open request: people are told again, or it closes.
pub(crate) const fn request_alarm(request: &Request) -> Option<Timestamp> {
    match &request.state {
        RequestState::Open { deadline, tell_at: Some(at), .. } if at.as_millis() < deadline.as_millis() => Some(*at),
        RequestState::Open { deadline, .. } => Some(*deadline),
        RequestState::Resolved { .. } => None,
    }
}

/// A child flow that was not heard of for so long is asked for.
pub(crate) const CHILD_LOOK: Millis = Millis::from_secs(600);
