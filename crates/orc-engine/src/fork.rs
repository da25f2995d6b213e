//! Retry of a finished flow: a new flow that carries on the old one. It pins the same definition, takes over what
//! succeeded, and runs again what did not and everything that depends on it. The old flow is never changed.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::flow::{Flow, FlowSpec, Origin, SkipReason, Step, StepNo, StepOutcome, StepState, TakenOver};
use orc_domain::graph::{Action, Graph, PhaseKind, Pipeline, SpecIndex};
use orc_domain::ids::FlowId;
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::time::Timestamp;

use crate::resident::spec_index;
use crate::waits::child_id;

/// Why a flow cannot be retried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// It is not over.
    #[error("flow {0} is still live: cancel it first, or let it end")]
    Live(FlowId),
    /// Nothing in it failed.
    #[error("nothing to retry in flow {0}: every step succeeded or was skipped by its own condition")]
    Nothing(FlowId),
    /// The named step is not one of the definition's own.
    #[error("flow {flow} has no step `{key}` to retry from{hint}")]
    NoStep {
        /// Which flow.
        flow: FlowId,
        /// What was named.
        key: String,
        /// Names that there are.
        hint: String,
    },
}

/// The start of the flow that carries `flow` on.
///
/// # Errors
/// [`ForkError`] when it is live or nothing is left to do.
pub fn fork(flow: &Flow, pipeline: &Pipeline, again: &Again, new: New) -> Result<FlowSpec, ForkError> {
    if !flow.is_finished() {
        return Err(ForkError::Live(flow.spec.id));
    }
    let named = named_step(flow, pipeline, again)?;
    let is_named = |spec: SpecIndex| named == Some(spec);
    let again = steps_to_run_again(flow, pipeline, named);
    if again.is_empty() {
        return Err(ForkError::Nothing(flow.spec.id));
    }
    let roots = pipeline.roots();
    // What a round of a `repeat` left is not taken over: its rounds begin again.
    let kept = flow.steps.iter().filter(|step| match &step.origin {
        Origin::Root => true,
        Origin::Element(element) => (element.group.0 as usize) < roots,
        Origin::Round { .. } => false,
    });
    let mut taken_over: BTreeMap<StepPath, TakenOver> = BTreeMap::new();
    let mut carried: BTreeMap<StepPath, FlowId> = BTreeMap::new();
    for step in kept {
        let spec = &pipeline.steps[step.spec.0 as usize];
        // A fan-out expands again and finds its elements done, so that their results are there for what reads them. What was
        // made of them together is taken over with them: somebody may have resolved a conflict.
        let is_element = step.origin.element().is_some();
        let fan_out = !is_element && spec.fan.is_some();
        let whole = !is_element && again.contains(&step.spec);
        let finally = spec.phase == PhaseKind::Finally;
        // Elements of a fan-out that runs again keep their results unless something before the fan-out changes.
        let stale = is_element && (parents_run_again(step.spec, pipeline, &again) || is_named(step.spec));
        // A child flow that did not succeed is carried on, not begun anew, unless what it was given may differ.
        let given_again = parents_run_again(step.spec, pipeline, &again) || is_named(step.spec);
        if matches!(spec.action, Action::Pipeline(_))
            && !fan_out
            && step.attempts > 0
            && done(step, flow).is_none()
            && !given_again
        {
            carried.insert(step.path.clone(), child_id(flow.spec.id, &step.path, step.attempts));
        }
        if let Some(result) = done(step, flow)
            && !whole
            && !finally
            && !stale
        {
            taken_over.insert(step.path.clone(), result);
        }
    }
    taken_over.extend(unwritten(flow, pipeline, (&again, named)));
    let New { id, by, now } = new;
    Ok(FlowSpec {
        id,
        requested_by: by,
        created_at: now,
        retry_of: Some(flow.spec.id),
        taken_over,
        carried,
        // A retry of a child by hand is a flow of its own: its parent is over or waits for another.
        parent: None,
        groups_above: BTreeSet::new(),
        walls_above: Vec::new(),
        ..flow.spec.clone()
    })
}

/// What a retry runs again, beside what did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// Nothing.
    Unfinished,
    /// This step of the definition, and everything that depends on it.
    From(String),
}

/// What is new about the flow that carries another on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New {
    /// Its id.
    pub id: FlowId,
    /// Who wants it.
    pub by: Principal,
    /// When.
    pub now: Timestamp,
}

fn named_step(flow: &Flow, pipeline: &Pipeline, again: &Again) -> Result<Option<SpecIndex>, ForkError> {
    let Again::From(key) = again else { return Ok(None) };
    let roots = &pipeline.steps[..pipeline.roots()];
    let found = roots.iter().position(|spec| spec.key == *key).map(spec_index);
    let keys = || roots.iter().map(|spec| spec.key.as_str());
    let unknown = || ForkError::NoStep {
        flow: flow.spec.id,
        key: key.clone(),
        hint: orc_domain::expr::missing_hint(key, keys().collect::<Vec<_>>()),
    };
    found.map(Some).ok_or_else(unknown)
}

/// What did not succeed, and what depends on it. Skipped and failed never count as done; a step that was skipped by its
/// own condition is looked at again, and gives the same answer unless something before it changes.
fn steps_to_run_again(flow: &Flow, pipeline: &Pipeline, named: Option<SpecIndex>) -> BTreeSet<SpecIndex> {
    let graph = Graph::of(pipeline);
    let mut again = BTreeSet::new();
    if let Some(named) = named {
        again.insert(named);
        again.extend(graph.descendants(named));
    }
    let roots = pipeline.roots();
    // Elements that found their group full are no failure of their fan-out, and run now.
    let undone = flow.steps.iter().filter(|step| done(step, flow).is_none());
    let undone: BTreeSet<StepNo> = undone.filter_map(|step| Some(step.origin.element()?.group)).collect();
    for (at, step) in flow.steps.iter().take(roots).enumerate() {
        let unfinished = (done(step, flow).is_none() && !may_skip_again(step)) || undone.contains(&step.no);
        if pipeline.steps[at].phase == PhaseKind::Main && unfinished {
            again.insert(spec_index(at));
            again.extend(graph.descendants(spec_index(at)));
        }
    }
    let finally_failed = flow.steps.iter().take(roots).any(|step| {
        let finally = pipeline.steps[step.spec.0 as usize].phase == PhaseKind::Finally;
        finally && !may_skip_again(step) && done(step, flow).is_none()
    });
    if again.is_empty() && finally_failed {
        // `finally` always runs again as a whole; naming one of its steps says that there is something to do.
        let all = (0..roots).map(spec_index);
        again.extend(all.filter(|spec| pipeline.steps[spec.0 as usize].phase == PhaseKind::Finally));
    }
    again
}

/// Skipped for reasons of the pipeline, which are the same unless something before the step changes. A group that was full
/// is none of them.
const fn may_skip_again(step: &Step) -> bool {
    let StepState::Finished { outcome: StepOutcome::Skipped(reason) } = &step.state else { return false };
    matches!(reason, SkipReason::Condition | SkipReason::Parent { .. })
}

fn parents_run_again(spec: SpecIndex, pipeline: &Pipeline, again: &BTreeSet<SpecIndex>) -> bool {
    pipeline.steps[spec.0 as usize].needs.iter().any(|need| again.contains(need))
}

/// The result of a step that counts as done: its own, or one that `flow`, itself a retry, was given and did not get to
/// because it was cancelled first.
fn done(step: &Step, flow: &Flow) -> Option<TakenOver> {
    match &step.state {
        StepState::Finished { outcome: outcome @ (StepOutcome::Succeeded | StepOutcome::NoChange) } => {
            let (output, artifacts) = (step.output.clone(), step.artifacts.clone());
            Some(TakenOver { outcome: outcome.clone(), output, artifacts, tips: step.tips.clone() })
        }
        StepState::Finished { outcome: StepOutcome::Cancelled } => flow.spec.taken_over.get(&step.path).cloned(),
        _ => None,
    }
}

/// Results that `flow`, itself a retry, was given for elements that it did not write because it was cancelled first.
fn unwritten<'a>(
    flow: &'a Flow,
    pipeline: &'a Pipeline,
    (again, named): (&'a BTreeSet<SpecIndex>, Option<SpecIndex>),
) -> impl Iterator<Item = (StepPath, TakenOver)> + 'a {
    let written: BTreeSet<&StepPath> = flow.steps.iter().map(|step| &step.path).collect();
    let fan_of = |path: &StepPath| {
        let key = path.as_str().split_once(['[', '{'])?.0;
        pipeline.steps[..pipeline.roots()].iter().position(|spec| spec.key == key).map(spec_index)
    };
    let kept = move |path: &StepPath| {
        let stale = |fan| named == Some(fan) || parents_run_again(fan, pipeline, again);
        !written.contains(path) && fan_of(path).is_some_and(|fan| !stale(fan))
    };
    flow.spec.taken_over.iter().filter(move |(path, _)| kept(path)).map(|(path, result)| (path.clone(), result.clone()))
}
