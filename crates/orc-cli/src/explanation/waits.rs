//! Why a step waits that has no run, why a flow or step is held, and who can change that.

use orc_domain::budget::Wall;
use orc_domain::flow::{Flow, Step, StepNo, StepState};
use orc_domain::hold::{Hold, HoldReason, HoldScope};
use orc_domain::request::{Request, RequestKind, RequestState};
use orc_domain::time::Timestamp;
use orc_domain::wait::{FanOut, Round, Wait};

use super::{Facts, listed, siblings};
use crate::view::columns::clean_line;

/// Characters of a question that are shown.
const QUESTION: usize = 160;

/// A wait: what it waits for, and who ends it.
pub(super) fn waiting(facts: &Facts<'_>, step: &Step, wait: &Wait, hints: &mut Vec<String>) -> (String, String) {
    match wait {
        Wait::Elements(fan) => elements(facts, step, fan),
        Wait::Round(round) => in_round(facts, step, round),
        Wait::Flow { flow, stop, .. } => {
            hints.push(format!("orchestrator status {flow}"));
            let reason = match stop {
                None => format!("waits for its child {flow}"),
                Some(stop) if stop.forced => format!("its child {flow} was told to end at once"),
                Some(_) => format!("its child {flow} was asked to end"),
            };
            (reason, "that flow".to_owned())
        }
        Wait::Request { request } => match facts.flow.requests.get(request) {
            Some(request) => asked(request, facts.now, hints),
            None => (format!("waits for an answer to {request}, of which nothing more is known"), "unknown".to_owned()),
        },
        Wait::Until { at } => (format!("waits {} more", at.since(facts.now)), format!("time, at {at}")),
        Wait::Event { event, pipeline, deadline } => {
            let of = pipeline.as_ref().map_or_else(|| "any pipeline".to_owned(), |name| format!("`{name}`"));
            let reason = format!("waits for {} of {of}, for {} more", event.word(), deadline.since(facts.now));
            (reason, format!("that event, or time, at {deadline}"))
        }
    }
}

/// A wait in two words, for steps that need this one.
pub(super) fn brief(wait: &Wait) -> String {
    match wait {
        Wait::Elements(fan) => format!("{} elements", fan.total),
        Wait::Round(round) => format!("round {}", round.number),
        Wait::Flow { .. } => "its child flow".to_owned(),
        Wait::Request { .. } => "people".to_owned(),
        Wait::Until { at } => at.to_string(),
        Wait::Event { event, .. } => event.word().to_owned(),
    }
}

fn elements(facts: &Facts<'_>, step: &Step, fan: &FanOut) -> (String, String) {
    let elements: Vec<&Step> = siblings(facts, Some(step.no)).collect();
    let over = elements.iter().filter(|element| matches!(element.state, StepState::Finished { .. })).count();
    let running = elements.iter().filter(|element| matches!(element.state, StepState::Active { .. })).count();
    let written = if fan.cut {
        ", and no further ones come".to_owned()
    } else if fan.expanded < fan.total {
        format!(", {} not yet made", fan.total - fan.expanded)
    } else {
        String::new()
    };
    let reason = format!("waits for its elements: {over} of {} are over, {running} run{written}", fan.total);
    (reason, "its elements".to_owned())
}

fn in_round(facts: &Facts<'_>, step: &Step, round: &Round) -> (String, String) {
    let of_round = |other: &&Step| other.origin.above() == Some(step.no) && other.no >= round.first;
    let open = facts.flow.steps.iter().filter(of_round);
    let open = open.filter(|other| !matches!(other.state, StepState::Finished { .. }));
    let open = listed(open.map(|other| format!("`{}`", other.path)).collect());
    (format!("is in round {}; open: {open}", round.number), "the steps of the round".to_owned())
}

fn asked(request: &Request, now: Timestamp, hints: &mut Vec<String>) -> (String, String) {
    let RequestState::Open { since, deadline, .. } = request.state else {
        return ("its request is answered".to_owned(), "the next look at the flow".to_owned());
    };
    let id = request.id;
    hints.push(format!("orchestrator approvals approve {id}"));
    if matches!(request.kind, RequestKind::Question { .. }) {
        hints.push(format!("orchestrator message {} TEXT", request.flow));
    }
    let question = clean_line(&request.message, QUESTION);
    let (age, left) = (now.since(since), deadline.since(now));
    let reason = format!("asked {age} ago ({id}): {question}; closes in {left}");
    (reason, who_may(request))
}

/// Who may answer, in words.
pub(crate) fn who_may(request: &Request) -> String {
    let may = request.may_answer();
    let who = if may.is_empty() { "whoever has the role admin".to_owned() } else { may.join(", ") };
    if request.four_eyes { format!("{who}, but not {}", request.asked_by) } else { who }
}

/// A hold on a step that could start.
pub(super) fn held(facts: &Facts<'_>, step: &Step) -> Option<(String, String)> {
    let above = ancestry(facts.flow, step.no);
    let covers = |hold: &&Hold| match &hold.scope {
        HoldScope::Flow => true,
        HoldScope::Step(path) => above.iter().any(|step| step.path == *path),
    };
    let hold = facts.flow.head.holds.iter().find(covers)?;
    Some((words(hold, facts.now), who_lifts(hold, facts.flow)))
}

/// A hold on a whole flow: since when, why, who lifts it.
pub(super) fn flow_held(facts: &Facts<'_>) -> Option<(Timestamp, String, String)> {
    let hold = facts.flow.head.holds.iter().find(|hold| hold.scope == HoldScope::Flow)?;
    Some((hold.since, words(hold, facts.now), who_lifts(hold, facts.flow)))
}

/// What helps a flow as a whole on.
pub(super) fn flow_hints(flow: &Flow) -> Vec<String> {
    if flow.is_finished() {
        return Vec::new();
    }
    let id = flow.spec.id;
    let paused = flow.head.holds.iter().any(|hold| hold.reason == HoldReason::Paused && hold.scope == HoldScope::Flow);
    let mut hints = if paused { vec![format!("orchestrator flows resume {id}")] } else { Vec::new() };
    let own = flow.requests.values().filter(|request| request.step.is_none());
    hints.extend(own.map(|request| format!("orchestrator approvals approve {}", request.id)));
    hints
}

fn words(hold: &Hold, now: Timestamp) -> String {
    let age = now.since(hold.since);
    let why = match hold.reason {
        HoldReason::Paused => format!("paused by {} {age} ago", hold.by),
        HoldReason::ParentHeld => format!("the flow that it is a child of is held, for {age}"),
        HoldReason::Wall(wall) => format!("its budget of `{}` was used up {age} ago", Wall::word(wall)),
    };
    let note = if hold.note.is_empty() { String::new() } else { format!(": {}", clean_line(&hold.note, QUESTION)) };
    let until = hold.until.map_or_else(String::new, |until| format!(", for {} more", until.since(now)));
    format!("{why}{note}{until}")
}

fn who_lifts(hold: &Hold, flow: &Flow) -> String {
    match (hold.reason, hold.until) {
        (HoldReason::Paused, Some(until)) => format!("time, at {until}, or you: `flows resume`"),
        (HoldReason::Paused, None) => "you: `flows resume`".to_owned(),
        (HoldReason::ParentHeld, _) => match &flow.spec.parent {
            Some(parent) => format!("whoever lets {} go on", parent.flow),
            None => "whoever lets its parent go on".to_owned(),
        },
        (HoldReason::Wall(_), _) => {
            let wall = flow.requests.values().find(|request| matches!(request.kind, RequestKind::Wall(_)));
            wall.map_or_else(|| "whoever raises it".to_owned(), who_may)
        }
    }
}

fn ancestry(flow: &Flow, no: StepNo) -> Vec<&Step> {
    std::iter::successors(flow.step(no), |step| flow.step(step.origin.above()?)).collect()
}
