//! A run as plain lines, for pipes and logs: one line for each thing that happened.

use orc_domain::event::{Event, Fact};
use orc_domain::flow::StepOutcome;
use orc_domain::run::RunOutcome;
use orc_domain::time::Timestamp;

use super::View;
use super::columns::clean;
use super::progress::{Progress, outcome_words};
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
        Fact::StepExpanded { total, .. } => Some(format!("{total} elements")),
        Fact::CommandRunStarted { attempt: 1, .. } => Some("runs".to_owned()),
        Fact::CommandRunStarted { attempt, .. } => Some(format!("runs, attempt {attempt}")),
        Fact::CommandRunCompleted { attempt, outcome: RunOutcome::Failed(failure), .. } => {
            Some(format!("attempt {attempt} failed: {}", clean(&failure.to_string())))
        }
        Fact::CommandRunCompleted { .. } => None,
        Fact::RetryPlanned { not_before, .. } => Some(format!("tries again in {}", not_before.since(event.body.at))),
        Fact::RunStopRequested { forced, .. } => Some((if *forced { "gets KILL" } else { "gets TERM" }).to_owned()),
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
