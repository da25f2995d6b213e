//! Why a step waits that has no run, why a flow or step is held or finds its concurrency group full, and who can change
//! that.

use orc_domain::action::OnTimeout;
use orc_domain::budget::Wall;
use orc_domain::claim::Holder;
use orc_domain::flow::{Flow, FlowHead, FlowSpec, FlowState, Step, StepState};
use orc_domain::hold::{Hold, HoldReason, HoldScope};
use orc_domain::ids::FlowId;
use orc_domain::request::{Request, RequestKind, RequestState};
use orc_domain::time::Timestamp;
use orc_domain::wait::{FanOut, Round, Wait};

use super::{Facts, Other, hints, listed, siblings};
use crate::view::columns::clean_line;

/// Characters of a question that are shown.
const QUESTION: usize = 160;
/// Characters of what is said of a hold: the figures of a wall fit in.
const NOTE: usize = 240;

/// A wait: what it waits for, and who ends it.
pub(super) fn waiting(facts: &Facts<'_>, step: &Step, wait: &Wait) -> (String, String) {
    match wait {
        Wait::Elements(fan) => elements(facts, step, fan),
        Wait::Round(round) => in_round(facts, step, round),
        Wait::Flow { flow, stop, .. } => {
            let child = named(facts, *flow);
            let reason = match stop {
                None => format!("waits for its child {child}"),
                Some(stop) if stop.forced => format!("its child {child} was told to end at once"),
                Some(stop) => {
                    let again = stop.again_at.since(facts.now);
                    format!("its child {child} was asked to end; told to end at once in {again}")
                }
            };
            (reason, "that flow".to_owned())
        }
        Wait::Request { request } => match facts.flow.requests.get(request) {
            Some(request) => asked(request, facts.now),
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

fn asked(request: &Request, now: Timestamp) -> (String, String) {
    let RequestState::Open { since, deadline, .. } = request.state else {
        return ("its request is answered".to_owned(), "the next look at the flow".to_owned());
    };
    let id = request.id;
    let asks = match request.kind {
        RequestKind::Approval | RequestKind::Wall(_) => "asked",
        RequestKind::Question { .. } => "its agent asked",
        RequestKind::Permission { .. } => "its agent asked whether a call may run",
    };
    let question = clean_line(&request.message, QUESTION);
    let (age, closes) = (now.since(since), closing(request.on_timeout, deadline, now));
    (format!("{asks} {age} ago ({id}): {question}; {closes}"), who_may(request))
}

/// What a deadline does, and when; or that it should have by now.
pub(crate) fn closing(on_timeout: OnTimeout, deadline: Timestamp, now: Timestamp) -> String {
    let then = match on_timeout {
        OnTimeout::Deny => "denied",
        OnTimeout::Approve => "approved",
    };
    if deadline > now {
        format!("in {} it is {then}", deadline.since(now))
    } else {
        format!("its deadline passed {} ago, and it is not {then} yet", now.since(deadline))
    }
}

/// Who may answer, in words.
pub(crate) fn who_may(request: &Request) -> String {
    let may = request.may_answer();
    let who = if may.is_empty() { "whoever has the role admin".to_owned() } else { may.join(", ") };
    if request.four_eyes { format!("{who}, but not {}", request.asked_by) } else { who }
}

/// A full concurrency group: who is in it, and who can change that.
pub(super) fn group(facts: &Facts<'_>, name: &str, behind: &[Holder]) -> (String, String) {
    let own = facts.flow.spec.id;
    let holder = |holder: &Holder| {
        let flow = if holder.flow == own { "this flow".to_owned() } else { named(facts, holder.flow) };
        match holder.step {
            Some(no) => match facts.flow.step(no).filter(|_| holder.flow == own) {
                Some(step) => format!("`{}` of {flow}", step.path),
                None => format!("a step of {flow}"),
            },
            None => flow,
        }
    };
    let paused = behind.iter().find(|holder| facts.others.get(&holder.flow).is_some_and(|other| other.is_paused));
    let who = match paused {
        Some(holder) => format!("you: `orchestrator resume {}`, or whoever is in the group, by ending", holder.flow),
        None => "whoever is in the group, by ending".to_owned(),
    };
    let by =
        if behind.is_empty() { "by whom is not known".to_owned() } else { listed(behind.iter().map(holder).collect()) };
    (format!("the concurrency group `{name}` is full: {by}"), who)
}

/// Another flow with where it stands, as far as that is known.
fn named(facts: &Facts<'_>, id: FlowId) -> String {
    match facts.others.get(&id) {
        Some(Other { name, held: Some(held), .. }) => format!("{id} (`{name}`, {held})"),
        Some(Other { name, state, .. }) => format!("{id} (`{name}`, {state})"),
        None => format!("{id} (where it stands is not known)"),
    }
}

/// A hold on a step that could start.
pub(super) fn held(facts: &Facts<'_>, step: &Step) -> Option<(String, String)> {
    let hold = hold_on(facts.flow, step)?;
    Some((words(hold, facts.now), who_lifts(hold, facts.flow)))
}

/// What keeps a step from starting: a hold of the flow, of the step, or of what it is below.
pub(super) fn hold_on<'a>(flow: &'a Flow, step: &Step) -> Option<&'a Hold> {
    let above: Vec<&Step> = std::iter::successors(Some(step), |step| flow.step(step.origin.above()?)).collect();
    let covers = |hold: &&Hold| match &hold.scope {
        HoldScope::Flow => true,
        HoldScope::Step(path) => above.iter().any(|step| step.path == *path),
    };
    flow.head.holds.iter().find(covers)
}

/// A hold on a whole flow: since when, why, who lifts it.
pub(super) fn flow_held(facts: &Facts<'_>) -> Option<(Timestamp, String, String)> {
    let hold = facts.flow.head.holds.iter().find(|hold| hold.scope == HoldScope::Flow)?;
    Some((hold.since, words(hold, facts.now), who_lifts(hold, facts.flow)))
}

/// Where a flow stands, for one that waits for it.
pub(crate) fn other(spec: &FlowSpec, head: &FlowHead, now: Timestamp) -> Other {
    let hold = head.holds.iter().find(|hold| hold.scope == HoldScope::Flow);
    let live = !matches!(head.state, FlowState::Finished { .. });
    let hold = hold.filter(|_| live);
    Other {
        name: spec.name.clone(),
        state: crate::view::flow::words(&head.state),
        held: hold.map(|hold| words(hold, now)),
        is_paused: hold.is_some_and(|hold| hold.reason == HoldReason::Paused),
    }
}

/// A hold in words.
pub(crate) fn words(hold: &Hold, now: Timestamp) -> String {
    let age = now.since(hold.since);
    let why = match hold.reason {
        HoldReason::Paused => format!("paused by {} {age} ago", hold.by),
        HoldReason::ParentHeld => format!("the flow that it is a child of is held, for {age}"),
        HoldReason::Wall(wall) => format!("its budget of `{}` was reached {age} ago", Wall::word(wall)),
    };
    let note = if hold.note.is_empty() { String::new() } else { format!(": {}", clean_line(&hold.note, NOTE)) };
    let until = hold.until.map_or_else(String::new, |until| format!(", for {} more", until.since(now)));
    format!("{why}{note}{until}")
}

/// Who lifts a hold.
fn who_lifts(hold: &Hold, flow: &Flow) -> String {
    let resume = hints::resume(flow.spec.id, &hold.scope);
    match (hold.reason, hold.until) {
        (HoldReason::Paused, Some(until)) => format!("time, at {until}, or you: `{resume}`"),
        (HoldReason::Paused, None) => format!("you: `{resume}`"),
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
