//! Retry of a finished flow: a new flow that carries on the old one. It pins the same definition, takes over what
//! succeeded, and runs again what did not and everything that depends on it. The old flow is never changed.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::flow::{Flow, FlowSpec, Step, StepOutcome, StepState, TakenOver};
use orc_domain::graph::{Graph, PhaseKind, Pipeline, SpecIndex};
use orc_domain::ids::FlowId;
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::time::Timestamp;

use crate::resident::spec_index;

/// Why a flow cannot be retried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// It is not over.
    #[error("flow {0} is still live: cancel it first, or let it end")]
    Live(FlowId),
    /// Nothing in it failed.
    #[error("nothing to retry in flow {0}: every step succeeded or was skipped by its own condition")]
    Nothing(FlowId),
}

/// The start of the flow that carries `flow` on.
///
/// # Errors
/// [`ForkError`] when it is live or nothing is left to do.
pub fn fork(
    flow: &Flow,
    pipeline: &Pipeline,
    id: FlowId,
    by: Principal,
    now: Timestamp,
) -> Result<FlowSpec, ForkError> {
    if !flow.is_finished() {
        return Err(ForkError::Live(flow.spec.id));
    }
    let again = steps_to_run_again(flow, pipeline);
    if again.is_empty() {
        return Err(ForkError::Nothing(flow.spec.id));
    }
    let mut taken_over: BTreeMap<StepPath, TakenOver> = BTreeMap::new();
    for step in &flow.steps {
        let spec = &pipeline.steps[step.spec.0 as usize];
        // A fan-out is never taken over itself: it expands again and finds its elements done, so that their results are
        // there for what reads them.
        let fan_out = step.element.is_none() && spec.foreach.is_some();
        let whole = step.element.is_none() && again.contains(&step.spec);
        let finally = spec.phase == PhaseKind::Finally;
        // Elements of a fan-out that runs again keep their results unless something before the fan-out changes.
        let stale = step.element.is_some() && parents_run_again(step.spec, pipeline, &again);
        if let Some(result) = done(step, flow)
            && !fan_out
            && !whole
            && !finally
            && !stale
        {
            taken_over.insert(step.path.clone(), result);
        }
    }
    taken_over.extend(unwritten(flow, pipeline, &again));
    Ok(FlowSpec {
        id,
        requested_by: by,
        created_at: now,
        retry_of: Some(flow.spec.id),
        taken_over,
        ..flow.spec.clone()
    })
}

/// What did not succeed, and what depends on it. Skipped and failed never count as done; a step that was skipped by its
/// own condition is looked at again, and gives the same answer unless something before it changes.
fn steps_to_run_again(flow: &Flow, pipeline: &Pipeline) -> BTreeSet<SpecIndex> {
    let graph = Graph::of(pipeline);
    let mut again = BTreeSet::new();
    for (at, step) in flow.steps.iter().take(pipeline.steps.len()).enumerate() {
        let unfinished = !matches!(&step.state, StepState::Finished { outcome: StepOutcome::Skipped(_) });
        if pipeline.steps[at].phase == PhaseKind::Main && done(step, flow).is_none() && unfinished {
            again.insert(spec_index(at));
            again.extend(graph.descendants(spec_index(at)));
        }
    }
    let finally_failed = flow.steps.iter().take(pipeline.steps.len()).any(|step| {
        let finally = pipeline.steps[step.spec.0 as usize].phase == PhaseKind::Finally;
        finally
            && !matches!(&step.state, StepState::Finished { outcome: StepOutcome::Skipped(_) })
            && done(step, flow).is_none()
    });
    if again.is_empty() && finally_failed {
        // `finally` always runs again as a whole; naming one of its steps says that there is something to do.
        let all = (0..pipeline.steps.len()).map(spec_index);
        again.extend(all.filter(|spec| pipeline.steps[spec.0 as usize].phase == PhaseKind::Finally));
    }
    again
}

fn parents_run_again(spec: SpecIndex, pipeline: &Pipeline, again: &BTreeSet<SpecIndex>) -> bool {
    pipeline.steps[spec.0 as usize].needs.iter().any(|need| again.contains(need))
}

/// The result of a step that counts as done: its own, or one that `flow`, itself a retry, was given and did not get to
/// because it was cancelled first.
fn done(step: &Step, flow: &Flow) -> Option<TakenOver> {
    match &step.state {
        StepState::Finished { outcome: outcome @ (StepOutcome::Succeeded | StepOutcome::NoChange) } => {
            Some(TakenOver { outcome: outcome.clone(), output: step.output.clone() })
        }
        StepState::Finished { outcome: StepOutcome::Cancelled } => flow.spec.taken_over.get(&step.path).cloned(),
        _ => None,
    }
}

/// Results that `flow`, itself a retry, was given for elements that it did not write because it was cancelled first.
fn unwritten<'a>(
    flow: &'a Flow,
    pipeline: &'a Pipeline,
    again: &'a BTreeSet<SpecIndex>,
) -> impl Iterator<Item = (StepPath, TakenOver)> + 'a {
    let written: BTreeSet<&StepPath> = flow.steps.iter().map(|step| &step.path).collect();
    let fan_of = |path: &StepPath| {
        let key = path.as_str().split_once('[')?.0;
        pipeline.steps.iter().position(|spec| spec.key == key).map(spec_index)
    };
    let kept = move |path: &StepPath| {
        !written.contains(path) && fan_of(path).is_some_and(|fan| !parents_run_again(fan, pipeline, again))
    };
    flow.spec.taken_over.iter().filter(move |(path, _)| kept(path)).map(|(path, result)| (path.clone(), result.clone()))
}
