//! A run as plain lines, for pipes and logs: one line for each thing that happened.

use orc_domain::event::{Event, Fact};
use orc_domain::flow::StepOutcome;
use orc_domain::path::StepPath;
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

    fn line(&self, event: &Event) -> Option<String> {
        let step = |path: &StepPath| self.progress.steps.iter().find(|step| step.path == *path);
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
            Fact::StepExpanded { path, total } => Some(format!("{path}: {total} elements")),
            Fact::CommandRunStarted { path, attempt: 1, .. } => Some(format!("{path}: runs")),
            Fact::CommandRunStarted { path, attempt, .. } => Some(format!("{path}: runs, attempt {attempt}")),
            Fact::CommandRunCompleted { path, attempt, outcome: RunOutcome::Failed(failure), .. } => {
                Some(format!("{path}: attempt {attempt} failed: {}", clean(&failure.to_string())))
            }
            Fact::CommandRunCompleted { .. } => None,
            Fact::RetryPlanned { path, not_before, .. } => {
                Some(format!("{path}: tries again in {}", not_before.since(event.body.at)))
            }
            Fact::RunStopRequested { path, forced, .. } => {
                Some(format!("{path}: {}", if *forced { "gets KILL" } else { "gets TERM" }))
            }
            Fact::StepFinished { path, outcome } => {
                let took = step(path).and_then(|step| step.took(event.body.at));
                let took = match (outcome, took) {
                    (StepOutcome::Skipped(_), _) | (_, None) => String::new(),
                    (_, Some(took)) => format!(" after {took}"),
                };
                Some(match outcome {
                    StepOutcome::Failed(failure) => format!("{path}: failed{took}: {}", clean(&failure.to_string())),
                    other => format!("{path}: {}{took}", outcome_words(other)),
                })
            }
        }
    }
}

impl View for Plain {
    fn events(&mut self, events: &[Event], _: Timestamp) {
        for event in events {
            self.progress.apply(event);
            if let Some(line) = self.line(event) {
                say(&line);
            }
        }
    }

    fn note(&mut self, text: &str) {
        say(text);
    }

    fn tick(&mut self, _: Timestamp) {}

    fn end(&mut self) {}
}
