//! A run as plain lines, for pipes and logs: one line for each thing that happened.

use orc_domain::event::{Event, Fact};
use orc_domain::flow::StepOutcome;
use orc_domain::hold::HoldReason;
use orc_domain::permission::Scope;
use orc_domain::principal::Principal;
use orc_domain::run::{Cause, Failure, RunOutcome, StopReason, WakeReason};
use orc_domain::time::Timestamp;

use super::View;
use super::columns::clean;
use super::progress::{Progress, outcome_words, refused};
use crate::output::say;

/// Plain lines on standard error.
pub(crate) struct Plain {
    progress: Progress,
}

impl Plain {
    pub(crate) fn new(progress: Progress) -> Self {
        Self { progress }
    }
}

/// What an event says, without the step that it is about; `None` for what another event or the result says better.
/// `progress` has taken it in.
pub(crate) fn words(event: &Event, progress: &Progress) -> Option<String> {
    match &event.body.fact {
        Fact::FlowStarted { pipeline, retry_of: None } => Some(format!("{} started ({pipeline})", event.flow)),
        Fact::FlowStarted { pipeline, retry_of: Some(old) } => {
            Some(format!("{} started ({pipeline}), carries {old} on", event.flow))
        }
        Fact::FlowCancelRequested { force } => {
            let how = if *force { "at once" } else { "its runs get TERM, then KILL; `finally` still runs" };
            Some(format!("cancelled by {}: {how}", event.body.actor))
        }
        Fact::FlowFinished { .. } => None,
        Fact::FlowQueued { group } => Some(format!("queued: the concurrency group `{group}` is full")),
        Fact::HoldPlaced { reason, note, .. } => Some(held(*reason, note, &event.body.actor)),
        Fact::HoldLifted { .. } => Some(format!("goes on ({})", event.body.actor)),
        Fact::RoundStarted { number, .. } => Some(format!("round {number}")),
        Fact::StepWaiting { on, what, .. } => Some(format!("waits for {on} {what}")),
        Fact::RequestOpened { request, message, by, deadline, .. } => {
            let who = if by.is_empty() { "whoever has the role admin".to_owned() } else { by.join(", ") };
            let left = deadline.since(event.body.at);
            Some(format!("asks {who}: {} ({request}, closes in {left})", clean(message)))
        }
        Fact::RequestReminded { request, by, .. } => {
            Some(format!("still waits for an answer to {request} ({})", by.join(", ")))
        }
        Fact::RequestResolved { answer, scope, reason, .. } => {
            let long = if *scope == Scope::Call { String::new() } else { format!(" ({})", scope.word()) };
            let reason = if reason.is_empty() { String::new() } else { format!(": {}", clean(reason)) };
            Some(format!("{} by {}{long}{reason}", answer.word(), event.body.actor))
        }
        Fact::WallReached { wall, short, .. } => {
            let figures = short.map_or_else(String::new, |short| format!(": {}", short.told(*wall)));
            Some(format!("its budget of `{}` is reached{figures}", wall.word()))
        }
        Fact::RunParked { provider, until, why, .. } => {
            let left = until.since(event.body.at);
            Some(format!("the provider `{provider}` takes no calls for {left}: {}", clean(why)))
        }
        Fact::MessageReceived { from, text, .. } => Some(format!("{from}: {}", clean(text))),
        Fact::StepExpanded { total, .. } => Some(format!("{total} elements")),
        Fact::RetryPlanned { not_before, .. } => Some(format!("tries again in {}", not_before.since(event.body.at))),
        Fact::SandboxViolation { .. }
        | Fact::AgentRunStarted { .. }
        | Fact::AgentRunCompleted { .. }
        | Fact::CommandRunStarted { .. }
        | Fact::CommandRunCompleted { .. }
        | Fact::RunStopRequested { .. } => run_words(&event.body.fact),
        Fact::StepFinished { path, outcome } => {
            let took = progress.get(path).and_then(|step| step.took(event.body.at));
            let took = match (outcome, took) {
                (StepOutcome::Skipped(_), _) | (_, None) => String::new(),
                (_, Some(took)) => format!(" after {took}"),
            };
            Some(match outcome {
                StepOutcome::Failed(failure) => format!("failed{took}: {}", clean(&failure.to_string())),
                other => format!("{}{took}", outcome_words(other)),
            })
        }
    }
}

/// What is said about a run; of any other fact nothing.
fn run_words(fact: &Fact) -> Option<String> {
    match fact {
        Fact::SandboxViolation { violation, .. } => Some(format!("its box refused {}", refused(violation))),
        Fact::AgentRunStarted { agent, wake: WakeReason::Conflict, .. } => {
            Some(format!("agent {agent} brings together what contradicts itself"))
        }
        Fact::AgentRunStarted { attempt: 1, agent, .. } => Some(format!("agent {agent} runs")),
        Fact::AgentRunStarted { attempt, agent, wake, .. } => {
            Some(format!("agent {agent} runs, attempt {attempt} ({})", wake.word()))
        }
        Fact::AgentRunCompleted { attempt, outcome, .. } => match outcome {
            RunOutcome::Delivered => None,
            RunOutcome::NoDeliverable { missing } => Some(format!("attempt {attempt} owes: {}", clean(missing))),
            RunOutcome::Blocked { why, .. } => Some(format!("attempt {attempt} is blocked: {}", clean(why))),
            RunOutcome::Failed(failure) => Some(run_failed(*attempt, failure)),
            RunOutcome::Cancelled { .. } => Some(format!("attempt {attempt} was ended")),
        },
        Fact::CommandRunStarted { attempt: 1, .. } => Some("runs".to_owned()),
        Fact::CommandRunStarted { attempt, .. } => Some(format!("runs, attempt {attempt}")),
        Fact::CommandRunCompleted { attempt, outcome: RunOutcome::Failed(failure), .. } => {
            Some(run_failed(*attempt, failure))
        }
        Fact::CommandRunCompleted { .. } => None,
        Fact::RunStopRequested { forced, reason, .. } => Some(
            match (forced, reason) {
                (true, _) => "gets KILL",
                (false, StopReason::Paused) => "ends its turn, and goes on later",
                (false, _) => "gets TERM",
            }
            .to_owned(),
        ),
        _ => None,
    }
}

/// Both sides of a conflict are named by the failure; that an attempt failed says nothing more.
fn run_failed(attempt: u32, failure: &Failure) -> String {
    match failure.cause {
        Cause::Conflict(_) => clean(&failure.to_string()),
        _ => format!("attempt {attempt} failed: {}", clean(&failure.to_string())),
    }
}

fn held(reason: HoldReason, note: &str, by: &Principal) -> String {
    let note = if note.is_empty() { String::new() } else { format!(": {}", clean(note)) };
    match reason {
        HoldReason::Paused => format!("paused by {by}{note}"),
        HoldReason::ParentHeld => "held with the flow that it is a child of".to_owned(),
        HoldReason::Wall(wall) => format!("held: its budget of `{}` is reached", wall.word()),
    }
}

impl View for Plain {
    fn events(&mut self, events: &[Event], _: Timestamp) {
        for event in events {
            self.progress.apply(event);
            match (event.body.fact.path(), words(event, &self.progress)) {
                (Some(path), Some(words)) => say(&format!("{path}: {words}")),
                (None, Some(words)) => say(&words),
                (_, None) => {}
            }
        }
    }

    fn note(&mut self, text: &str) {
        say(text);
    }

    fn tick(&mut self, _: Timestamp) {}

    fn end(&mut self) {}
}
