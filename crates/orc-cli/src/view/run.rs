//! A run, for people and as a document.

use orc_domain::ids::RunId;
use orc_domain::run::{RunOutcome, RunState, WakeReason};
use orc_domain::time::Timestamp;
use orc_ports::reader::RunRecord;
use serde_json::{Value, json};

use super::columns::{Columns, clean_line};
use super::flow::ago;
use super::progress::stop_words;
use crate::context::Context;
use crate::evidence::{Seen, last_output_at};

/// Characters of an error.
const ERROR: usize = 500;

/// The word for a run's state.
const fn state_word(state: &RunState) -> &'static str {
    match state {
        RunState::Pending { .. } => "pending",
        RunState::Running { .. } => "running",
        RunState::Finished { .. } => "finished",
    }
}

/// The word for a run's outcome.
const fn outcome_word(outcome: &RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Delivered => "delivered",
        RunOutcome::NoDeliverable { .. } => "no_deliverable",
        RunOutcome::Blocked { .. } => "blocked",
        RunOutcome::Failed(_) => "failed",
        RunOutcome::Cancelled { .. } => "cancelled",
    }
}

/// Why it ended so; nothing for what went well.
fn why(outcome: &RunOutcome) -> Option<String> {
    match outcome {
        RunOutcome::Delivered => None,
        RunOutcome::NoDeliverable { missing } => Some(missing.clone()),
        RunOutcome::Blocked { why } => Some(why.clone()),
        RunOutcome::Failed(failure) => Some(failure.to_string()),
        RunOutcome::Cancelled { reason } => Some(stop_words(*reason).to_owned()),
    }
}

/// State or outcome in one word.
pub(crate) const fn word(state: &RunState) -> &'static str {
    match state {
        RunState::Finished { outcome, .. } => outcome_word(outcome),
        state => state_word(state),
    }
}

/// From when to when its process lived, as far as is known.
pub(crate) fn took(record: &RunRecord, now: Timestamp) -> Option<String> {
    let ended = match &record.run.state {
        RunState::Finished { at, .. } => *at,
        _ => now,
    };
    record.started_at.map(|started| ended.since(started).to_string())
}

/// The attempt before it.
fn previous(record: &RunRecord) -> Option<RunId> {
    let run = &record.run;
    match &run.wake {
        WakeReason::Recovery { lost } => Some(*lost),
        WakeReason::PipelineStep | WakeReason::UserMessage { .. } if run.attempt > 1 => {
            Some(RunId::derived(run.flow.uuid(), &format!("{}#{}", run.path, run.attempt - 1)))
        }
        WakeReason::PipelineStep | WakeReason::UserMessage { .. } => None,
    }
}

fn process_seen(record: &RunRecord) -> Option<Seen> {
    let process = record.process.as_ref()?;
    Some(if record.run.state.is_final() { Seen::Gone } else { Seen::of(process) })
}

/// `orc/run/1`.
pub(crate) fn document(record: &RunRecord, context: &Context) -> Value {
    let run = &record.run;
    let mut document = json!({
        "schema": "orc/run/1",
        "id": run.id,
        "flow": run.flow,
        "step": run.path,
        "attempt": run.attempt,
        "wake_reason": run.wake.word(),
        "previous_run": previous(record),
        "state": state_word(&run.state),
        "status": run.state.status(),
        "created_at": run.created_at.to_string(),
        "started_at": record.started_at.map(|at| at.to_string()),
        "claimed_by": record.claimed_by,
        "log": context.data.log(run.flow, run.id),
        "last_output_at": last_output_at(context, run.flow, run.id).map(|at| at.to_string()),
    });
    if let Some(process) = &record.process {
        document["process"] = json!({
            "pid": process.pid,
            "start_ticks": process.start_ticks,
            "instance": process.instance,
            "seen": process_seen(record).map(Seen::word),
        });
    }
    match &run.state {
        RunState::Pending { stop, .. } | RunState::Running { stop, .. } => {
            document["stop_reason"] = json!(stop.as_ref().map(|stop| stop.reason));
        }
        RunState::Finished { at, outcome } => {
            document["finished_at"] = json!(at.to_string());
            document["outcome"] = json!(outcome_word(outcome));
            document["reason"] = json!(why(outcome));
            if let RunOutcome::Failed(failure) = outcome {
                document["family"] = json!(failure.family);
            }
        }
    }
    document
}

/// One run for people.
pub(crate) fn text(record: &RunRecord, context: &Context) -> String {
    let (run, now) = (&record.run, context.now());
    let mut text = format!("{}  {}  {}\n", run.id, run.path, word(&run.state));
    let mut about = Columns::new();
    if let RunState::Finished { outcome, .. } = &run.state {
        if let Some(why) = why(outcome) {
            about.row(["why", &clean_line(&why, ERROR)]);
        }
        if let RunOutcome::Failed(failure) = outcome {
            about.row(["family", json!(failure.family).as_str().unwrap_or_default()]);
        }
    }
    if let RunState::Pending { stop: Some(stop), .. } | RunState::Running { stop: Some(stop), .. } = &run.state {
        about.row(["stopping", stop_words(stop.reason)]);
    }
    about.row(["status", run.state.status()]);
    about.row(["flow", &run.flow.to_string()]);
    about.row(["attempt", &run.attempt.to_string()]);
    about.row(["woken by", run.wake.word()]);
    if let Some(previous) = previous(record) {
        about.row(["after", &previous.to_string()]);
    }
    match record.started_at {
        Some(at) => about.row(["started", &ago(at, now)]),
        None => about.row(["started", &format!("not known; decided {}", ago(run.created_at, now))]),
    }
    if let Some(took) = took(record, now) {
        about.row(["took", &took]);
    }
    if let Some((process, seen)) = record.process.as_ref().zip(process_seen(record)) {
        about.row(["process", &format!("{} ({}), of {}", process.pid, seen.word(), process.instance)]);
    }
    let output = last_output_at(context, run.flow, run.id);
    about.row(["output", &output.map_or_else(|| "no log".to_owned(), |at| format!("last {}", ago(at, now)))]);
    about.row(["log", &context.data.log(run.flow, run.id).display().to_string()]);
    text.push_str(&about.text("  "));
    text
}
