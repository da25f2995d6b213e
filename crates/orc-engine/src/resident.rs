//! A flow that lives in memory between decisions: the flow, its definition, and what both say about each other.
//!
//! The index (`index.rs`) is what makes a decision cheap. It is never stored; [`Resident::new`] builds it from the flow,
//! and [`Resident::index_is_true`] compares.

use std::collections::BTreeSet;
use std::sync::Arc;

use orc_domain::action::AgentAction;
use orc_domain::flow::{Flow, FlowOutcome, FlowState, Held, Origin, Phase, Step, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::{Action, Graph, Pipeline, SpecIndex, StepSpec};
use orc_domain::hold::HoldScope;
use orc_domain::ids::{ContentHash, FlowId, RequestId};
use orc_domain::input::Input;
use orc_domain::path::StepPath;
use orc_domain::permission::{Above, Scope};
use orc_domain::principal::Principal;
use orc_domain::request::{AnswerError, Standing};
use orc_domain::time::Timestamp;
use orc_domain::wait::Wait;

use crate::index::{Index, Lane};

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

/// A body of steps as it stands in a flow: which part of the definition, and from which position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// The first step of the definition.
    pub(crate) spec: u32,
    /// Its instance.
    pub(crate) first: StepNo,
    /// Steps in all.
    pub(crate) count: u32,
}

impl Body {
    /// The instance of a step of this body.
    pub(crate) const fn instance(self, spec: SpecIndex) -> StepNo {
        StepNo(self.first.0 + (spec.0 - self.spec))
    }

    /// All its instances.
    pub(crate) fn instances(self) -> impl Iterator<Item = StepNo> {
        (self.first.0..self.first.0 + self.count).map(StepNo)
    }

    /// Its part of the definition.
    pub(crate) fn specs(self) -> std::ops::Range<usize> {
        self.spec as usize..(self.spec + self.count) as usize
    }
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

    /// Who is above an agent of this flow, or above a flow below it, and what they let it do.
    pub(crate) fn above(&self, action: Option<&AgentAction>) -> Vec<Above> {
        let (spec, pipeline) = (&self.flow.spec, &self.pipeline);
        let own = Above { who: format!("the pipeline `{}`", spec.name), permissions: pipeline.permissions.clone() };
        let step = action.map(|action| Above { who: "its step".to_owned(), permissions: action.permissions.clone() });
        let said = [Some(own), step].into_iter().flatten().filter(|above| !above.permissions.is_empty());
        spec.above.iter().cloned().chain(said).collect()
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

    /// Whether it would start something if a slot were free, and the highest priority of that.
    #[must_use]
    pub fn wants_slot(&self) -> Option<i16> {
        if !self.may_start(self.flow.head.seen) {
            return None;
        }
        let lanes = self.index.due.iter().filter(|(lane, _)| lane.slot && self.has_room(lane.group));
        let wanting = lanes.filter_map(|(_, due)| {
            let free = due.iter().find(|(_, no)| self.hold_on(*no).is_none() && !self.waits_for_group(*no));
            free.map(|(_, no)| self.spec_of(&self.flow.steps[no.0 as usize]).priority)
        });
        wanting.max().map(|priority| priority.saturating_add(self.flow.spec.priority))
    }

    /// Concurrency groups that it waits for.
    #[must_use]
    pub fn wants_groups(&self) -> BTreeSet<String> {
        if let FlowState::Queued { group, .. } = &self.flow.head.state {
            return [group.clone()].into();
        }
        if !self.may_start(self.flow.head.seen) {
            return BTreeSet::new();
        }
        let due = self.index.due.values().flatten();
        due.filter_map(|(_, no)| self.group_held(*no).map(str::to_owned)).collect()
    }

    /// What it tells its parent once it is over.
    #[must_use]
    pub fn ended(&self) -> Option<Input> {
        let FlowState::Finished { outcome, .. } = self.flow.head.state else { return None };
        let (output, mut detail) = (self.flow.head.output.clone(), self.flow.head.detail.clone());
        if detail.is_empty() && outcome == FlowOutcome::Failed {
            detail = self.first_failed_step().unwrap_or_default();
        }
        let tips = self.flow.head.tips.clone();
        Some(Input::ChildEnded { flow: self.flow.spec.id, outcome, output, tips, detail })
    }

    /// `` `test`: exit code 1 ``, of the first step that failed the flow.
    fn first_failed_step(&self) -> Option<String> {
        self.root_body().instances().find_map(|no| {
            let step = self.flow.step(no)?;
            match &step.state {
                StepState::Finished { outcome: StepOutcome::Failed(failure) }
                    if !self.spec_of(step).continue_on_fail =>
                {
                    Some(format!("`{}`: {failure}", step.path))
                }
                _ => None,
            }
        })
    }

    /// Child flows that it waits for.
    #[must_use]
    pub fn children(&self) -> Vec<FlowId> {
        let children = self.flow.steps.iter().filter_map(|step| match step.state {
            StepState::Waiting(Wait::Flow { flow, .. }) => Some(flow),
            _ => None,
        });
        children.collect()
    }

    /// Nothing of it runs and nothing wants to start: it only waits for a time or a message, and need not stay in memory.
    #[must_use]
    pub fn only_waits(&self) -> bool {
        self.flow.runs.is_empty()
            && self.wants_slot().is_none()
            && self.wants_groups().is_empty()
            && self.index.expanding.is_empty()
    }

    /// Whether `by` may answer a request of this flow now.
    ///
    /// # Errors
    /// [`AnswerError`] says why not; `None` in it: the flow has no such open request.
    pub fn check_answer(
        &self,
        request: RequestId,
        by: &Principal,
        standing: &Standing,
        said: (Option<&ContentHash>, Scope),
    ) -> Result<(), Option<AnswerError>> {
        let request = self.flow.requests.get(&request).ok_or(None)?;
        request.check_answer(by, standing, said).map_err(Some)
    }

    /// Whether steps of the current phase are still wanted: a cancel ends the main part, force also `finally`.
    pub(crate) const fn is_open(&self) -> bool {
        match &self.flow.head.state {
            FlowState::Live { phase, stop } => match phase {
                Phase::Main => matches!(stop, Stop::None),
                Phase::Finally { .. } => !matches!(stop, Stop::Force { .. }),
            },
            FlowState::Queued { .. } | FlowState::Finished { .. } => false,
        }
    }

    /// Whether steps of the current phase may start: they are wanted, nothing holds the flow, and the deadline of `finally`
    /// has not passed.
    pub(crate) fn may_start(&self, now: Timestamp) -> bool {
        self.is_open() && !self.is_late(now) && !self.is_held()
    }

    /// Whether the deadline of `finally` has passed.
    pub(crate) fn is_late(&self, now: Timestamp) -> bool {
        match &self.flow.head.state {
            FlowState::Live { phase: Phase::Finally { deadline }, .. } => *deadline <= now,
            FlowState::Queued { .. } | FlowState::Live { .. } | FlowState::Finished { .. } => false,
        }
    }

    /// Whether a hold covers all of the flow.
    pub(crate) fn is_held(&self) -> bool {
        self.flow.head.holds.iter().any(|hold| hold.scope == HoldScope::Flow)
    }

    /// The hold that keeps a step of a flow that is not held itself.
    pub(crate) fn hold_on(&self, no: StepNo) -> Option<&StepPath> {
        let scopes = self.flow.head.holds.iter().filter_map(|hold| match &hold.scope {
            HoldScope::Step(path) => Some(path),
            HoldScope::Flow => None,
        });
        let mut scopes = scopes.peekable();
        scopes.peek()?;
        let above: Vec<&StepPath> = self.ancestry(no).map(|step| &step.path).collect();
        scopes.find(|path| above.contains(path))
    }

    /// The concurrency group that a ready step was found to wait for.
    fn group_held(&self, no: StepNo) -> Option<&str> {
        match &self.flow.steps[no.0 as usize].state {
            StepState::Ready { held_by: Some(Held::Group { name, .. }), .. } => Some(name),
            _ => None,
        }
    }

    /// Steps that would take a slot if their concurrency group were not full, with the group, in order of rank.
    pub(crate) fn held_by_groups(&self) -> impl Iterator<Item = (StepNo, &str)> {
        let lanes = self.index.due.iter().filter(|(lane, _)| lane.slot && self.has_room(lane.group));
        let free = lanes.flat_map(|(_, due)| due).filter(|(_, no)| self.hold_on(*no).is_none());
        free.filter_map(|(_, no)| Some((*no, self.group_held(*no)?)))
    }

    fn waits_for_group(&self, no: StepNo) -> bool {
        self.group_held(no).is_some()
    }

    /// A step and what it is below of, innermost first.
    pub(crate) fn ancestry(&self, no: StepNo) -> impl Iterator<Item = &Step> {
        std::iter::successors(self.flow.step(no), |step| self.flow.step(step.origin.above()?))
    }

    /// Whether the `limit` of a fan-out allows another element. `None`: steps that are not elements have none.
    pub(crate) fn has_room(&self, group: Option<StepNo>) -> bool {
        let Some(group) = group else { return true };
        let spec = &self.pipeline.steps[self.flow.steps[group.0 as usize].spec.0 as usize];
        let limit = spec.fan.as_ref().and_then(|fan| fan.limit);
        let active = self.index.groups.get(&group).map_or(0, |count| count.active);
        limit.is_none_or(|limit| active < limit)
    }

    /// The definition of a step instance.
    pub(crate) fn spec_of(&self, step: &Step) -> &StepSpec {
        &self.pipeline.steps[step.spec.0 as usize]
    }

    /// The body that a step belongs to; an element belongs where its fan-out does.
    pub(crate) fn body_of(&self, no: StepNo) -> Body {
        let mut step = &self.flow.steps[no.0 as usize];
        loop {
            match &step.origin {
                Origin::Element(element) => step = &self.flow.steps[element.group.0 as usize],
                Origin::Root => return self.root_body(),
                Origin::Round { of, first, .. } => return self.repeat_body(*of, *first),
            }
        }
    }

    pub(crate) fn root_body(&self) -> Body {
        let count = u32::try_from(self.pipeline.roots()).unwrap_or(u32::MAX);
        Body { spec: 0, first: StepNo(0), count }
    }

    /// The body of a step that repeats, in the round whose first step is `first`.
    pub(crate) fn repeat_body(&self, of: StepNo, first: StepNo) -> Body {
        match &self.spec_of(&self.flow.steps[of.0 as usize]).action {
            Action::Repeat(repeat) => Body { spec: repeat.first.0, first, count: repeat.count },
            // Only a step that repeats has rounds.
            _ => Body { spec: 0, first, count: 0 },
        }
    }

    /// The step whose body a step belongs to.
    pub(crate) fn repeat_above(&self, no: StepNo) -> Option<StepNo> {
        self.ancestry(no).find_map(|step| match step.origin {
            Origin::Round { of, .. } => Some(of),
            Origin::Root | Origin::Element(_) => None,
        })
    }

    /// The instances that a step made, in order of creation, finished or not.
    pub(crate) fn below(&self, no: StepNo) -> impl Iterator<Item = &Step> {
        let below = self.index.below.get(&no).map_or(&[][..], Vec::as_slice);
        below.iter().map(|no| &self.flow.steps[no.0 as usize])
    }

    /// The lane in which a step waits for its start.
    pub(crate) fn lane_of(&self, step: &Step) -> Lane {
        let group = step.origin.element().map(|element| element.group);
        let spec = self.spec_of(step);
        // A fan-out is only ever ready to merge what its elements made, which is a run.
        Lane { group, slot: spec.action.is_run() || (spec.fan.is_some() && group.is_none()) }
    }
}

/// The position of a step in its definition, as the type that names it. Definitions are bounded far below `u32::MAX`.
pub(crate) fn spec_index(at: usize) -> SpecIndex {
    SpecIndex(u32::try_from(at).unwrap_or(u32::MAX))
}
