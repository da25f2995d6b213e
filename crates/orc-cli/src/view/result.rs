//! The result of a flow, on standard output when it is over.

use orc_domain::flow::{Flow, FlowOutcome, FlowState, StepOutcome, StepState};
use orc_domain::ids::FlowId;
use orc_domain::time::Timestamp;
use serde_json::{Value, json};

use super::progress::{Progress, Shown, StepProgress, outcome_words};

/// `orc/flow/1`: the flow, its steps and outputs, as one document.
pub(crate) fn document(flow: &Flow) -> Value {
    let steps: Vec<Value> = flow.steps.iter().map(step_document).collect();
    let mut document = json!({
        "schema": "orc/flow/1",
        "id": flow.spec.id,
        "pipeline": flow.spec.name,
        "pipeline_hash": flow.spec.pipeline,
        "directory": flow.spec.directory,
        "sandbox": "off",
        "requested_by": flow.spec.requested_by.to_string(),
        "created_at": flow.spec.created_at.to_string(),
        "retry_of": flow.spec.retry_of,
        "state": state_word(&flow.head.state),
        "steps": steps,
    });
    if let FlowState::Finished { at, outcome } = &flow.head.state {
        document["finished_at"] = json!(at.to_string());
        document["outcome"] = json!(outcome.word());
    }
    document
}

fn step_document(step: &orc_domain::flow::Step) -> Value {
    let mut document = json!({
        "path": step.path,
        "state": step_state_word(&step.state),
        "since": step.since.to_string(),
        "attempts": step.attempts,
        "losses": step.losses,
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
    document
}

/// `live` or `finished`.
pub(crate) const fn state_word(state: &FlowState) -> &'static str {
    match state {
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

/// The result for people: what happened to each step, what it put out, and what to do about failures.
pub(crate) fn text(id: FlowId, name: &str, progress: &Progress, flow: Option<&Flow>) -> String {
    let (at, outcome) = progress.ended.unwrap_or((Timestamp::from_millis(0), FlowOutcome::Cancelled));
    let took = progress.began_at.map_or_else(String::new, |began| format!(" in {}", at.since(began)));
    let mut text = format!("{name} {}{took}  ({id})\n", outcome.word());
    let width = progress.steps.iter().map(|step| step.path.as_str().len()).max().unwrap_or(0).min(40);
    for step in progress.ordered() {
        text.push_str(&step_line(step, width, at));
        let outputs = flow.and_then(|flow| flow.step_at(&step.path)).and_then(|step| step.output.as_ref());
        if let Some(orc_domain::value::Value::Map(outputs)) = outputs {
            for (key, value) in outputs {
                text.push_str(&format!("      {key} = {}\n", short(&value.to_text().text)));
            }
        }
    }
    let failed =
        |step: &&StepProgress| matches!(step.state, Shown::Finished(StepOutcome::Failed(_))) && step.run.is_some();
    if outcome != FlowOutcome::Succeeded {
        if let Some(step) = progress.steps.iter().find(failed)
            && let Some(run) = step.run
        {
            text.push_str(&format!("\n`{}` failed first; what it said: orchestrator logs {run}\n", step.path));
        }
        text.push_str(&format!("to run what did not succeed again: orchestrator retry {id}\n"));
    }
    text
}

fn step_line(step: &StepProgress, width: usize, at: Timestamp) -> String {
    let mark = match &step.state {
        Shown::Finished(StepOutcome::Succeeded | StepOutcome::NoChange) => "✓",
        Shown::Finished(StepOutcome::Failed(_)) => "✗",
        _ => "-",
    };
    let words = match &step.state {
        Shown::Finished(outcome) => outcome_words(outcome),
        _ => step.words(at),
    };
    let took = step.took(at).map_or_else(String::new, |took| took.to_string());
    let attempt = if step.attempt > 1 { format!(", attempt {}", step.attempt) } else { String::new() };
    let elements = step.elements.map_or_else(String::new, |total| format!(", {total} elements"));
    let indent = if step.is_element() { "    " } else { "  " };
    format!("{indent}{mark} {:width$}  {took:>7}  {words}{attempt}{elements}\n", step.path)
}

/// The first line, at most 100 characters of it.
fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(100).filter(|c| !c.is_control()).collect();
    if cut.len() < text.len() { cut + " ..." } else { cut }
}
