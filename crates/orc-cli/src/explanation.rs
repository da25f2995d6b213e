//! Why a step or a flow is not running, or why it ended as it did: a pure function of the store's state and of evidence.
//!
//! Every explanation says what, since when, why, who can change it, and a command that helps or looks closer; what is not
//! known is said to be unknown. `waits` has the waits and holds, `hints` the commands.

use std::collections::BTreeMap;

use orc_domain::flow::{
    Flow, FlowOutcome, FlowState, Held, Origin, Phase, SkipReason, Step, StepNo, StepOutcome, StepState, Stop,
};
use orc_domain::graph::{Action, PhaseKind, Pipeline, StartFrom, StepSpec};
use orc_domain::ids::{FlowId, RunId};
use orc_domain::liveness::Liveness;
use orc_domain::path::StepPath;
use orc_domain::run::{Cause, Failure, Run, RunState, Stopping, WakeReason};
use orc_domain::time::Timestamp;
use serde::Serialize;

mod hints;
mod waits;

pub(crate) use self::hints::{answer, is_of_machine};
pub(crate) use self::waits::{closing, other, who_may, words};

use crate::evidence::{Carrier, Says, Seen};
use crate::view::agent::liveness_of;
use crate::view::columns::clean_line;
use crate::view::progress::{Progress, outcome_words, stop_words};
use crate::view::result::{state_word, step_state_word};

/// Names that are listed before the rest is counted.
const LISTED: usize = 5;
/// Characters of an error that are shown.
const ERROR_CHARACTERS: usize = 200;

/// What is known about a flow.
pub(crate) struct Facts<'a> {
    pub(crate) flow: &'a Flow,
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) now: Timestamp,
    pub(crate) carrier: &'a Carrier,
    /// Evidence about its live runs.
    pub(crate) runs: BTreeMap<RunId, RunEvidence>,
    /// Who holds slots, as far as it was looked at.
    pub(crate) slots: &'a [SlotHolder],
    /// Where other flows stand that it waits for: its children, and who is in its concurrency groups.
    pub(crate) others: &'a BTreeMap<FlowId, Other>,
    /// What its events say, if they were read.
    pub(crate) past: &'a Progress,
}

/// Where a flow stands that another one waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    /// Its pipeline's name.
    pub(crate) name: String,
    /// Where it stands, in a few words.
    pub(crate) state: &'static str,
    /// Why nothing of it starts, if so.
    pub(crate) held: Option<String>,
    /// A person paused it.
    pub(crate) is_paused: bool,
}

/// What can be seen of a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunEvidence {
    pub(crate) process: Seen,
    pub(crate) last_output_at: Option<Timestamp>,
}

/// A step that holds a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotHolder {
    pub(crate) flow: FlowId,
    pub(crate) path: StepPath,
    pub(crate) since: Timestamp,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Explanation {
    /// The flow's id, or the step's path.
    pub(crate) of: String,
    /// The state's word.
    pub(crate) state: &'static str,
    #[serde(serialize_with = "as_text")]
    pub(crate) since: Timestamp,
    /// Why it stands there.
    pub(crate) reason: String,
    /// Who or what changes that.
    pub(crate) unblocked_by: String,
    /// Why it will not change by itself.
    pub(crate) alarm: Option<String>,
    /// Commands that help.
    pub(crate) hints: Vec<String>,
}

/// As documents write points in time.
pub(crate) fn as_text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// Explains a whole flow.
pub(crate) fn explain_flow(facts: &Facts<'_>) -> Explanation {
    let flow = facts.flow;
    let (since, reason, unblocked_by) = match &flow.head.state {
        FlowState::Finished { at, outcome } => (*at, end_of_flow(facts, *outcome), "nobody: it is over".to_owned()),
        FlowState::Queued { since, group, behind } => {
            let (mut reason, mut who) = waits::group(facts, group, behind);
            // Its turn may come while it is held; then nothing of it starts yet.
            if let Some((_, held, lifts)) = waits::flow_held(facts) {
                reason = format!("{reason}; {held}");
                who = format!("{who}; then {lifts}");
            }
            (*since, reason, who)
        }
        FlowState::Live { phase, stop } => live_flow(facts, *phase, stop),
    };
    let (hints, state) = (hints::of_flow(facts), state_word(&flow.head.state));
    with_carrier(
        facts,
        Explanation { of: flow.spec.id.to_string(), state, since, reason, unblocked_by, alarm: None, hints },
    )
}

/// Explains one step of a flow.
pub(crate) fn explain_step(facts: &Facts<'_>, step: &Step) -> Explanation {
    let (reason, unblocked_by) = match &step.state {
        StepState::Blocked => blocked(facts, step),
        StepState::Ready { not_before, held_by, wake } => {
            waits::held(facts, step).unwrap_or_else(|| ready(facts, step, *not_before, held_by.as_ref(), wake))
        }
        StepState::Active { run } => active(facts, step, *run),
        StepState::Waiting(wait) => waits::waiting(facts, step, wait),
        StepState::Finished { outcome } => finished(facts, step, outcome),
    };
    let (hints, state) = (hints::of_step(facts, step), step_state_word(&step.state));
    let of = step.path.to_string();
    let explanation = Explanation { of, state, since: step.since, reason, unblocked_by, alarm: None, hints };
    if matches!(step.state, StepState::Finished { .. }) { explanation } else { with_carrier(facts, explanation) }
}

/// Adds what is wrong with whoever should carry a live flow on.
fn with_carrier(facts: &Facts<'_>, mut explanation: Explanation) -> Explanation {
    let id = facts.flow.spec.id;
    if facts.flow.is_finished() {
        return explanation;
    }
    match (facts.carrier.carries(id), facts.carrier) {
        (Some(false), Carrier::Nobody) => {
            explanation.alarm = Some("nobody carries the flow on".to_owned());
        }
        (Some(false), carrier) => {
            explanation.alarm = Some(format!("nobody carries the flow on: {} is busy with others", carrier.name()));
        }
        (Some(true), Carrier::Process { says: Says::Carries { trouble: Some(trouble), .. }, .. }) => {
            explanation.alarm = Some(format!("{} cannot go on: {trouble}", facts.carrier.name()));
        }
        (None, Carrier::Process { says: Says::Nothing(why), .. }) => {
            let name = facts.carrier.name();
            explanation.alarm = Some(format!("whether {name} carries the flow on is unknown: {why}"));
        }
        _ => {}
    }
    if facts.carrier.carries(id) == Some(false) {
        explanation.unblocked_by = "you".to_owned();
        explanation.hints.insert(0, format!("orchestrator flows resume {id}"));
    }
    explanation
}

fn end_of_flow(facts: &Facts<'_>, outcome: FlowOutcome) -> String {
    let failed = facts.flow.steps.iter().filter(|step| fails_flow(facts, step));
    match outcome {
        FlowOutcome::Succeeded => "every step that had to succeed did".to_owned(),
        FlowOutcome::Cancelled if !facts.flow.head.detail.is_empty() => facts.flow.head.detail.clone(),
        FlowOutcome::Cancelled => cancelled_by(facts),
        FlowOutcome::BudgetExhausted => facts.flow.head.detail.clone(),
        FlowOutcome::Failed if !facts.flow.head.detail.is_empty() => facts.flow.head.detail.clone(),
        FlowOutcome::Failed => format!("failed: {}", listed(failed.map(|step| format!("`{}`", step.path)).collect())),
    }
}

/// A step of the definition that failed and was not allowed to.
fn fails_flow(facts: &Facts<'_>, step: &Step) -> bool {
    let failed = matches!(&step.state, StepState::Finished { outcome: StepOutcome::Failed(_) });
    failed && step.origin == Origin::Root && spec_of(facts, step).is_none_or(|spec| !spec.continue_on_fail)
}

fn live_flow(facts: &Facts<'_>, phase: Phase, stop: &Stop) -> (Timestamp, String, String) {
    let flow = facts.flow;
    let count = |wanted: fn(&StepState) -> bool| flow.steps.iter().filter(|step| wanted(&step.state)).count();
    let running = count(|state| matches!(state, StepState::Active { .. }));
    let ready = count(|state| matches!(state, StepState::Ready { .. }));
    let blocked = count(|state| matches!(state, StepState::Blocked));
    let waiting = count(|state| matches!(state, StepState::Waiting(_)));
    let mut counts = format!("{running} running, {ready} ready to start, {blocked} waiting for other steps");
    if waiting > 0 {
        counts.push_str(&format!(", {waiting} waiting for something else"));
    }
    if let Some((since, reason, who)) = waits::flow_held(facts) {
        return (since, format!("{reason}; {counts}"), who);
    }
    let part = match phase {
        Phase::Main => counts,
        Phase::Finally { deadline } => format!("`finally`, for {} more: {counts}", deadline.since(facts.now)),
    };
    let steps = "its steps".to_owned();
    match stop {
        Stop::None => (flow.spec.created_at, part, steps),
        Stop::Cancel { by, at } => (
            *at,
            format!("being cancelled by {by}: nothing new starts; {part}"),
            format!("{steps}, or a second cancel"),
        ),
        Stop::Force { by, at } => (*at, format!("being ended at once by {by}; {part}"), steps),
        Stop::Exhausted { wall, at } => {
            let reason = format!("its budget of `{}` is reached, so it is being ended: {part}", wall.word());
            (*at, reason, format!("{steps}, or a cancel"))
        }
    }
}

fn blocked(facts: &Facts<'_>, step: &Step) -> (String, String) {
    let Some(spec) = spec_of(facts, step) else { return unknown_definition() };
    let Some(open) = open_needs(facts, step) else { return unknown_definition() };
    if let FlowState::Queued { group, .. } = &facts.flow.head.state {
        let reason = format!("its flow has not begun: the concurrency group `{group}` is full");
        return (reason, "whoever is in the group, by ending".to_owned());
    }
    if waits_for_main(facts, spec) {
        let open = listed(open.iter().map(|step| format!("`{}`", step.path)).collect());
        return (format!("`finally` begins when all other steps are over; open: {open}"), "those steps".to_owned());
    }
    if open.is_empty() {
        return ("everything that it needs is over".to_owned(), "the next look at the flow".to_owned());
    }
    let open = open.iter().map(|parent| format!("`{}` ({})", parent.path, brief(facts, parent)));
    (format!("needs {}", listed(open.collect())), "the steps that it needs".to_owned())
}

fn waits_for_main(facts: &Facts<'_>, spec: &StepSpec) -> bool {
    let in_main = matches!(facts.flow.head.state, FlowState::Live { phase: Phase::Main, .. });
    spec.phase == PhaseKind::Finally && in_main
}

/// Steps that are not over and that a blocked one waits for. `None` when its definition does not say.
fn open_needs<'a>(facts: &Facts<'a>, step: &Step) -> Option<Vec<&'a Step>> {
    let (flow, spec) = (facts.flow, spec_of(facts, step)?);
    let is_open = |other: &&Step| !matches!(other.state, StepState::Finished { .. });
    if waits_for_main(facts, spec) {
        let is_main = |other: &&Step| {
            let main = spec_of(facts, other).is_some_and(|spec| spec.phase == PhaseKind::Main);
            main && other.origin == Origin::Root
        };
        return Some(flow.steps.iter().filter(is_main).filter(is_open).collect());
    }
    // The first step of the body that it belongs to, in the definition and in the flow.
    let (first, at) = match &step.origin {
        Origin::Round { of, first, .. } => match flow.step(*of).and_then(|of| spec_of(facts, of)) {
            Some(StepSpec { action: Action::Repeat(repeat), .. }) => (repeat.first.0, first.0),
            _ => return None,
        },
        Origin::Root | Origin::Element(_) => (0, 0),
    };
    let instance = |need: u32| need.checked_sub(first).map(|place| (place + at) as usize);
    let parents = spec.needs.iter().filter_map(|need| flow.steps.get(instance(need.0)?));
    Some(parents.filter(is_open).collect())
}

fn ready(
    facts: &Facts<'_>,
    step: &Step,
    not_before: Timestamp,
    held_by: Option<&Held>,
    wake: &WakeReason,
) -> (String, String) {
    if not_before > facts.now {
        let what = match wake {
            WakeReason::Recovery { lost } => format!("{lost} was lost"),
            WakeReason::PipelineStep => format!("attempt {} failed", step.attempts),
            WakeReason::Conflict => contradiction(facts, step),
            WakeReason::UserMessage { message } => format!("{message} was written to it"),
        };
        let left = not_before.since(facts.now);
        return (format!("waits {left} before it is tried again: {what}"), format!("time, at {not_before}"));
    }
    match held_by {
        Some(Held::Slot) => {
            let by = if facts.slots.is_empty() {
                "who holds them is not known".to_owned()
            } else {
                let holder = |slot: &SlotHolder| {
                    let age = facts.now.since(slot.since);
                    if slot.flow == facts.flow.spec.id {
                        format!("`{}` for {age}", slot.path)
                    } else {
                        format!("`{}` of {} for {age}", slot.path, slot.flow)
                    }
                };
                listed(facts.slots.iter().map(holder).collect())
            };
            (format!("no slot is free: {by}"), "a run that ends, or more slots (`--slots`, `slots:`)".to_owned())
        }
        Some(Held::Limit) => {
            let limit = spec_of(facts, step).and_then(|spec| spec.fan.as_ref()?.limit);
            let limit = limit.map_or_else(|| "its limit".to_owned(), |limit| format!("`limit: {limit}`"));
            let group = step.origin.element().map(|element| element.group);
            let running: Vec<String> = siblings(facts, group)
                .filter(|sibling| matches!(sibling.state, StepState::Active { .. } | StepState::Waiting(_)))
                .map(|sibling| format!("`{}`", sibling.path))
                .collect();
            (
                format!("{limit} lets no further element run beside {}", listed(running)),
                "an element that ends".to_owned(),
            )
        }
        Some(Held::Group { name, behind }) => waits::group(facts, name, behind),
        None if step.merging.is_contradicting() => {
            (contradiction(facts, step), "the next look at the flow, which starts that agent".to_owned())
        }
        None => ("it may start now".to_owned(), "the next look at the flow".to_owned()),
    }
}

/// Tips that contradict each other, and who is to bring them together.
fn contradiction(facts: &Facts<'_>, step: &Step) -> String {
    let what = if joins(facts, step) { "what its elements made" } else { "what it starts from" };
    match spec_of(facts, step).and_then(|spec| spec.on_conflict.as_ref()) {
        Some(action) => format!("{what} contradicts itself, and agent `{}` is to bring it together", action.agent),
        None => format!("{what} contradicts itself"),
    }
}

/// Whether a run of this step is the merge of what its elements made.
fn joins(facts: &Facts<'_>, step: &Step) -> bool {
    step.origin.element().is_none() && spec_of(facts, step).is_some_and(|spec| spec.fan.is_some())
}

fn active(facts: &Facts<'_>, step: &Step, run: RunId) -> (String, String) {
    let evidence = facts.runs.get(&run);
    let Some(live) = facts.flow.runs.get(&run) else {
        return (format!("{run} tries it, and nothing more is known of that run"), "unknown".to_owned());
    };
    match &live.state {
        RunState::Pending { since, stop, .. } => {
            let age = facts.now.since(*since);
            let merges = live.agent.is_none() && joins(facts, step);
            let has_copy = spec_of(facts, step)
                .is_some_and(|spec| matches!(spec.worktree.from, StartFrom::Fresh | StartFrom::Parents));
            let reason = match stop {
                Some(stop) => ending(facts, stop),
                None if merges => format!("what its elements made is being merged, for {age}"),
                None if has_copy => format!("its private copy is being made and its process started, for {age}"),
                None => format!("its process is being started, for {age}"),
            };
            let until = if merges {
                "the end of the merge, or its deadline"
            } else {
                "the start of its process, or its deadline"
            };
            (reason, until.to_owned())
        }
        RunState::Running { since, process, deadline, stop } => {
            let age = facts.now.since(*since);
            let output = last_words(live, evidence, facts.now);
            let lives = match evidence.map(|evidence| evidence.process) {
                Some(Seen::Gone) => {
                    let reason = format!("process {} is gone and its end is not written down; {output}", process.pid);
                    return (reason, "whoever carries the flow on".to_owned());
                }
                Some(Seen::Alive) => "",
                Some(Seen::Unknown) | None => " (whether it lives is not known)",
            };
            let pid = process.pid;
            let brings = if step.merging.is_contradicting() { ", which brings a conflict together," } else { "" };
            let who = live.agent.as_ref();
            let who = who.map_or_else(String::new, |agent| format!(" of agent `{}`{brings}", agent.agent));
            let output = match refusals(facts, step) {
                Some(refused) => format!("{output}; {refused}"),
                None => output,
            };
            let reason = match stop {
                Some(stop) => format!("process {pid}{lives}: {}; {output}", ending(facts, stop)),
                None => {
                    let left = deadline.since(facts.now);
                    let attempt = live.attempt;
                    format!(
                        "attempt {attempt}{who} runs for {age} as process {pid}{lives}; {output}; timeout in {left}"
                    )
                }
            };
            (reason, "the process, its timeout, or a cancel".to_owned())
        }
        RunState::Finished { .. } => ("its run is over".to_owned(), "the next look at the flow".to_owned()),
    }
}

/// When a run said something last, and of an agent that has been silent for long: when that ends it.
fn last_words(run: &Run, evidence: Option<&RunEvidence>, now: Timestamp) -> String {
    let seen = evidence.and_then(|evidence| evidence.last_output_at);
    let told = run.agent.as_ref().and_then(|agent| agent.statistics.last_output_at);
    let output = match seen.max(told) {
        Some(at) => format!("last output {} ago", now.since(at)),
        None => "no output is known".to_owned(),
    };
    match (&run.agent, liveness_of(run, evidence, now)) {
        (Some(agent), Some(liveness @ Liveness::Stalled)) => {
            let word = liveness.word();
            format!("{output}: {word}, ended as silent {} after its last output", agent.silence)
        }
        (_, Some(liveness)) => format!("{output}: {}", liveness.word()),
        (_, None) => output,
    }
}

fn ending(facts: &Facts<'_>, stop: &Stopping) -> String {
    let how = if stop.forced { "was told to end at once" } else { "was asked to end" };
    let again = stop.again_at.since(facts.now);
    format!("{how}, because {}; asked again, harder, in {again}", stop_words(stop.reason))
}

fn finished(facts: &Facts<'_>, step: &Step, outcome: &StepOutcome) -> (String, String) {
    let flow = facts.flow.spec.id;
    let taken_over = facts.flow.spec.taken_over.contains_key(&step.path);
    let reason = match outcome {
        StepOutcome::Succeeded | StepOutcome::NoChange if taken_over => match facts.flow.spec.retry_of {
            Some(before) => format!("{}: taken over from {before}", outcome_words(outcome)),
            None => outcome_words(outcome),
        },
        StepOutcome::Succeeded | StepOutcome::NoChange => outcome_words(outcome),
        StepOutcome::Skipped(_) => outcome_words(outcome),
        StepOutcome::Cancelled => match step.origin.element() {
            Some(_) if facts.past.cancel.is_none() && ended_at_wall(facts).is_none() => {
                "a sibling failed, and the fan-out is `fail_fast`".to_owned()
            }
            _ => cancelled_by(facts),
        },
        StepOutcome::Failed(failure) => {
            let attempts = match step.attempts {
                // A fan-out has none of its own.
                0 => String::new(),
                1 => " after 1 attempt".to_owned(),
                several => format!(" after {several} attempts"),
            };
            let refused = refusals(facts, step).map_or_else(String::new, |refused| format!("; {refused}"));
            format!("failed{attempts}: {}{refused}", clean_line(&failure.to_string(), ERROR_CHARACTERS))
        }
    };
    if let StepOutcome::Failed(failure) = outcome
        && let Some(who) = who_mends(facts, step, failure)
    {
        return (reason, who);
    }
    if let StepOutcome::Failed(failure) = outcome
        && failure.cause == Cause::LostNotIdempotent
    {
        let who = format!("you: look what it did, then decide; `orchestrator retry {flow}` runs it again");
        return (reason, who);
    }
    if *outcome == StepOutcome::Skipped(SkipReason::Condition) {
        return (reason, "nobody: the pipeline said so".to_owned());
    }
    let succeeded = matches!(outcome, StepOutcome::Succeeded | StepOutcome::NoChange);
    let who = match (succeeded, facts.flow.is_finished()) {
        (true, _) => "nobody: it is done".to_owned(),
        (false, false) => "nobody: it is final; once the flow is over, a retry runs it again".to_owned(),
        (false, true) => format!("you: `orchestrator retry {flow}` runs it again in a new flow"),
    };
    (reason, who)
}

/// Who removes the cause of a failure that another attempt would only meet again.
fn who_mends(facts: &Facts<'_>, step: &Step, failure: &Failure) -> Option<String> {
    let first = match &failure.cause {
        Cause::Conflict(_) => {
            let apart = if joins(facts, step) {
                "let the elements change different files"
            } else {
                "let one of the two sides need the other"
            };
            format!("you: {apart}, or give the step an agent that brings them together (`on_conflict`)")
        }
        _ if hints::is_of_machine(failure) => {
            "whoever looks after this machine: `orchestrator doctor` says what is missing".to_owned()
        }
        Cause::Worktree => "you: the repository, or what the pipeline says of it".to_owned(),
        _ => return None,
    };
    let then = if facts.flow.is_finished() {
        format!("`orchestrator retry {}`", facts.flow.spec.id)
    } else {
        "once the flow is over, a retry".to_owned()
    };
    Some(format!("{first}; then {then} runs it again"))
}

/// What the box of a step refused, where its events say so.
fn refusals(facts: &Facts<'_>, step: &Step) -> Option<String> {
    let past = facts.past.get(&step.path)?;
    let last = past.refused.as_ref()?;
    Some(match past.refusals {
        1 => format!("its box refused {last}"),
        times => format!("its box refused {times} times, last {last}"),
    })
}

fn cancelled_by(facts: &Facts<'_>) -> String {
    match (&facts.past.cancel, &facts.flow.head.state) {
        (Some((by, _)), _) => format!("the flow was cancelled by {by}"),
        (None, FlowState::Live { stop: Stop::Cancel { by, .. } | Stop::Force { by, .. }, .. }) => {
            format!("the flow was cancelled by {by}")
        }
        (None, _) => ended_at_wall(facts).unwrap_or_else(|| "it was no longer wanted; by whom is not known".to_owned()),
    }
}

/// The wall that ended the flow, if one did, with its figures.
fn ended_at_wall(facts: &Facts<'_>) -> Option<String> {
    let head = &facts.flow.head;
    let exhausted = match head.state {
        FlowState::Live { stop: Stop::Exhausted { .. }, .. } => true,
        FlowState::Finished { outcome, .. } => outcome == FlowOutcome::BudgetExhausted,
        _ => false,
    };
    exhausted.then(|| format!("its flow ended at a wall: {}", head.detail))
}

/// A state in a few words, for parents.
fn brief(facts: &Facts<'_>, step: &Step) -> String {
    let age = facts.now.since(step.since);
    match &step.state {
        StepState::Blocked => "waits for others".to_owned(),
        StepState::Ready { not_before, .. } if *not_before > facts.now => {
            format!("tries again in {}", not_before.since(facts.now))
        }
        StepState::Ready { held_by: Some(Held::Slot), .. } => "waits for a slot".to_owned(),
        StepState::Ready { held_by: Some(Held::Limit), .. } => "waits for its limit".to_owned(),
        StepState::Ready { held_by: None, .. } => "may start".to_owned(),
        StepState::Active { .. } => format!("runs for {age}"),
        StepState::Ready { held_by: Some(Held::Group { name, .. }), .. } => format!("waits for the group `{name}`"),
        StepState::Waiting(wait) => format!("waits for {} for {age}", waits::brief(wait)),
        StepState::Finished { outcome } => outcome.word().to_owned(),
    }
}

/// The elements of a fan-out.
fn siblings<'a>(facts: &Facts<'a>, group: Option<StepNo>) -> impl Iterator<Item = &'a Step> {
    let flow = facts.flow;
    let of_group = move |step: &&Step| group.is_some() && step.origin.element().map(|element| element.group) == group;
    flow.steps.iter().filter(of_group)
}

fn spec_of<'a>(facts: &Facts<'a>, step: &Step) -> Option<&'a StepSpec> {
    facts.pipeline.steps.get(step.spec.0 as usize)
}

fn unknown_definition() -> (String, String) {
    ("its definition does not have it".to_owned(), "unknown".to_owned())
}

/// Some names, and how many more there are.
fn listed(mut names: Vec<String>) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let names = names.join(", ");
    if more == 0 { names } else { format!("{names} and {more} more") }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk;
