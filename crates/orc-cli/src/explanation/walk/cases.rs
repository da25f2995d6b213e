//! One case of every state in which a step or a flow can stand, with what is to be said of it.
//!
//! Whatever is added to `EVERY` needs one here. Never here: what the answer is made of, which is `explanation`.

use super::*;

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

fn own() -> String {
    FlowId::from_uuid(Uuid::from_u128(1)).to_string()
}

fn look_at(path: &str) -> String {
    format!("orchestrator explain {} --step '{path}'", own())
}

fn watch() -> String {
    format!("orchestrator status {} --watch", own())
}

fn logs() -> String {
    format!("orchestrator logs {}", run_id())
}

fn force(flow: &str) -> String {
    format!("orchestrator cancel {flow} --force")
}

fn approve() -> [String; 2] {
    let request = request_id();
    [format!("orchestrator approvals approve {request}"), format!("orchestrator approvals deny {request}")]
}

fn woken(wake: WakeReason) -> StepState {
    StepState::Ready { not_before: at(-7), held_by: None, wake }
}

pub(super) fn steps() -> Vec<Case> {
    [unready(), kept_back(), started(), without_a_run(), asked()].into_iter().flatten().collect()
}

/// Blocked, or ready for a later time, a slot or a place among elements.
fn unready() -> Vec<Case> {
    let log_of_step = format!("orchestrator logs {} --step 'build'", own());
    let message = orc_domain::ids::MessageId::from_uuid(Uuid::from_u128(9));
    vec![
        case(
            flow_with(StepState::Active { run: run_id() }),
            1,
            &["needs `build` (runs for 5s)"],
            "steps that",
            &[&look_at("build")],
        ),
        case(
            flow_with(StepState::Blocked),
            2,
            &["`finally` begins", "`build`, `test`"],
            "those steps",
            &[&look_at("build")],
        ),
        case(flow_with(ready(at(-7), None)), 0, &["waits 7s", "attempt 1 failed"], "time, at", &[&log_of_step]),
        case(flow_with(woken(WakeReason::Recovery { lost: run_id() })), 0, &["was lost"], "time", &[&log_of_step]),
        case(flow_with(woken(WakeReason::UserMessage { message })), 0, &["was written to it"], "time", &[&log_of_step]),
        case(flow_with(ready(at(1), None)), 0, &["it may start now"], "next look", &[&watch()]),
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
            &[&look_at("test[0]")],
        ),
    ]
}

/// Kept back by concurrency groups and by holds.
fn kept_back() -> Vec<Case> {
    let (other, paused, unknown) = (other_flow().to_string(), paused_flow().to_string(), unknown_flow().to_string());
    let (own, approve) = (own(), approve());
    let holding = |scope, reason| {
        let mut flow = flow_with(ready(at(1), None));
        flow.head.holds.push(hold(scope, reason, None));
        flow
    };
    let step_scope = HoldScope::Step(StepPath::root("build"));
    vec![
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
        case(
            held_flow(HoldReason::Wall(Wall::Tokens), None),
            0,
            &["`tokens` was reached 6s ago"],
            "ann",
            &[&approve[0], &approve[1]],
        ),
    ]
}

/// With a run.
fn started() -> Vec<Case> {
    let own = own();
    let pending = RunState::Pending { since: at(2), deadline: at(-9), stop: None };
    let over = RunState::Finished { at: at(1), outcome: orc_domain::run::RunOutcome::Delivered };
    vec![
        case(flow_with_run(pending), 0, &["being started, for 2s"], "the start of its process", &[&logs()]),
        case(
            flow_with_run(running(None)),
            0,
            &["runs for 8s", "last output 4s ago", "timeout in 52s"],
            "the process",
            &[&logs()],
        ),
        case(
            flow_with_run(running(Some(stopping()))),
            0,
            &["asked to end", "cancelled", "in 5s"],
            "the process",
            &[&logs(), &force(&own)],
        ),
        case(
            merging(RunState::Pending { since: at(2), deadline: at(-9), stop: None }),
            1,
            &["what its elements made is being merged, for 2s"],
            "the end of the merge",
            &[&logs()],
        ),
        case(
            contradicting(flow_with(StepState::Blocked), Some(ready(at(1), None))),
            1,
            &["what its elements made contradicts itself", "agent `mender` is to bring it together"],
            "starts that agent",
            &[&watch()],
        ),
        case(
            contradicting(flow_with(StepState::Blocked), Some(woken(WakeReason::Conflict))),
            1,
            &["waits 7s", "agent `mender`"],
            "time",
            &["orchestrator logs"],
        ),
        case(resolving(), 1, &["of agent `coder`, which brings a conflict together"], "the process", &[&logs()]),
        case(flow_with_run(over), 0, &["its run is over"], "next look", &[&logs()]),
        case(run_of_agent(Some(at(4))), 0, &["of agent `coder`", "4s ago: alive"], "the process", &[&logs()]),
        case(run_of_agent(Some(at(8))), 0, &["stalled", "ended as silent 10s after"], "the process", &[&logs()]),
        case(flow_with(StepState::Active { run: run_id() }), 0, &["nothing more is known"], "unknown", &[&logs()]),
    ]
}

/// That wait for their elements, rounds and child flows.
fn without_a_run() -> Vec<Case> {
    let other = other_flow().to_string();
    vec![
        case(
            with_element(StepState::Active { run: run_id() }, StepState::Blocked),
            1,
            &["0 of 2 are over, 1 run"],
            "its elements",
            &[&look_at("test[0]")],
        ),
        case(in_round(), 0, &["round 2", "`build~2/fix`"], "steps of the round", &[&look_at("build~2/fix")]),
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
    ]
}

/// That wait for people, times and events.
fn asked() -> Vec<Case> {
    let (request, approve) = (request_id().to_string(), approve());
    let reply = [format!("orchestrator message {request} 'ANSWER'"), format!("orchestrator approvals deny {request}")];
    let event = |pipeline: Option<&str>| Wait::Event {
        event: WaitEvent::FlowFinished,
        pipeline: pipeline.map(str::to_owned),
        deadline: at(-30),
    };
    vec![
        case(
            asking(RequestKind::Approval),
            0,
            &["asked 9s ago", "May it?", "in 1m30s it is denied"],
            "ann, but not os:5",
            &[&approve[0], &approve[1]],
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
        case(
            flow_with(StepState::Waiting(Wait::Until { at: at(-30) })),
            0,
            &["waits 30s more"],
            "time, at",
            &[&watch()],
        ),
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

pub(super) fn flows() -> Vec<Case> {
    let own = own();
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
