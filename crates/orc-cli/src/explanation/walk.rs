//! A walk through everything that a flow, a step or a run can wait for: each time there is a reason, an age, somebody or
//! something that changes it, and a command that can be typed; and what is not known is said to be unknown.

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

fn case(flow: Flow, no: u32, reason: &[&str], who: &str, hints: &[&str]) -> Case {
    let kind = of_step(&flow.steps[no as usize], &flow, at(0));
    let texts = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
    Case { kind, flow, no: Some(no), reason: texts(reason), who: who.to_owned(), hints: texts(hints) }
}

fn flow_case(flow: Flow, reason: &[&str], who: &str, hints: &[&str]) -> Case {
    Case { kind: of_flow(&flow), no: None, ..case(flow, 0, reason, who, hints) }
}

fn held_flow(reason: HoldReason, until: Option<Timestamp>) -> Flow {
    let mut flow = flow_with(ready(at(1), None));
    flow.head.holds.push(hold(HoldScope::Flow, reason, until));
    let parent = Parent { flow: other_flow(), no: StepNo(0), path: StepPath::root("call") };
    flow.spec.parent = Some(parent);
    if matches!(reason, HoldReason::Wall(_)) {
        flow.requests.insert(request_id(), request(RequestKind::Wall(Wall::Tokens), false));
    }
    flow
}

/// `test`, a fan-out, whose own run is in this state.
fn merging(state: RunState) -> Flow {
    let mut flow = flow_with_run(state);
    (flow.steps[0].state, flow.steps[1].state) =
        (StepState::Finished { outcome: StepOutcome::Succeeded }, StepState::Active { run: run_id() });
    let run = flow.runs.get_mut(&run_id()).unwrap();
    (run.no, run.path) = (StepNo(1), StepPath::root("test"));
    flow
}

fn contradicting(mut flow: Flow, state: Option<StepState>) -> Flow {
    flow.steps[1].merging = Merging::Contradicting(None);
    flow.steps[1].state = state.unwrap_or(flow.steps[1].state.clone());
    flow
}

fn resolving() -> Flow {
    let mut flow = contradicting(merging(running(None)), None);
    flow.runs.get_mut(&run_id()).unwrap().agent = Some(agent(Some(at(4))));
    flow
}

fn asking(kind: RequestKind) -> Flow {
    let mut flow = flow_with(StepState::Waiting(Wait::Request { request: request_id() }));
    flow.requests.insert(request_id(), request(kind, true));
    flow
}

fn run_of_agent(last_output_at: Option<Timestamp>) -> Flow {
    let mut flow = flow_with_run(running(None));
    let run = flow.runs.get_mut(&run_id()).unwrap();
    run.agent = Some(agent(last_output_at));
    flow
}

fn behind(flow: FlowId) -> Vec<Holder> {
    vec![Holder { flow, step: Some(StepNo(0)) }]
}

fn grouped(flow: FlowId) -> Flow {
    flow_with(ready(at(1), Some(Held::Group { name: "db".to_owned(), behind: behind(flow) })))
}

fn queued(flow: FlowId) -> Flow {
    let mut queued = flow_with(StepState::Blocked);
    let behind = vec![Holder { flow, step: None }];
    queued.head.state = FlowState::Queued { since: at(7), group: "db".to_owned(), behind };
    queued
}

fn with_element(state: StepState, other: StepState) -> Flow {
    let mut flow = flow_with(StepState::Finished { outcome: StepOutcome::Succeeded });
    let fan = FanOut { list: Vec::new(), total: 2, expanded: 2, cut: false };
    flow.steps[1].state = StepState::Waiting(Wait::Elements(fan));
    flow.steps.push(element(3, 0, state));
    flow.steps.push(element(4, 1, other));
    flow
}

fn in_round() -> Flow {
    let round = Round { number: 2, first: StepNo(3), previous: BTreeMap::new() };
    let mut flow = flow_with(StepState::Waiting(Wait::Round(round)));
    let origin = Origin::Round { of: StepNo(0), number: 2, first: StepNo(3) };
    flow.steps.push(Step { origin, ..step(3, "build~2/fix", 0, ready(at(1), None)) });
    flow
}

fn stopping() -> Stopping {
    Stopping { reason: StopReason::Cancel, again_at: at(-5), forced: false }
}

fn child(flow: FlowId, stop: Option<Stopping>) -> Flow {
    flow_with(StepState::Waiting(Wait::Flow { flow, look_at: at(-60), stop }))
}

fn stopped(stop: Stop) -> Flow {
    let mut flow = flow_with(StepState::Active { run: run_id() });
    flow.head.state = FlowState::Live { phase: Phase::Main, stop };
    flow
}

fn steps() -> Vec<Case> {
    let (other, paused, unknown) = (other_flow().to_string(), paused_flow().to_string(), unknown_flow().to_string());
    let request = request_id().to_string();
    let own = FlowId::from_uuid(Uuid::from_u128(1)).to_string();
    let logs = format!("orchestrator logs {}", run_id());
    let wake = |wake| StepState::Ready { not_before: at(-7), held_by: None, wake };
    let explain = |path: &str| format!("orchestrator explain {own} --step '{path}'");
    let watch = format!("orchestrator status {own} --watch");
    let log_of_step = format!("orchestrator logs {own} --step 'build'");
    let approve =
        [format!("orchestrator approvals approve {request}"), format!("orchestrator approvals deny {request}")];
    let approve = [approve[0].as_str(), approve[1].as_str()];
    let reply = [format!("orchestrator message {request} 'ANSWER'"), format!("orchestrator approvals deny {request}")];
    let force = |flow: &str| format!("orchestrator cancel {flow} --force");
    let message = orc_domain::ids::MessageId::from_uuid(Uuid::from_u128(9));
    let pending = RunState::Pending { since: at(2), deadline: at(-9), stop: None };
    let over = RunState::Finished { at: at(1), outcome: orc_domain::run::RunOutcome::Delivered };
    let holding = |scope, reason| {
        let mut flow = flow_with(ready(at(1), None));
        flow.head.holds.push(hold(scope, reason, None));
        flow
    };
    let step_scope = HoldScope::Step(StepPath::root("build"));
    let event = |pipeline: Option<&str>| Wait::Event {
        event: WaitEvent::FlowFinished,
        pipeline: pipeline.map(str::to_owned),
        deadline: at(-30),
    };
    vec![
        case(
            flow_with(StepState::Active { run: run_id() }),
            1,
            &["needs `build` (runs for 5s)"],
            "steps that",
            &[&explain("build")],
        ),
        case(
            flow_with(StepState::Blocked),
            2,
            &["`finally` begins", "`build`, `test`"],
            "those steps",
            &[&explain("build")],
        ),
        case(flow_with(ready(at(-7), None)), 0, &["waits 7s", "attempt 1 failed"], "time, at", &[&log_of_step]),
        case(flow_with(wake(WakeReason::Recovery { lost: run_id() })), 0, &["was lost"], "time", &[&log_of_step]),
        case(flow_with(wake(WakeReason::UserMessage { message })), 0, &["was written to it"], "time", &[&log_of_step]),
        case(flow_with(ready(at(1), None)), 0, &["it may start now"], "next look", &[&watch]),
        case(
            flow_with(ready(at(1), Some(Held::Slot))),
            0,
            &["no slot is free", "for 3s"],
            "a run that ends",
            &["orchestrator status"],
        ),
        case(
            with_element(StepState::Active { run: run_id() }, ready(at(1), Some(Held::Limit))),
            4,
            &["`limit: 2`", "`test[0]`"],
            "an element",
            &[&explain("test[0]")],
        ),
        case(
            grouped(other_flow()),
            0,
            &["`db` is full", &other, "`deploy`, live"],
            "whoever is in",
            &[&format!("orchestrator explain {other}")],
        ),
        case(
            grouped(paused_flow()),
            0,
            &[&paused, "paused by os:5 6s ago"],
            "you: `orchestrator resume",
            &[&format!("orchestrator resume {paused}")],
        ),
        case(
            grouped(unknown_flow()),
            0,
            &[&unknown, "where it stands is not known"],
            "whoever",
            &[&format!("orchestrator explain {unknown}")],
        ),
        case(
            holding(HoldScope::Flow, HoldReason::Paused),
            0,
            &["paused by os:5 6s ago: lunch"],
            "you",
            &[&format!("orchestrator resume {own}")],
        ),
        case(
            holding(step_scope, HoldReason::Paused),
            0,
            &["paused by os:5"],
            "you",
            &[&format!("orchestrator resume {own} --step 'build'")],
        ),
        case(
            held_flow(HoldReason::ParentHeld, None),
            0,
            &["child of is held, for 6s"],
            &format!("lets {other} go on"),
            &[&format!("orchestrator explain {other}")],
        ),
        case(held_flow(HoldReason::Wall(Wall::Tokens), None), 0, &["`tokens` was reached 6s ago"], "ann", &approve),
        case(flow_with_run(pending), 0, &["being started, for 2s"], "the start of its process", &[&logs]),
        case(
            flow_with_run(running(None)),
            0,
            &["runs for 8s", "last output 4s ago", "timeout in 52s"],
            "the process",
            &[&logs],
        ),
        case(
            flow_with_run(running(Some(stopping()))),
            0,
            &["asked to end", "cancelled", "in 5s"],
            "the process",
            &[&logs, &force(&own)],
        ),
        case(
            merging(RunState::Pending { since: at(2), deadline: at(-9), stop: None }),
            1,
            &["what its elements made is being merged, for 2s"],
            "the end of the merge",
            &[&logs],
        ),
        case(
            contradicting(flow_with(StepState::Blocked), Some(ready(at(1), None))),
            1,
            &["what its elements made contradicts itself", "agent `mender` is to bring it together"],
            "starts that agent",
            &[&watch],
        ),
        case(
            contradicting(flow_with(StepState::Blocked), Some(wake(WakeReason::Conflict))),
            1,
            &["waits 7s", "agent `mender`"],
            "time",
            &["orchestrator logs"],
        ),
        case(resolving(), 1, &["of agent `coder`, which brings a conflict together"], "the process", &[&logs]),
        case(flow_with_run(over), 0, &["its run is over"], "next look", &[&logs]),
        case(run_of_agent(Some(at(4))), 0, &["of agent `coder`", "4s ago: alive"], "the process", &[&logs]),
        case(run_of_agent(Some(at(8))), 0, &["stalled", "ended as silent 10s after"], "the process", &[&logs]),
        case(flow_with(StepState::Active { run: run_id() }), 0, &["nothing more is known"], "unknown", &[&logs]),
        case(
            with_element(StepState::Active { run: run_id() }, StepState::Blocked),
            1,
            &["0 of 2 are over, 1 run"],
            "its elements",
            &[&explain("test[0]")],
        ),
        case(in_round(), 0, &["round 2", "`build~2/fix`"], "steps of the round", &[&explain("build~2/fix")]),
        case(
            child(other_flow(), None),
            0,
            &[&other, "`deploy`, live"],
            "that flow",
            &[&format!("orchestrator explain {other}")],
        ),
        case(child(unknown_flow(), None), 0, &["where it stands is not known"], "that flow", &["orchestrator explain"]),
        case(
            child(other_flow(), Some(stopping())),
            0,
            &["asked to end", "in 5s"],
            "that flow",
            &["orchestrator explain", &force(&other)],
        ),
        case(
            asking(RequestKind::Approval),
            0,
            &["asked 9s ago", "May it?", "in 1m30s it is denied"],
            "ann, but not os:5",
            &approve,
        ),
        case(
            asking(RequestKind::Question { run: run_id() }),
            0,
            &["its agent asked 9s ago"],
            "ann",
            &[&reply[0], &reply[1]],
        ),
        case(
            flow_with(StepState::Waiting(Wait::Request { request: request_id() })),
            0,
            &["nothing more is known"],
            "unknown",
            &[&format!("orchestrator approvals show {request}")],
        ),
        case(flow_with(StepState::Waiting(Wait::Until { at: at(-30) })), 0, &["waits 30s more"], "time, at", &[&watch]),
        case(
            flow_with(StepState::Waiting(event(None))),
            0,
            &["FlowFinished of any pipeline, for 30s more"],
            "that event",
            &["orchestrator flows list --live"],
        ),
        case(
            flow_with(StepState::Waiting(event(Some("ship")))),
            0,
            &["FlowFinished of `ship`"],
            "that event",
            &["orchestrator flows"],
        ),
    ]
}

fn flows() -> Vec<Case> {
    let own = FlowId::from_uuid(Uuid::from_u128(1)).to_string();
    let (other, paused) = (other_flow().to_string(), paused_flow().to_string());
    let resume = format!("orchestrator resume {own}");
    let force = format!("orchestrator cancel {own} --force");
    let approve = format!("orchestrator approvals approve {}", request_id());
    let by = Principal::Os(5);
    let cancel = Stop::Cancel { by: by.clone(), at: at(2) };
    let exhausted = Stop::Exhausted { wall: Wall::Usd, at: at(2) };
    let mut finally = flow_with(ready(at(1), None));
    finally.head.state = FlowState::Live { phase: Phase::Finally { deadline: at(-30) }, stop: Stop::None };
    let mut queued_and_held = queued(other_flow());
    queued_and_held.head.holds.push(hold(HoldScope::Flow, HoldReason::Paused, None));
    let watch = format!("orchestrator status {own} --watch");
    vec![
        flow_case(flow_with(ready(at(1), None)), &["1 ready to start"], "its steps", &[&watch]),
        flow_case(finally, &["`finally`, for 30s more"], "its steps", &[&watch]),
        flow_case(stopped(cancel), &["being cancelled by os:5"], "a second cancel", &[&force]),
        flow_case(stopped(Stop::Force { by, at: at(2) }), &["ended at once"], "its steps", &[&watch]),
        flow_case(stopped(exhausted), &["`usd` is reached"], "a cancel", &[&force]),
        flow_case(
            queued(other_flow()),
            &["`db` is full", "`deploy`, live"],
            "whoever",
            &[&format!("orchestrator explain {other}")],
        ),
        flow_case(
            queued(paused_flow()),
            &["paused by os:5"],
            "you: `orchestrator resume",
            &[&format!("orchestrator resume {paused}")],
        ),
        flow_case(queued_and_held, &["`db` is full", "paused by"], "then you", &[&resume]),
        flow_case(held_flow(HoldReason::Paused, Some(at(-60))), &["paused", "for 1m more"], "time, at", &[&resume]),
        flow_case(
            held_flow(HoldReason::ParentHeld, None),
            &["child of is held"],
            &other,
            &[&format!("orchestrator explain {other}")],
        ),
        flow_case(held_flow(HoldReason::Wall(Wall::Tokens), None), &["`tokens` was reached"], "ann", &[&approve]),
    ]
}

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
