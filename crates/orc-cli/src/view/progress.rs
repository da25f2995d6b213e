//! What the events of a flow say about its steps: a pure fold, the same for every form of showing it.

use std::collections::BTreeMap;

use orc_domain::confine::{Violation, ViolationKind};
use orc_domain::event::{Event, Fact};
use orc_domain::flow::{FlowOutcome, StepOutcome};
use orc_domain::ids::{RequestId, RunId};
use orc_domain::path::StepPath;
use orc_domain::run::{StopReason, WakeReason};
use orc_domain::time::{Millis, Timestamp};

use super::columns::clean;

/// Columns that an element stands to the right of its fan-out.
const ELEMENT_INDENT: usize = 2;
/// Columns of names; a longer one pushes the rest of its line to the right.
const NAMES: usize = 28;

/// A flow as its events tell it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// Steps in the order in which they were first heard of.
    pub(crate) steps: Vec<StepProgress>,
    /// When the flow began.
    pub(crate) began_at: Option<Timestamp>,
    /// Who asked it to end, and whether at once.
    pub(crate) cancel: Option<(String, bool)>,
    /// When and how it ended.
    pub(crate) ended: Option<(Timestamp, FlowOutcome)>,
    /// What waits for an answer, the first first.
    pub(crate) asked: Vec<Asked>,
    by_path: BTreeMap<StepPath, usize>,
}

/// Something that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) request: RequestId,
    pub(crate) path: Option<StepPath>,
    /// An agent wants to know something, and any words may be the answer.
    pub(crate) is_question: bool,
    pub(crate) message: String,
    pub(crate) by: Vec<String>,
    pub(crate) deadline: Timestamp,
}

/// A step as events tell it.
#[derive(Clone, Debug)]
pub(crate) struct StepProgress {
    pub(crate) path: StepPath,
    pub(crate) state: Shown,
    pub(crate) attempt: u32,
    pub(crate) run: Option<RunId>,
    /// When its first run began.
    pub(crate) began_at: Option<Timestamp>,
    /// When it ended.
    pub(crate) ended_at: Option<Timestamp>,
    /// Elements, for a fan-out.
    pub(crate) elements: Option<u32>,
    /// How many of them are over.
    elements_over: u32,
    /// Its run is the agent of `on_conflict`.
    pub(crate) resolves: bool,
    /// How often its box refused something, as far as that can be seen.
    pub(crate) refusals: u32,
    /// The last of it, in words.
    pub(crate) refused: Option<String>,
}

/// Where a step stands, as far as events say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shown {
    Waiting,
    /// For people, a time, an event, a child flow, its round.
    Waits {
        on: String,
    },
    Running {
        since: Timestamp,
    },
    Retrying {
        not_before: Timestamp,
    },
    Stopping {
        reason: StopReason,
    },
    Finished(StepOutcome),
}

impl Progress {
    /// The steps that are known before anything happens.
    pub(crate) fn of_steps<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        let mut progress = Self::default();
        for key in keys {
            progress.step(&StepPath::root(key));
        }
        progress
    }

    /// A step that was heard of.
    pub(crate) fn get(&self, path: &StepPath) -> Option<&StepProgress> {
        self.by_path.get(path).map(|at| &self.steps[*at])
    }

    /// Takes an event in.
    pub(crate) fn apply(&mut self, event: &Event) {
        let at = event.body.at;
        self.note_request(&event.body.fact);
        match &event.body.fact {
            Fact::FlowStarted { .. } => self.began_at = Some(at),
            Fact::FlowCancelRequested { force } => self.cancel = Some((event.body.actor.to_string(), *force)),
            Fact::FlowFinished { outcome, .. } => self.ended = Some((at, *outcome)),
            Fact::StepExpanded { path, total } => {
                let step = self.step(path);
                step.elements = Some(*total);
                step.began_at.get_or_insert(at);
            }
            Fact::CommandRunStarted { path, run, attempt } | Fact::AgentRunStarted { path, run, attempt, .. } => {
                let step = self.step(path);
                (step.state, step.attempt, step.run) = (Shown::Running { since: at }, *attempt, Some(*run));
                step.resolves = matches!(&event.body.fact, Fact::AgentRunStarted { wake: WakeReason::Conflict, .. });
                step.began_at.get_or_insert(at);
            }
            Fact::CommandRunCompleted { path, run, attempt, .. }
            | Fact::AgentRunCompleted { path, run, attempt, .. } => {
                let step = self.step(path);
                (step.attempt, step.run) = (*attempt, Some(*run));
            }
            Fact::RoundStarted { path, number } => {
                let step = self.step(path);
                step.state = Shown::Waits { on: format!("round {number}") };
                step.attempt = 1;
                step.began_at.get_or_insert(at);
            }
            Fact::StepWaiting { path, on, what } => {
                let step = self.step(path);
                step.state = Shown::Waits { on: format!("{on} {what}") };
                step.began_at.get_or_insert(at);
            }
            Fact::RequestOpened { path: Some(path), request, by, .. } => {
                let who = if by.is_empty() { "an admin".to_owned() } else { by.join(", ") };
                let step = self.step(path);
                step.state = Shown::Waits { on: format!("{who} to answer {request}") };
                step.began_at.get_or_insert(at);
            }
            Fact::FlowQueued { .. }
            | Fact::HoldPlaced { .. }
            | Fact::HoldLifted { .. }
            | Fact::RequestOpened { path: None, .. }
            | Fact::RequestReminded { .. }
            | Fact::RequestResolved { .. }
            | Fact::WallReached { .. }
            | Fact::MessageReceived { .. } => {}
            Fact::SandboxViolation { path, violation, .. } => {
                let step = self.step(path);
                step.refusals = step.refusals.saturating_add(violation.count);
                step.refused = Some(refused(violation));
            }
            Fact::RunParked { path, until, .. } => {
                self.step(path).state = Shown::Retrying { not_before: *until };
            }
            Fact::RetryPlanned { path, not_before, .. } => {
                self.step(path).state = Shown::Retrying { not_before: *not_before };
            }
            Fact::RunStopRequested { path, reason, .. } => self.step(path).state = Shown::Stopping { reason: *reason },
            Fact::StepFinished { path, outcome } => self.note_end(path, outcome, at),
        }
    }

    fn note_end(&mut self, path: &StepPath, outcome: &StepOutcome, at: Timestamp) {
        let step = self.step(path);
        (step.state, step.ended_at) = (Shown::Finished(outcome.clone()), Some(at));
        if let Some(above) = path.above().filter(|_| step.is_element()) {
            self.step(&above).elements_over += 1;
        }
    }

    fn note_request(&mut self, fact: &Fact) {
        match fact {
            Fact::RequestOpened { path, request, kind, message, by, deadline } => self.asked.push(Asked {
                request: *request,
                path: path.clone(),
                is_question: kind == "question",
                message: message.clone(),
                by: by.clone(),
                deadline: *deadline,
            }),
            Fact::RequestReminded { request, by, .. } => {
                self.asked
                    .iter_mut()
                    .filter(|asked| asked.request == *request)
                    .for_each(|asked| asked.by.clone_from(by));
            }
            Fact::RequestResolved { request, .. } => self.asked.retain(|asked| asked.request != *request),
            _ => {}
        }
    }

    /// Steps by what they do now: running, finished, all.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let running = |step: &&StepProgress| matches!(step.state, Shown::Running { .. } | Shown::Stopping { .. });
        let finished = |step: &&StepProgress| matches!(step.state, Shown::Finished(_));
        // Elements that are announced and not yet heard of count as well.
        let announced: usize = self.steps.iter().filter_map(|step| step.elements).map(|n| n as usize).sum();
        let heard = self.steps.iter().filter(|step| step.is_element()).count();
        let all = self.steps.len() + announced.saturating_sub(heard);
        (self.steps.iter().filter(running).count(), self.steps.iter().filter(finished).count(), all)
    }

    /// Steps as they are shown: each one followed by what it made.
    pub(crate) fn ordered<'a>(&'a self) -> Vec<&'a StepProgress> {
        let mut below: BTreeMap<Option<StepPath>, Vec<&'a StepProgress>> = BTreeMap::new();
        for step in &self.steps {
            below.entry(step.path.above()).or_default().push(step);
        }
        for (above, own) in &mut below {
            if above.is_some() {
                // By index: of the same name, the longer path has the greater one. Rounds and their steps stay in order.
                own.sort_by_key(|step| if step.path.as_str().ends_with(']') { step.path.as_str().len() } else { 0 });
            }
        }
        let mut open: Vec<&StepProgress> = below.remove(&None).unwrap_or_default();
        open.reverse();
        let mut ordered = Vec::with_capacity(self.steps.len());
        while let Some(step) = open.pop() {
            ordered.push(step);
            open.extend(below.remove(&Some(step.path.clone())).unwrap_or_default().into_iter().rev());
        }
        ordered
    }

    /// Columns of the names, so that what follows them stands below each other.
    pub(crate) fn name_width(&self) -> usize {
        self.steps.iter().map(StepProgress::name_width).max().unwrap_or(0).min(NAMES)
    }

    fn step(&mut self, path: &StepPath) -> &mut StepProgress {
        let next = self.steps.len();
        let at = *self.by_path.entry(path.clone()).or_insert(next);
        if at == next {
            self.steps.push(StepProgress {
                path: path.clone(),
                state: Shown::Waiting,
                attempt: 0,
                run: None,
                began_at: None,
                ended_at: None,
                elements: None,
                elements_over: 0,
                resolves: false,
                refusals: 0,
                refused: None,
            });
        }
        &mut self.steps[at]
    }
}

impl StepProgress {
    /// How many steps it is below.
    pub(crate) fn depth(&self) -> usize {
        std::iter::successors(self.path.above(), StepPath::above).count()
    }

    /// Whether it is an element of a fan-out.
    fn is_element(&self) -> bool {
        self.path.as_str().ends_with([']', '}'])
    }

    /// How long it took, or has taken so far. Not known of one whose start and end were told at once.
    pub(crate) fn took(&self, now: Timestamp) -> Option<Millis> {
        let took = self.ended_at.unwrap_or(now).since(self.began_at?);
        (took > Millis::ZERO).then_some(took)
    }

    /// The state in words: `runs`, `succeeded (attempt 2)`, `failed: exit code 1`.
    fn words(&self, now: Timestamp) -> String {
        let words = match (&self.state, self.elements) {
            // The merge is a run that no event tells of before it is over.
            (Shown::Waiting, Some(total)) if self.elements_over >= total && total > 0 => {
                format!("brings together what its {total} elements made")
            }
            (Shown::Waiting, Some(total)) => format!("waits for its {total} elements"),
            (Shown::Waiting, None) => "waits".to_owned(),
            (Shown::Waits { on }, _) => format!("waits for {on}"),
            (Shown::Running { .. }, _) if self.resolves => "brings together what contradicts itself".to_owned(),
            (Shown::Running { .. }, _) => "runs".to_owned(),
            (Shown::Retrying { not_before }, _) if *not_before <= now => "waits for its next attempt".to_owned(),
            (Shown::Retrying { not_before }, _) => format!("tries again in {}", not_before.since(now)),
            (Shown::Stopping { reason }, _) => format!("is being ended ({})", stop_words(*reason)),
            (Shown::Finished(StepOutcome::Succeeded), Some(total)) => format!("succeeded, {total} elements"),
            (Shown::Finished(outcome), _) => outcome_words(outcome),
        };
        let attempt = if self.attempt > 1 { format!(" (attempt {})", self.attempt) } else { String::new() };
        let refused = match (&self.refused, self.refusals) {
            (None, _) => String::new(),
            (Some(last), 1) => format!("; its box refused {last}"),
            (Some(last), times) => format!("; its box refused {times} times, last {last}"),
        };
        format!("{words}{attempt}{refused}")
    }

    /// Columns that its name takes, with what an element is indented by.
    fn name_width(&self) -> usize {
        self.path.as_str().chars().count() + ELEMENT_INDENT * self.depth()
    }

    /// A line about it: `mark`, name, how long it took, the state in words.
    pub(crate) fn line(&self, mark: &str, width: usize, now: Timestamp) -> String {
        let indent = ELEMENT_INDENT * self.depth();
        let (name, width) = (self.path.as_str(), width.saturating_sub(indent));
        let took = self.took(now).map_or_else(String::new, |took| took.to_string());
        format!("  {:indent$}{mark} {name:width$}  {took:>7}  {}", "", self.words(now))
    }
}

/// An outcome with its reason.
pub(crate) fn outcome_words(outcome: &StepOutcome) -> String {
    match outcome {
        StepOutcome::Succeeded => "succeeded".to_owned(),
        StepOutcome::NoChange => "nothing to do".to_owned(),
        StepOutcome::Failed(failure) => format!("failed: {}", clean(&failure.to_string())),
        StepOutcome::Skipped(why) => format!("skipped: {why}"),
        StepOutcome::Cancelled => "cancelled".to_owned(),
    }
}

/// What a box refused, in words.
pub(crate) fn refused(violation: &Violation) -> String {
    let what = clean(&violation.what);
    let what = match violation.kind {
        ViolationKind::Network => format!("the network: {what}"),
        ViolationKind::Syscall => format!("a system call: {what}"),
        ViolationKind::Processes => format!("more processes: {what}"),
        ViolationKind::Memory => format!("more memory: {what}"),
        ViolationKind::Disk => format!("more disk space: {what}"),
    };
    if violation.count > 1 { format!("{what} ({} times)", violation.count) } else { what }
}

/// Why a run was asked to end, in words.
pub(crate) fn stop_words(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancel => "the flow was cancelled",
        StopReason::FailFast => "a sibling failed",
        StopReason::Timeout => "its timeout is over",
        StopReason::FinallyDeadline => "the time of `finally` is over",
        StopReason::StartDeadline => "its start was not confirmed",
        StopReason::Silence => "it said nothing for too long",
        StopReason::Looping => "it did the same again and again",
        StopReason::Wall(_) => "its budget is reached",
        StopReason::FlowWall(_) => "the budget of its flow is reached",
        StopReason::Paused => "a person paused it",
        StopReason::Parked(_) => "the provider of its model takes no calls for now",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(steps: &[(StepPath, Shown, Option<u32>)]) -> Progress {
        let mut progress = Progress::default();
        for (path, state, elements) in steps {
            let step = progress.step(path);
            (step.state, step.elements, step.attempt) = (state.clone(), *elements, 2);
            step.began_at = Some(Timestamp::from_millis(1_000));
        }
        progress
    }

    #[test]
    fn what_follows_names_stands_in_one_column() {
        let (group, now) = (StepPath::root("group"), Timestamp::from_millis(1_250));
        let retrying = Shown::Retrying { not_before: now };
        let running = Shown::Running { since: Timestamp::from_millis(1_000) };
        let steps = [(group.clone(), Shown::Waiting, Some(3)), (group.element(0), running, None)];
        let progress = progress(&[&steps[..], &[(StepPath::root("x"), retrying, None)]].concat());
        let lines: Vec<String> =
            progress.ordered().iter().map(|step| step.line("o", progress.name_width(), now)).collect();
        let wanted = [
            "  o group         250ms  waits for its 3 elements (attempt 2)",
            "    o group[0]    250ms  runs (attempt 2)",
            "  o x             250ms  waits for its next attempt (attempt 2)",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_fan_out_whose_elements_are_over_brings_them_together() {
        let (group, now) = (StepPath::root("group"), Timestamp::from_millis(1_250));
        let mut progress = progress(&[(group.clone(), Shown::Waiting, Some(2))]);
        let words = |progress: &Progress| progress.get(&group).unwrap().words(now);
        for (index, wanted) in [(0, "waits for its 2 elements"), (1, "brings together what its 2 elements made")] {
            progress.note_end(&group.element(index), &StepOutcome::Succeeded, now);
            assert!(words(&progress).starts_with(wanted), "{}", words(&progress));
        }
        progress.note_end(&group, &StepOutcome::Succeeded, now);
        assert!(words(&progress).starts_with("succeeded, 2 elements"), "{}", words(&progress));
    }

    #[test]
    fn a_length_that_nobody_measured_is_not_shown() {
        let step = (StepPath::root("x"), Shown::Finished(StepOutcome::Succeeded), None);
        let progress = progress(&[step]);
        assert_eq!(progress.steps[0].took(Timestamp::from_millis(1_000)), None);
    }
}
