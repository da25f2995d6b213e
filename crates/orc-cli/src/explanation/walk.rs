//! A walk through everything that a flow, a step or a run can wait for: each time there is a reason, an age, somebody or
//! something that changes it, and a command that can be typed; and what is not known is said to be unknown.

mod cases;

use std::collections::BTreeSet;

use clap::Parser as _;
use orc_domain::action::{OnTimeout, Tier, WaitEvent};
use orc_domain::agent::Statistics;
use orc_domain::budget::{Usage, Wall};
use orc_domain::claim::Holder;
use orc_domain::flow::Merging;
use orc_domain::flow::Parent;
use orc_domain::hold::{Hold, HoldReason, HoldScope};
use orc_domain::ids::{ContentHash, HoldId, RequestId};
use orc_domain::principal::Principal;
use orc_domain::request::{Request, RequestKind, RequestState};
use orc_domain::run::{AgentRun, StopReason};
use orc_domain::time::Millis;
use orc_domain::wait::{FanOut, Round, Wait};
use uuid::Uuid;

use self::cases::{flows, steps};
use super::tests::{at, element, flow_with, flow_with_run, holder, past, pipeline, ready, run_id, running, step};
use super::*;
use crate::args::Arguments;
use crate::commands::status::report::Waiting;

/// One situation.
struct Case {
    /// The word of [`of_step`] or [`of_flow`].
    kind: &'static str,
    flow: Flow,
    /// The step that is explained; none: the flow.
    no: Option<u32>,
    /// Parts of the reason.
    reason: Vec<String>,
    /// A part of who changes it.
    who: String,
    /// The beginnings of its hints.
    hints: Vec<String>,
}

fn other_flow() -> FlowId {
    FlowId::from_uuid(Uuid::from_u128(2))
}

fn paused_flow() -> FlowId {
    FlowId::from_uuid(Uuid::from_u128(3))
}

fn unknown_flow() -> FlowId {
    FlowId::from_uuid(Uuid::from_u128(4))
}

fn request_id() -> RequestId {
    RequestId::from_uuid(Uuid::from_u128(5))
}

fn hold(scope: HoldScope, reason: HoldReason, until: Option<Timestamp>) -> Hold {
    let id = HoldId::from_uuid(Uuid::from_u128(6));
    Hold {
        id,
        scope,
        reason,
        note: "lunch".to_owned(),
        by: Principal::Os(5),
        since: at(6),
        until,
        sticky: until.is_none(),
    }
}

fn request(kind: RequestKind, on_step: bool) -> Request {
    Request {
        id: request_id(),
        flow: FlowId::from_uuid(Uuid::from_u128(1)),
        step: on_step.then(|| (StepNo(0), StepPath::root("build"))),
        kind,
        message: "May it?".to_owned(),
        subject: ContentHash::of(b""),
        asked_by: Principal::Os(5),
        four_eyes: true,
        by: vec!["ann".to_owned()],
        tiers: vec![Tier { after: Millis::from_secs(60), by: vec!["bob".to_owned()] }],
        remind: None,
        on_timeout: OnTimeout::Deny,
        state: RequestState::Open { since: at(9), deadline: at(-90), tell_at: None, tier: 0 },
    }
}

fn agent(last_output_at: Option<Timestamp>) -> AgentRun {
    AgentRun {
        agent: "coder".to_owned(),
        profile: ContentHash::of(b""),
        silence: Millis::from_secs(10),
        statistics: Statistics { last_output_at, ..Statistics::default() },
        usage: Usage::default(),
        messages: Vec::new(),
        answer: None,
        stop: None,
        short: None,
    }
}

/// The word of a state, of every kind that is not final. Whatever is added to a state does not compile until it is here.
fn of_step(step: &Step, flow: &Flow, now: Timestamp) -> &'static str {
    match &step.state {
        StepState::Blocked if spec_is_finally(step) => "blocked: finally",
        StepState::Blocked => "blocked",
        StepState::Ready { .. } if waits::hold_on(flow, step).is_some() => {
            match waits::hold_on(flow, step).map(|hold| (&hold.scope, hold.reason)) {
                Some((HoldScope::Flow, HoldReason::Paused)) => "ready: paused flow",
                Some((HoldScope::Step(_), _)) => "ready: paused step",
                Some((HoldScope::Flow, HoldReason::ParentHeld)) => "ready: parent held",
                Some((HoldScope::Flow, HoldReason::Wall(_))) => "ready: wall",
                None => "",
            }
        }
        StepState::Ready { not_before, wake, .. } if *not_before > now => match wake {
            WakeReason::PipelineStep => "ready: back-off",
            WakeReason::Recovery { .. } => "ready: back-off after a loss",
            WakeReason::Conflict => "ready: conflict, back-off",
            WakeReason::UserMessage { .. } => "ready: message",
        },
        StepState::Ready { held_by, .. } => match held_by {
            Some(Held::Slot) => "ready: slot",
            Some(Held::Limit) => "ready: limit",
            Some(Held::Group { .. }) => "ready: group",
            None if step.merging.is_contradicting() => "ready: conflict",
            None => "ready",
        },
        StepState::Active { run } if merges(step, flow, *run) => "active: merge",
        StepState::Active { .. } if step.merging.is_contradicting() => "active: resolves",
        StepState::Active { run } => match flow.runs.get(run).map(|run| (&run.state, &run.agent)) {
            None => "active: unknown",
            Some((RunState::Pending { stop: None, .. }, _)) => "active: pending",
            Some((RunState::Pending { stop: Some(_), .. } | RunState::Running { stop: Some(_), .. }, _)) => {
                "active: stopping"
            }
            Some((RunState::Running { .. }, None)) => "active: command",
            Some((RunState::Running { .. }, Some(agent))) if agent.statistics.last_output_at > Some(at(6)) => {
                "active: agent"
            }
            Some((RunState::Running { .. }, Some(_))) => "active: silent agent",
            Some((RunState::Finished { .. }, _)) => "active: over",
        },
        StepState::Waiting(wait) => match wait {
            Wait::Elements(_) => "waiting: elements",
            Wait::Round(_) => "waiting: round",
            Wait::Flow { stop: None, .. } => "waiting: flow",
            Wait::Flow { stop: Some(_), .. } => "waiting: flow, stopping",
            Wait::Request { request } => match flow.requests.get(request).map(|request| &request.kind) {
                Some(RequestKind::Approval) => "waiting: approval",
                Some(RequestKind::Question { .. }) => "waiting: question",
                Some(RequestKind::Permission { .. }) => "waiting: permission",
                Some(RequestKind::Wall(_)) => "waiting: wall",
                None => "waiting: unknown request",
            },
            Wait::Until { .. } => "waiting: time",
            Wait::Event { .. } => "waiting: event",
        },
        StepState::Finished { .. } => "finished",
    }
}

/// A run of a fan-out is the merge of what its elements made.
fn merges(step: &Step, flow: &Flow, run: RunId) -> bool {
    let has_fan = pipeline().steps[step.spec.0 as usize].fan.is_some() && step.origin.element().is_none();
    has_fan && flow.runs.get(&run).is_some_and(|run| run.agent.is_none())
}

fn spec_is_finally(step: &Step) -> bool {
    pipeline().steps[step.spec.0 as usize].phase == PhaseKind::Finally
}

fn of_flow(flow: &Flow) -> &'static str {
    let hold = flow.head.holds.iter().find(|hold| hold.scope == HoldScope::Flow);
    match (&flow.head.state, hold.map(|hold| hold.reason)) {
        (FlowState::Queued { .. }, None) => "flow: queued",
        (FlowState::Queued { .. }, Some(_)) => "flow: queued and held",
        (FlowState::Live { .. }, Some(HoldReason::Paused)) => "flow: paused",
        (FlowState::Live { .. }, Some(HoldReason::ParentHeld)) => "flow: parent held",
        (FlowState::Live { .. }, Some(HoldReason::Wall(_))) => "flow: wall",
        (FlowState::Live { phase: Phase::Finally { .. }, .. }, None) => "flow: finally",
        (FlowState::Live { stop, .. }, None) => match stop {
            Stop::None => "flow: live",
            Stop::Cancel { .. } => "flow: cancelled",
            Stop::Force { .. } => "flow: forced",
            Stop::Exhausted { .. } => "flow: exhausted",
        },
        (FlowState::Finished { .. }, _) => "finished",
    }
}

const EVERY: [&str; 43] = [
    "active: agent",
    "active: command",
    "active: merge",
    "active: over",
    "active: pending",
    "active: resolves",
    "active: silent agent",
    "active: stopping",
    "active: unknown",
    "blocked",
    "blocked: finally",
    "flow: cancelled",
    "flow: exhausted",
    "flow: finally",
    "flow: forced",
    "flow: live",
    "flow: parent held",
    "flow: paused",
    "flow: queued",
    "flow: queued and held",
    "flow: wall",
    "ready",
    "ready: back-off",
    "ready: back-off after a loss",
    "ready: conflict",
    "ready: conflict, back-off",
    "ready: group",
    "ready: limit",
    "ready: message",
    "ready: parent held",
    "ready: paused flow",
    "ready: paused step",
    "ready: slot",
    "ready: wall",
    "waiting: approval",
    "waiting: elements",
    "waiting: event",
    "waiting: flow",
    "waiting: flow, stopping",
    "waiting: question",
    "waiting: round",
    "waiting: time",
    "waiting: unknown request",
];

/// Words as a shell takes them, for what hints hold: single quotes.
fn words_of(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (at, part) in command.split('\'').enumerate() {
        if at % 2 == 1 { words.push(part.to_owned()) } else { words.extend(part.split_whitespace().map(str::to_owned)) }
    }
    words
}

#[test]
fn every_wait_has_a_reason_an_age_somebody_who_ends_it_and_a_command() {
    let pipeline = pipeline();
    let slots = [SlotHolder { flow: other_flow(), path: StepPath::root("other"), since: at(3) }];
    let deploy = Other { name: "deploy".to_owned(), state: "live", held: None, is_paused: false };
    let held = Some("paused by os:5 6s ago".to_owned());
    let others =
        BTreeMap::from([(other_flow(), deploy.clone()), (paused_flow(), Other { held, is_paused: true, ..deploy })]);
    let seen = RunEvidence { process: Seen::Alive, last_output_at: Some(at(4)) };
    let mut walked = BTreeSet::new();
    for Case { kind, flow, no, reason, who, hints } in steps().into_iter().chain(flows()) {
        walked.insert(kind);
        // What an agent said last is known from what it told.
        let of_agent = flow.runs.values().any(|run| run.agent.is_some());
        let seen = RunEvidence { last_output_at: seen.last_output_at.filter(|_| !of_agent), ..seen };
        let facts = Facts {
            flow: &flow,
            pipeline: &pipeline,
            now: at(0),
            carrier: &holder(&[flow.spec.id], None),
            runs: BTreeMap::from([(run_id(), seen)]),
            slots: &slots,
            others: &others,
            past: &past(None),
        };
        let said = match no {
            Some(no) => explain_step(&facts, &flow.steps[no as usize]),
            None => explain_flow(&facts),
        };
        assert!(reason.iter().all(|part| said.reason.contains(part)), "{kind}: {}", said.reason);
        assert!(said.unblocked_by.contains(&who), "{kind}: {}", said.unblocked_by);
        assert!(said.since < at(0), "{kind}: no age");
        assert_eq!(said.alarm, None, "{kind}");
        assert!(!said.hints.is_empty(), "{kind}: no command");
        for (hint, wanted) in said.hints.iter().zip(&hints) {
            assert!(hint.starts_with(wanted.as_str()), "{kind}: {hint}, not {wanted}");
        }
        assert!(said.hints.len() >= hints.len(), "{kind}: {:?}", said.hints);
        for hint in &said.hints {
            let parsed = Arguments::try_parse_from(words_of(hint));
            assert!(parsed.is_ok(), "{kind}: `{hint}` cannot be typed: {}", parsed.unwrap_err());
        }
        let line = Waiting::of(&flow, no.map(|no| &flow.steps[no as usize]), said.clone());
        assert_eq!(
            (line.reason, line.since, line.unblocked_by),
            (said.reason, said.since, said.unblocked_by),
            "{kind}"
        );
        assert!(line.command.is_some_and(|command| said.hints.contains(&command)), "{kind}");
    }
    assert_eq!(walked, BTreeSet::from(EVERY), "a state was not walked");
}

#[test]
fn a_deadline_that_passed_is_not_shown_as_one_to_come() {
    assert_eq!(closing(OnTimeout::Approve, at(-90), at(0)), "in 1m30s it is approved");
    let late = "its deadline passed 5s ago, and it is not denied yet";
    assert_eq!(closing(OnTimeout::Deny, at(5), at(0)), late);
}
