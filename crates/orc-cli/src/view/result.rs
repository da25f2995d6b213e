//! The result of a flow, on standard output when it is over.

use std::collections::BTreeMap;

use orc_domain::flow::{Flow, FlowOutcome, FlowState, Step, StepOutcome, StepState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::{FlowId, RunId};
use orc_domain::ledger::Sum;
use orc_domain::run::{Cause, Failure};
use orc_domain::time::Timestamp;
use serde_json::{Value, json};

use super::columns::clean_line;
use super::cost;
use super::made::Made;
use super::place;
use super::progress::{Progress, Shown, StepProgress};
use crate::explanation::is_of_machine;

/// `orc/flow/1`: the flow, its steps and outputs, as one document.
pub(crate) fn document(flow: &Flow, pipeline: &Pipeline, made: &Made) -> Value {
    let steps: Vec<Value> = flow.steps.iter().map(step_document).collect();
    let places = place::of_flow(flow, pipeline);
    let mut document = json!({
        "schema": "orc/flow/1",
        "id": flow.spec.id,
        "pipeline": flow.spec.name,
        "pipeline_hash": flow.spec.pipeline,
        "directory": flow.spec.directory,
        "sandbox": places.word(),
        "in_place": places.in_place,
        "repositories": flow.spec.repositories,
        "made": made.document(),
        "requested_by": flow.spec.requested_by.to_string(),
        "created_at": flow.spec.created_at.to_string(),
        "retry_of": flow.spec.retry_of,
        "parent": flow.spec.parent.as_ref().map(|parent| json!({ "flow": parent.flow, "step": parent.path })),
        "inputs": map_document(&flow.spec.inputs),
        "usage": flow.head.usage,
        "state": state_word(&flow.head.state),
        "steps": steps,
    });
    if let FlowState::Finished { at, outcome } = &flow.head.state {
        document["finished_at"] = json!(at.to_string());
        document["outcome"] = json!(outcome.word());
        document["output"] = flow.head.output.as_ref().map_or(Value::Null, orc_domain::value::Value::to_json);
    }
    if !flow.head.detail.is_empty() {
        document["detail"] = json!(flow.head.detail);
    }
    document
}

fn map_document(values: &BTreeMap<String, orc_domain::value::Value>) -> Value {
    Value::Object(values.iter().map(|(name, value)| (name.clone(), value.to_json())).collect())
}

fn step_document(step: &orc_domain::flow::Step) -> Value {
    let mut document = json!({
        "path": step.path,
        "state": step_state_word(&step.state),
        "since": step.since.to_string(),
        "attempts": step.attempts,
        "losses": step.losses.total,
    });
    match &step.state {
        StepState::Finished { outcome } => {
            document["outcome"] = json!(outcome.word());
            match outcome {
                StepOutcome::Failed(failure) => {
                    document["error"] = json!({ "family": failure.family, "message": failure.to_string() });
                }
                StepOutcome::Skipped(why) => document["reason"] = json!(why.to_string()),
                StepOutcome::Succeeded | StepOutcome::NoChange | StepOutcome::Cancelled => {}
            }
        }
        StepState::Active { run } => document["run"] = json!(run),
        StepState::Blocked | StepState::Ready { .. } | StepState::Waiting(_) => {}
    }
    if let Some(output) = &step.output {
        document["output"] = output.to_json();
    }
    if !step.tips.is_empty() {
        document["tips"] = json!(step.tips);
    }
    if !step.artifacts.is_empty() {
        document["artifacts"] = json!(step.artifacts);
    }
    document
}

/// `queued`, `live` or `finished`.
pub(crate) const fn state_word(state: &FlowState) -> &'static str {
    match state {
        FlowState::Queued { .. } => "queued",
        FlowState::Live { .. } => "live",
        FlowState::Finished { .. } => "finished",
    }
}

/// The word for a step's state.
pub(crate) const fn step_state_word(state: &StepState) -> &'static str {
    match state {
        StepState::Blocked => "blocked",
        StepState::Ready { .. } => "ready",
        StepState::Active { .. } => "active",
        StepState::Waiting(_) => "waiting",
        StepState::Finished { .. } => "finished",
    }
}

/// The result for people: what happened to each step, what it put out, and where to look next.
pub(crate) fn text(
    id: FlowId,
    progress: &Progress,
    known: Option<(&Flow, &Pipeline)>,
    made: &Made,
    spent: &Sum,
) -> String {
    let flow = known.map(|(flow, _)| flow);
    let (at, outcome) = progress.ended.unwrap_or((Timestamp::from_millis(0), FlowOutcome::Cancelled));
    let took = progress.began_at.map_or_else(String::new, |began| format!(" in {}", at.since(began)));
    let name = flow.map_or("", |flow| flow.spec.name.as_str());
    let mut text = format!("{name} {}{took}  ({id})\n", outcome.word());
    if let Some(detail) = flow.map(|flow| &flow.head.detail).filter(|detail| !detail.is_empty()) {
        text.push_str(&format!("  {}\n", clean_line(detail, 200)));
    }
    let width = progress.name_width();
    for step in progress.ordered() {
        text.push_str(&step_line(step, width, at));
        if let Some(known) = flow.and_then(|flow| flow.step_at(&step.path)) {
            left_of(known, step.depth(), &mut text);
        }
    }
    text.push('\n');
    if let Some(cost) = cost::words(spent) {
        text.push_str(&format!("calls of models: {cost}\n\n"));
    }
    let made = made.text();
    if !made.is_empty() {
        text.push_str(&format!("{made}\n"));
    }
    if outcome == FlowOutcome::Succeeded {
        text.push_str(&format!("what the steps printed: orchestrator logs {id}\n"));
        return text;
    }
    if let Some((step, run)) = failed_first(progress, known) {
        text.push_str(&format!("`{}` failed first; {}\n", step.path, look_closer(id, step, run)));
    }
    if flow.is_some_and(|flow| !flow.spec.repositories.is_empty()) {
        text.push_str(&format!("what its steps left in their copies: orchestrator worktrees show {id}\n"));
    }
    text.push_str(&format!("to run what did not succeed again: orchestrator retry {id}\n"));
    text
}

/// What a step put out and which files were kept of it.
fn left_of(step: &Step, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    if let Some(orc_domain::value::Value::Map(outputs)) = &step.output {
        for (key, value) in outputs {
            text.push_str(&format!("      {indent}{key} = {}\n", clean_line(&value.to_text().text, 100)));
        }
    }
    for artifact in step.artifacts.values() {
        text.push_str(&format!("      {indent}kept {} ({} bytes)\n", artifact.file, artifact.bytes));
    }
}

/// The first step with a run that failed and was not allowed to.
fn failed_first<'a>(progress: &'a Progress, known: Option<(&Flow, &Pipeline)>) -> Option<(&'a StepProgress, RunId)> {
    let may_fail = |step: &StepProgress| {
        let spec = known.and_then(|(flow, pipeline)| {
            let spec = flow.step_at(&step.path)?.spec;
            pipeline.steps.get(spec.0 as usize)
        });
        spec.is_some_and(|spec| spec.continue_on_fail)
    };
    let failed = |step: &&StepProgress| {
        matches!(step.state, Shown::Finished(StepOutcome::Failed(_))) && step.run.is_some() && !may_fail(step)
    };
    let first = progress.steps.iter().filter(failed).min_by_key(|step| step.ended_at)?;
    Some((first, first.run?))
}

/// Where more is said about a failure: a step that never began has no log.
fn look_closer(flow: FlowId, step: &StepProgress, run: RunId) -> String {
    match &step.state {
        Shown::Finished(StepOutcome::Failed(failure)) if is_of_machine(failure) => {
            "what this machine lacks: orchestrator doctor".to_owned()
        }
        Shown::Finished(StepOutcome::Failed(Failure { cause: Cause::Conflict(_), .. })) => {
            format!("what can be done: orchestrator explain {flow} --step '{}'", step.path)
        }
        _ => format!("what it printed: orchestrator logs {run}"),
    }
}

fn step_line(step: &StepProgress, width: usize, at: Timestamp) -> String {
    let mark = match &step.state {
        Shown::Finished(StepOutcome::Succeeded | StepOutcome::NoChange) => "✓",
        Shown::Finished(StepOutcome::Failed(_)) => "✗",
        _ => "-",
    };
    step.line(mark, width, at) + "\n"
}
