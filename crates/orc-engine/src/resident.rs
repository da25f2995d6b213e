//! A flow that lives in memory between decisions: the flow, its definition, and an index derived from both.
//!
//! The index is what makes a decision cheap: it answers "what may start", "what comes due next" and "how far is this
//! fan-out" without walking over a thousand steps. It is never stored; [`Resident::new`] builds it from the flow, and
//! [`Resident::index_is_true`] compares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orc_domain::flow::{Flow, FlowState, Phase, Step, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::{Graph, Pipeline, SpecIndex, StepSpec};
use orc_domain::run::{Run, RunState};
use orc_domain::time::Timestamp;

/// A flow with its definition and index.
#[derive(Clone, Debug)]
pub struct Resident {
    pub(crate) flow: Flow,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) dependents: Arc<[Vec<SpecIndex>]>,
    pub(crate) index: Index,
    /// As in the head, but moved on also by decisions that change nothing and so write no row.
    pub(crate) wake_at: Option<Timestamp>,
}

/// Derived from the steps and runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// Steps that may start as far as time goes, by fan-out (`None`: not an element).
    pub(crate) due: BTreeMap<Option<StepNo>, BTreeSet<StepNo>>,
    /// When a step or its run wants to be looked at.
    pub(crate) alarms: BTreeSet<(Timestamp, StepNo)>,
    /// Fan-outs whose elements are not all written.
    pub(crate) expanding: BTreeSet<StepNo>,
    /// Counts of each fan-out that is not finished.
    pub(crate) groups: BTreeMap<StepNo, GroupCount>,
    /// Direct parents that are not finished, for the instances of the definition.
    pub(crate) blockers: Vec<u32>,
}

/// How far a fan-out is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCount {
    pub(crate) active: u32,
    pub(crate) finished: u32,
    pub(crate) failed: u32,
    pub(crate) cancelled: u32,
}

impl Resident {
    /// Takes a flow, new or loaded, with the definition it pinned.
    #[must_use]
    pub fn new(flow: Flow, pipeline: Arc<Pipeline>) -> Self {
        let graph = Graph::of(&pipeline);
        let dependents: Vec<_> = (0..pipeline.steps.len()).map(|at| graph.dependents(spec_index(at))).collect();
        let mut resident =
            Self { wake_at: flow.head.wake_at, flow, pipeline, dependents: dependents.into(), index: Index::default() };
        resident.index = resident.build_index();
        resident
    }

    /// The flow.
    #[must_use]
    pub const fn flow(&self) -> &Flow {
        &self.flow
    }

    /// The definition.
    #[must_use]
    pub const fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// When the flow wants to be looked at again; `None` when it is finished. Its row may say an earlier time: an alarm that
    /// changed nothing (a slot is still not free) moves on here without a commit.
    #[must_use]
    pub const fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }

    /// Whether it would start something if a slot were free.
    #[must_use]
    pub fn wants_slot(&self) -> bool {
        self.may_start(self.flow.head.seen) && self.index.due.keys().any(|group| self.has_room(*group))
    }

    /// Whether steps of the current phase are still wanted: a cancel ends the main part, force also `finally`.
    pub(crate) const fn is_open(&self) -> bool {
        match &self.flow.head.state {
            FlowState::Live { phase, stop } => match phase {
                Phase::Main => matches!(stop, Stop::None),
                Phase::Finally { .. } => !matches!(stop, Stop::Force { .. }),
            },
            FlowState::Finished { .. } => false,
        }
    }

    /// Whether steps of the current phase may start: they are wanted and the deadline of `finally` has not passed.
    pub(crate) fn may_start(&self, now: Timestamp) -> bool {
        let late = match &self.flow.head.state {
            FlowState::Live { phase: Phase::Finally { deadline }, .. } => *deadline <= now,
            FlowState::Live { .. } | FlowState::Finished { .. } => false,
        };
        self.is_open() && !late
    }

    /// Whether the `limit` of a fan-out allows another element. `None`: steps that are not elements have none.
    pub(crate) fn has_room(&self, group: Option<StepNo>) -> bool {
        let Some(group) = group else { return true };
        let spec = &self.pipeline.steps[self.flow.steps[group.0 as usize].spec.0 as usize];
        let limit = spec.foreach.as_ref().and_then(|foreach| foreach.limit);
        let active = self.index.groups.get(&group).map_or(0, |count| count.active);
        limit.is_none_or(|limit| active < limit)
    }

    /// Whether the index is what it would be if it were built now: a check for proofs.
    #[must_use]
    pub fn index_is_true(&self) -> bool {
        let built = self.build_index();
        let due = |index: &Index| -> BTreeSet<StepNo> { index.due.values().flatten().copied().collect() };
        // A ready step whose time has come lies in `due`, in an index built anew still under its alarm.
        let waiting = |index: &Index| -> BTreeSet<StepNo> {
            let alarms = index.alarms.iter().map(|(_, no)| *no);
            alarms.chain(due(index)).collect()
        };
        waiting(&self.index) == waiting(&built)
            && self.index.expanding == built.expanding
            && self.index.groups == built.groups
            && self.index.blockers == built.blockers
    }

    /// The definition of a step instance.
    pub(crate) fn spec_of(&self, step: &Step) -> &StepSpec {
        &self.pipeline.steps[step.spec.0 as usize]
    }

    /// The written elements of a fan-out, in index order, finished or not.
    pub(crate) fn elements(&self, group: StepNo) -> impl Iterator<Item = &Step> {
        let belongs = move |step: &&Step| step.element.as_ref().is_some_and(|element| element.group == group);
        let later = self.flow.steps.iter().skip(self.pipeline.steps.len());
        later.skip_while(move |step| !belongs(step)).take_while(belongs)
    }

    fn build_index(&self) -> Index {
        let mut index = Index { blockers: self.count_blockers(), ..Index::default() };
        for step in &self.flow.steps {
            if let StepState::Waiting(fan) = &step.state {
                index.groups.insert(step.no, GroupCount::default());
                if fan.expanded < fan.total {
                    index.expanding.insert(step.no);
                }
            }
        }
        for step in &self.flow.steps {
            if let Some(at) = alarm_of(step, &self.flow) {
                index.alarms.insert((at, step.no));
            }
            index.count_element(step);
        }
        index
    }

    fn count_blockers(&self) -> Vec<u32> {
        let open = |parent: &SpecIndex| {
            let step = self.flow.steps.get(parent.0 as usize);
            step.is_none_or(|step| !matches!(step.state, StepState::Finished { .. }))
        };
        let count = |spec: &StepSpec| spec.needs.iter().filter(|need| open(need)).count();
        self.pipeline.steps.iter().map(|spec| u32::try_from(count(spec)).unwrap_or(u32::MAX)).collect()
    }
}

impl Index {
    /// Adds what an element contributes to the counts of its fan-out.
    pub(crate) fn count_element(&mut self, step: &Step) {
        self.tally(step, |count, by| *count += by);
    }

    /// Takes it away again, before the element changes.
    pub(crate) fn uncount_element(&mut self, step: &Step) {
        self.tally(step, |count, by| *count -= by);
    }

    fn tally(&mut self, step: &Step, apply: impl Fn(&mut u32, u32)) {
        let Some(count) = step.element.as_ref().and_then(|element| self.groups.get_mut(&element.group)) else {
            return;
        };
        match &step.state {
            StepState::Active { .. } => apply(&mut count.active, 1),
            StepState::Finished { outcome } => {
                apply(&mut count.finished, 1);
                match outcome {
                    StepOutcome::Failed(_) => apply(&mut count.failed, 1),
                    StepOutcome::Cancelled => apply(&mut count.cancelled, 1),
                    StepOutcome::Succeeded | StepOutcome::NoChange | StepOutcome::Skipped(_) => {}
                }
            }
            StepState::Blocked | StepState::Ready { .. } | StepState::Waiting(_) => {}
        }
    }
}

/// When a step wants to be looked at: its back-off, or the deadline of its run.
pub(crate) fn alarm_of(step: &Step, flow: &Flow) -> Option<Timestamp> {
    match &step.state {
        StepState::Ready { not_before, .. } => Some(*not_before),
        StepState::Active { run } => flow.runs.get(run).and_then(run_alarm),
        StepState::Blocked | StepState::Waiting(_) | StepState::Finished { .. } => None,
    }
}

/// The alarm of a run: the next time its end is asked for, else its deadline.
pub(crate) fn run_alarm(run: &Run) -> Option<Timestamp> {
    match &run.state {
        RunState::Pending { deadline, stop, .. } | RunState::Running { deadline, stop, .. } => {
            Some(stop.as_ref().map_or(*deadline, |stop| stop.again_at))
        }
        RunState::Finished { .. } => None,
    }
}

/// The position of a step in its definition, as the type that names it. Definitions are bounded far below `u32::MAX`.
pub(crate) fn spec_index(at: usize) -> SpecIndex {
    SpecIndex(u32::try_from(at).unwrap_or(u32::MAX))
}
