//! A flow and its steps as they stand, for people; the document form is [`super::result::document`].

use std::collections::BTreeMap;

use orc_domain::flow::{Flow, FlowState, Phase, Step, StepNo, StepOutcome, StepState, Stop};
use orc_domain::time::Timestamp;

use super::columns::{Columns, clean_line};
use super::place;
use super::progress::outcome_words;
use super::result::step_state_word;
use crate::evidence::Carrier;
use crate::explanation::{explain_flow, explain_step};
use crate::look::Look;

/// Characters of a reason.
const REASON: usize = 120;

/// The whole flow.
pub(crate) fn text(look: &Look, carrier: &Carrier) -> String {
    let flow = &look.flow;
    let facts = look.facts(carrier);
    let explanation = explain_flow(&facts);
    let mut text = format!("{}  {}  {}\n", flow.spec.id, flow.spec.name, words(&flow.head.state));
    if let Some(alarm) = &explanation.alarm {
        text.push_str(&format!("! {alarm}\n"));
    }
    for hint in &explanation.hints {
        text.push_str(&format!("  try: {hint}\n"));
    }
    let mut about = Columns::new();
    about.row(["why", &explanation.reason]);
    about.row(["started", &format!("{} by {}", ago(flow.spec.created_at, look.now), flow.spec.requested_by)]);
    if let FlowState::Finished { at, .. } = &flow.head.state {
        let took = at.since(flow.spec.created_at);
        about.row(["ended", &format!("{} after {took}", ago(*at, look.now))]);
    }
    if let Some(before) = flow.spec.retry_of {
        about.row(["retry of", &before.to_string()]);
    }
    for (name, text) in place::of_flow(flow, &look.pipeline).rows(&flow.spec.directory) {
        about.row([name, &text]);
    }
    for (name, value) in &flow.spec.inputs {
        about.row(["input", &format!("{name} = {}", clean_line(&value.to_text().text, REASON))]);
    }
    text.push_str(&about.text("  "));
    text.push('\n');
    let mut steps = Columns::titled(&["STEP", "STATE", "SINCE", "TOOK", "ATTEMPTS", "REASON"]);
    for step in in_order(flow) {
        let indent = "  ".repeat(depth(flow, step));
        let path = format!("{indent}{}", step.path);
        let since = ago(step.since, look.now);
        let took = look.past.get(&step.path).and_then(|step| step.took(look.now));
        let took = took.map_or_else(|| "-".to_owned(), |took| took.to_string());
        let reason = match &step.state {
            StepState::Finished { outcome: StepOutcome::Succeeded | StepOutcome::NoChange } => String::new(),
            StepState::Finished { outcome: outcome @ (StepOutcome::Failed(_) | StepOutcome::Skipped(_)) } => {
                outcome_words(outcome)
            }
            _ => explain_step(&facts, step).reason,
        };
        let attempts = step.attempts.to_string();
        steps.row([&path, step_word(step), &since, &took, &attempts, &clean_line(&reason, REASON)]);
    }
    text.push_str(&steps.text("  "));
    let made = look.made.text();
    if !made.is_empty() {
        text.push_str(&format!("\n{made}"));
    }
    text
}

/// The state of a step, or its outcome once it is over.
fn step_word(step: &Step) -> &'static str {
    match &step.state {
        StepState::Finished { outcome } => outcome.word(),
        state => step_state_word(state),
    }
}

/// Where a flow stands, in a few words.
pub(crate) fn words(state: &FlowState) -> &'static str {
    match state {
        FlowState::Finished { outcome, .. } => outcome.word(),
        FlowState::Live { stop: Stop::Cancel { .. }, .. } => "being cancelled",
        FlowState::Live { stop: Stop::Force { .. }, .. } => "being ended at once",
        FlowState::Live { stop: Stop::Exhausted { .. }, .. } => "out of budget, being ended",
        FlowState::Queued { .. } => "queued",
        FlowState::Live { phase: Phase::Main, .. } => "live",
        FlowState::Live { phase: Phase::Finally { .. }, .. } => "live, in finally",
    }
}

/// `3m20s ago`.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", now.since(at))
}

/// Each step followed by what it made.
fn in_order(flow: &Flow) -> Vec<&Step> {
    let mut below: BTreeMap<Option<StepNo>, Vec<&Step>> = BTreeMap::new();
    for step in &flow.steps {
        below.entry(step.origin.above()).or_default().push(step);
    }
    let mut open: Vec<&Step> = below.remove(&None).unwrap_or_default();
    open.reverse();
    let mut ordered = Vec::with_capacity(flow.steps.len());
    while let Some(step) = open.pop() {
        ordered.push(step);
        open.extend(below.remove(&Some(step.no)).unwrap_or_default().into_iter().rev());
    }
    ordered
}

/// How many steps a step is below.
fn depth(flow: &Flow, step: &Step) -> usize {
    std::iter::successors(step.origin.above(), |no| flow.step(*no)?.origin.above()).count()
}
