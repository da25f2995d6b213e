//! A run, for people and as a document.

use orc_domain::ids::RunId;
use orc_domain::ledger::Sum;
use orc_domain::liveness::Liveness;
use orc_domain::run::{AgentRun, AgentStop, Message, RunOutcome, RunState, WakeReason};
use orc_domain::time::Timestamp;
use orc_ports::reader::RunRecord;
use serde_json::{Value, json};

use super::agent::{liveness_of, usage_document, usage_words};
use super::columns::{Columns, clean_line};
use super::cost;
use super::flow::ago;
use super::progress::stop_words;
use crate::context::Context;
use crate::evidence::{Seen, last_output_at};
use crate::look::evidence;

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
pub(crate) const fn outcome_word(outcome: &RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Delivered => "delivered",
        RunOutcome::NoDeliverable { .. } => "no_deliverable",
        RunOutcome::Blocked { .. } => "blocked",
        RunOutcome::Failed(_) => "failed",
        RunOutcome::Cancelled { .. } => "cancelled",
    }
}

/// Why it ended so; nothing for what went well.
pub(crate) fn why(outcome: &RunOutcome) -> Option<String> {
    match outcome {
        RunOutcome::Delivered => None,
        RunOutcome::NoDeliverable { missing } => Some(missing.clone()),
        RunOutcome::Blocked { why, .. } => Some(why.clone()),
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
        WakeReason::PipelineStep | WakeReason::Conflict | WakeReason::UserMessage { .. } if run.attempt > 1 => {
            Some(RunId::derived(run.flow.uuid(), &format!("{}#{}", run.path, run.attempt - 1)))
        }
        WakeReason::PipelineStep | WakeReason::Conflict | WakeReason::UserMessage { .. } => None,
    }
}

fn process_seen(record: &RunRecord) -> Option<Seen> {
    let process = record.process.as_ref()?;
    Some(if record.run.state.is_final() { Seen::Gone } else { Seen::of(process) })
}

/// `orc/run/1` with what its calls of models used, if it made some.
pub(crate) fn document_with(record: &RunRecord, context: &Context, spent: &Sum) -> Value {
    let mut document = document(record, context);
    if spent.calls > 0 || spent.in_flight > 0 {
        document["ledger"] = cost::document(spent);
    }
    document
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
    if let Some(agent) = &run.agent {
        document["agent"] = agent_document(record, agent, context);
    }
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

/// What is known of a run as an agent's.
fn agent_document(record: &RunRecord, agent: &AgentRun, context: &Context) -> Value {
    let messages: Vec<Value> = agent.messages.iter().map(message_document).collect();
    let liveness = liveness_of(&record.run, Some(&evidence(context, &record.run)), context.now());
    json!({
        "name": agent.agent,
        "profile": agent.profile,
        "silence_ms": agent.silence.as_millis(),
        "liveness": liveness.map(Liveness::word),
        "stop_reason": agent.stop.map(AgentStop::word),
        "messages": messages,
        "answer": agent.answer,
        "usage": usage_document(&agent.usage),
        "output": {
            "bytes": agent.statistics.bytes,
            "lines": agent.statistics.lines,
            "events": agent.statistics.events,
            "not_understood": agent.statistics.unknown,
            "too_long": agent.statistics.overlong,
            "repeats": agent.statistics.repeats,
            "last_progress_at": agent.statistics.last_progress_at.map(|at| at.to_string()),
        },
    })
}

fn message_document(message: &Message) -> Value {
    json!({
        "id": message.id,
        "from": message.from.to_string(),
        "at": message.at.to_string(),
        "text": message.text,
    })
}

/// Rows about a run as an agent's.
fn agent_rows(about: &mut Columns, record: &RunRecord, agent: &AgentRun, context: &Context) {
    let (run, now) = (&record.run, context.now());
    let silence = agent.silence;
    let liveness = liveness_of(run, Some(&evidence(context, run)), now);
    about.row(["agent", &format!("{} (may be silent for {silence})", agent.agent)]);
    about.row(["liveness", liveness.map_or("not known yet", Liveness::word)]);
    if let Some(stop) = agent.stop {
        about.row(["stopped by", stop.word()]);
    }
    about.row(["used", &usage_words(&agent.usage).unwrap_or_else(|| "nothing that it told".to_owned())]);
    let statistics = &agent.statistics;
    let not_understood = match statistics.unknown + statistics.overlong {
        0 => String::new(),
        some => format!(", {some} not understood"),
    };
    about.row(["told", &format!("{} events in {} lines{not_understood}", statistics.events, statistics.lines)]);
    for message in &agent.messages {
        let text = clean_line(&message.text, ERROR);
        about.row(["read", &format!("{} from {}: {text}", ago(message.at, now), message.from)]);
    }
    if let Some(answer) = &agent.answer {
        about.row(["answer", &clean_line(answer, ERROR)]);
    }
    about.row(["talk", &format!("orchestrator conversations show {} --step '{}'", run.flow, run.path)]);
}

/// One run for people, with what its calls of models used, if it made some.
pub(crate) fn text(record: &RunRecord, context: &Context, spent: &Sum) -> String {
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
    if let Some(agent) = &run.agent {
        agent_rows(&mut about, record, agent, context);
    }
    if let Some(cost) = cost::words(spent) {
        about.row(["gateway", &cost]);
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
