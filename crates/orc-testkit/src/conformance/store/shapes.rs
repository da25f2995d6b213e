//! Generated flows in every state that the vocabulary knows.

use std::collections::BTreeMap;

use orc_domain::action::{OnTimeout, Tier, WaitEvent};
use orc_domain::agent::{AgentStop, Statistics, Usage};
use orc_domain::budget::Wall;
use orc_domain::claim::Holder;
use orc_domain::flow::{
    Artifact, Element, Flow, FlowHead, FlowOutcome, FlowSpec, FlowState, Held, Merging, Origin, Parent, Phase,
    SkipReason, Step, StepNo, StepOutcome, StepState, Stop, TakenOver,
};
use orc_domain::graph::SpecIndex;
use orc_domain::hold::{Hold, HoldReason, HoldScope};
use orc_domain::ids::{ContentHash, FlowId, HoldId, MessageId, RunId};
use orc_domain::meter::Shortfall;
use orc_domain::money::UsdMicros;
use orc_domain::path::StepPath;
use orc_domain::permission::{AskedCall, CallAnswer, Lasting, Scope};
use orc_domain::principal::Principal;
use orc_domain::request::{Answer, Request, RequestKind, RequestState};
use orc_domain::run::{
    AgentRun, Cause, ErrorFamily, Failure, Message, Process, Run, RunOutcome, RunState, StopReason, Stopping,
    WakeReason,
};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::value::{Finite, Text, Value};
use orc_domain::wait::{FanOut, Round, Wait};
use proptest::prelude::{BoxedStrategy, Just, Strategy, any};
use proptest::{collection, option, prop_oneof};

use super::scene;

// Strategies are nested types; the larger ones are boxed, or one alone would fill the stack of a test.

/// Steps of a generated flow, at most.
const STEPS: usize = 6;

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u32>().prop_map(|millis| scene::at(i64::from(millis)))
}

fn millis() -> impl Strategy<Value = Millis> {
    any::<u32>().prop_map(|count| Millis::from_millis(u64::from(count)))
}

/// Text with what breaks careless quoting, and tainted or not.
fn text() -> impl Strategy<Value = Text> {
    ("[a-z$'\"\\\\\n\u{0}\u{fc}\u{1f980}]{0,12}", any::<bool>()).prop_map(|(text, tainted)| Text { text, tainted })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter_map("a number", |number| Finite::new(number).map(Value::Float)),
        text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            collection::btree_map("\\$?[a-z ]{1,6}", inner, 0..4).prop_map(Value::Map),
        ]
    })
}

fn principal() -> impl Strategy<Value = Principal> {
    prop_oneof![
        "[a-z]{1,8}".prop_map(Principal::Person),
        any::<u64>().prop_map(Principal::Github),
        "[a-z]{1,8}".prop_map(Principal::Token),
        any::<u32>().prop_map(Principal::Os),
        "[a-z]{1,8}".prop_map(Principal::Agent),
        Just(Principal::System),
    ]
}

fn wall() -> impl Strategy<Value = Wall> {
    prop_oneof![Just(Wall::Time), Just(Wall::ModelCalls), Just(Wall::ToolCalls), Just(Wall::Tokens), Just(Wall::Usd),]
}

fn usage() -> impl Strategy<Value = Usage> {
    (any::<[u64; 7]>(), any::<i64>()).prop_map(|(n, cost)| Usage {
        calls: n[0],
        tool_calls: n[1],
        input: n[2],
        output: n[3],
        reasoning: n[4],
        cache_read: n[5],
        cache_write: n[6],
        cost: UsdMicros::from_micros(cost),
    })
}

fn holders() -> impl Strategy<Value = Vec<Holder>> {
    let holder = (0..9_u32, option::of(any::<u32>().prop_map(StepNo)));
    collection::vec(holder.prop_map(|(flow, step)| Holder { flow: scene::flow_id(flow), step }), 0..3)
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![Just(Scope::Call), Just(Scope::Run), Just(Scope::Forever)]
}

fn asked_call() -> impl Strategy<Value = AskedCall> {
    let lasting = prop_oneof![
        Just(Lasting::Once),
        Just(Lasting::Run),
        (".{0,8}", ".{0,8}").prop_map(|(agent, rule)| Lasting::Rule { agent, rule }),
    ];
    (".{0,8}", ".{0,8}", lasting).prop_map(|(id, tool, lasting)| AskedCall {
        subject: ContentHash::of(id.as_bytes()),
        id,
        tool,
        lasting,
    })
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let answer = (asked_call(), any::<bool>(), scope());
    let answer = option::of(answer.prop_map(|(call, granted, scope)| CallAnswer { call, granted, scope }));
    let message = (principal(), time(), ".{0,20}", answer).prop_map(|(from, at, text, answer)| {
        let id = MessageId::derived(scene::flow_id(0).uuid(), &text);
        Message { id, from, at, text, answer }
    });
    collection::vec(message, 0..3)
}

fn stop() -> impl Strategy<Value = Stop> {
    prop_oneof![
        Just(Stop::None),
        (principal(), time()).prop_map(|(by, at)| Stop::Cancel { by, at }),
        (principal(), time()).prop_map(|(by, at)| Stop::Force { by, at }),
        (wall(), time()).prop_map(|(wall, at)| Stop::Exhausted { wall, at }),
    ]
}

fn head_state() -> impl Strategy<Value = FlowState> {
    let phase = prop_oneof![Just(Phase::Main), time().prop_map(|deadline| Phase::Finally { deadline })];
    let outcome = prop_oneof![
        Just(FlowOutcome::Succeeded),
        Just(FlowOutcome::Failed),
        Just(FlowOutcome::Cancelled),
        Just(FlowOutcome::BudgetExhausted),
    ];
    prop_oneof![
        1 => (time(), "[a-z]{1,8}", holders()).prop_map(|(since, group, behind)| FlowState::Queued {
            since,
            group,
            behind
        }),
        3 => (phase, stop()).prop_map(|(phase, stop)| FlowState::Live { phase, stop }),
        1 => (time(), outcome).prop_map(|(at, outcome)| FlowState::Finished { at, outcome }),
    ]
}

fn stop_reason() -> impl Strategy<Value = StopReason> {
    prop_oneof![
        Just(StopReason::Cancel),
        Just(StopReason::FailFast),
        Just(StopReason::Timeout),
        Just(StopReason::FinallyDeadline),
        Just(StopReason::StartDeadline),
        Just(StopReason::Silence),
        Just(StopReason::Looping),
        Just(StopReason::Paused),
        wall().prop_map(StopReason::Wall),
        wall().prop_map(StopReason::FlowWall),
        time().prop_map(StopReason::Parked),
    ]
}

fn failure() -> BoxedStrategy<Failure> {
    let process = prop_oneof![
        any::<i32>().prop_map(Cause::Exit),
        any::<i32>().prop_map(Cause::Signal),
        millis().prop_map(Cause::Timeout),
        Just(Cause::Start),
        Just(Cause::Output),
        Just(Cause::Expression),
        Just(Cause::Lost),
        any::<u32>().prop_map(|losses| Cause::Quarantined { losses }),
        Just(Cause::LostNotIdempotent),
        Just(Cause::Expansion),
    ];
    let below = prop_oneof![
        any::<(u32, u32)>().prop_map(|(failed, total)| Cause::Elements { failed, total }),
        any::<u32>().prop_map(|number| Cause::Round { number }),
        any::<u32>().prop_map(|made| Cause::Rounds { made }),
        Just(Cause::Child { outcome: FlowOutcome::BudgetExhausted }),
    ];
    let waiting = prop_oneof![
        (principal(), answer()).prop_map(|(by, answer)| Cause::Answer { by, answer }),
        millis().prop_map(Cause::NoEvent),
        Just(Cause::Missing),
        Just(Cause::Blocked),
        Just(Cause::Reported),
        millis().prop_map(Cause::Silent),
        Just(Cause::Looping),
        wall().prop_map(Cause::Wall),
    ];
    let cause = prop_oneof![process, below, waiting];
    let family = prop_oneof![
        Just(ErrorFamily::TransientUpstream),
        Just(ErrorFamily::SandboxInfrastructure),
        Just(ErrorFamily::BudgetExceeded),
        Just(ErrorFamily::ProcessLost),
        Just(ErrorFamily::SilentRun),
        Just(ErrorFamily::PolicyDenied),
        Just(ErrorFamily::Unknown),
    ];
    (family, cause, ".{0,20}").prop_map(|(family, cause, detail)| Failure { family, cause, detail }).boxed()
}

fn outcome() -> impl Strategy<Value = StepOutcome> {
    let skip = prop_oneof![
        Just(SkipReason::Condition),
        "[a-z]{1,9}".prop_map(|outcome| SkipReason::Parent { path: scene::path(0), outcome }),
        "[a-z]{1,9}".prop_map(|name| SkipReason::Group { name }),
    ];
    prop_oneof![
        Just(StepOutcome::Succeeded),
        Just(StepOutcome::NoChange),
        failure().prop_map(StepOutcome::Failed),
        skip.prop_map(StepOutcome::Skipped),
        Just(StepOutcome::Cancelled),
    ]
}

fn wake(flow: FlowId) -> impl Strategy<Value = WakeReason> {
    let lost = scene::run_id(flow, &scene::path(0), 7);
    let message = MessageId::derived(flow.uuid(), "message");
    prop_oneof![
        Just(WakeReason::PipelineStep),
        Just(WakeReason::Recovery { lost }),
        Just(WakeReason::UserMessage { message }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![Just(Answer::Approved), Just(Answer::Denied), Just(Answer::Withdrawn)]
}

fn stopping() -> impl Strategy<Value = Option<Stopping>> {
    option::of((stop_reason(), time(), any::<bool>()).prop_map(|(reason, again_at, forced)| Stopping {
        reason,
        again_at,
        forced,
    }))
}

fn wait(flow: FlowId) -> BoxedStrategy<Wait> {
    let elements = (collection::vec(value(), 0..3), any::<[u16; 2]>(), any::<bool>()).prop_map(|(list, n, cut)| {
        Wait::Elements(FanOut { list, total: u32::from(n[0]), expanded: u32::from(n[1]), cut })
    });
    let previous = collection::btree_map("[a-z]{1,6}", value(), 0..3);
    let round = (any::<[u16; 2]>(), previous).prop_map(|(n, previous)| {
        Wait::Round(Round { number: u32::from(n[0]), first: StepNo(u32::from(n[1])), previous })
    });
    let event = prop_oneof![Just(WaitEvent::FlowFinished), Just(WaitEvent::AgentRunCompleted)];
    let event = (event, option::of("[a-z]{1,8}"), time());
    prop_oneof![
        elements,
        round,
        (time(), stopping()).prop_map(|(look_at, stop)| Wait::Flow { flow: scene::flow_id(7), look_at, stop }),
        Just(Wait::Request { request: scene::request_id(flow, 0) }),
        time().prop_map(|at| Wait::Until { at }),
        event.prop_map(|(event, pipeline, deadline)| Wait::Event { event, pipeline, deadline }),
    ]
    .boxed()
}

/// The state of a step, and of its run if it has one.
fn step_state(flow: FlowId, run: RunId) -> BoxedStrategy<StepState> {
    let group = ("[a-z]{1,8}", holders()).prop_map(|(name, behind)| Held::Group { name, behind });
    let held = option::of(prop_oneof![Just(Held::Slot), Just(Held::Limit), group]);
    prop_oneof![
        Just(StepState::Blocked),
        (time(), held, wake(flow)).prop_map(|(not_before, held_by, wake)| StepState::Ready {
            not_before,
            held_by,
            wake
        }),
        Just(StepState::Active { run }),
        wait(flow).prop_map(StepState::Waiting),
        outcome().prop_map(|outcome| StepState::Finished { outcome }),
    ]
    .boxed()
}

fn run_state() -> BoxedStrategy<RunState> {
    let process = any::<(u16, u64)>().prop_map(|(pid, start_ticks)| Process {
        pid: i32::from(pid),
        start_ticks,
        instance: scene::instance_id(1),
    });
    let outcome = prop_oneof![
        Just(RunOutcome::Delivered),
        ".{0,9}".prop_map(|missing| RunOutcome::NoDeliverable { missing }),
        (".{0,9}", option::of(asked_call())).prop_map(|(why, call)| RunOutcome::Blocked { why, call }),
        failure().prop_map(RunOutcome::Failed),
        stop_reason().prop_map(|reason| RunOutcome::Cancelled { reason }),
    ];
    prop_oneof![
        (time(), time(), stopping()).prop_map(|(since, deadline, stop)| RunState::Pending { since, deadline, stop }),
        (time(), process, time(), stopping()).prop_map(|(since, process, deadline, stop)| RunState::Running {
            since,
            process,
            deadline,
            stop
        }),
        (time(), outcome).prop_map(|(at, outcome)| RunState::Finished { at, outcome }),
    ]
    .boxed()
}

fn statistics() -> impl Strategy<Value = Statistics> {
    (any::<[u64; 5]>(), any::<u32>(), option::of(time()), option::of(time())).prop_map(
        |(n, repeats, last_output_at, last_progress_at)| Statistics {
            bytes: n[0],
            lines: n[1],
            events: n[2],
            unknown: n[3],
            overlong: n[4],
            repeats,
            last_output_at,
            last_progress_at,
        },
    )
}

fn agent_run() -> BoxedStrategy<AgentRun> {
    let stop = option::of((0..AgentStop::ALL.len()).prop_map(|index| AgentStop::ALL[index]));
    let short = option::of(any::<[u64; 5]>().prop_map(|[limit, spent, held, needed, output]| Shortfall {
        limit,
        spent,
        held,
        needed,
        output,
    }));
    ("[a-z]{1,8}", millis(), statistics(), usage(), messages(), option::of(".{0,20}"), (stop, short))
        .prop_map(|(agent, silence, statistics, usage, messages, answer, (stop, short))| AgentRun {
            profile: ContentHash::of(agent.as_bytes()),
            agent,
            silence,
            statistics,
            usage,
            messages,
            answer,
            stop,
            short,
        })
        .boxed()
}

/// A request of a step, or of the flow as a whole.
fn request(flow: FlowId, no: u32) -> BoxedStrategy<Request> {
    let kind = prop_oneof![
        Just(RequestKind::Approval),
        Just(RequestKind::Question { run: scene::run_id(flow, &scene::path(no), 1) }),
        asked_call()
            .prop_map(move |call| RequestKind::Permission { run: scene::run_id(flow, &scene::path(no), 1), call }),
        wall().prop_map(RequestKind::Wall),
    ];
    let state = prop_oneof![
        (time(), time(), option::of(time()), any::<u32>())
            .prop_map(|(since, deadline, tell_at, tier)| { RequestState::Open { since, deadline, tell_at, tier } }),
        (time(), principal(), answer(), scope(), ".{0,20}")
            .prop_map(|(at, by, answer, scope, reason)| { RequestState::Resolved { at, by, answer, scope, reason } }),
    ];
    let names = || collection::vec("[a-z]{1,8}", 0..3);
    let tiers = collection::vec((millis(), names()).prop_map(|(after, by)| Tier { after, by }), 0..3);
    let asked = (".{0,20}", principal(), any::<(bool, bool, bool)>(), names());
    (kind, state, asked, tiers, option::of(millis()))
        .prop_map(move |(kind, state, (message, asked_by, (four_eyes, approve, whole), by), tiers, remind)| Request {
            step: (!whole).then(|| (StepNo(no), scene::path(no))),
            kind,
            message,
            asked_by,
            four_eyes,
            by,
            tiers,
            remind,
            on_timeout: if approve { OnTimeout::Approve } else { OnTimeout::Deny },
            state,
            ..scene::open(flow, no, 0)
        })
        .boxed()
}

fn origin() -> impl Strategy<Value = Origin> {
    let element = (any::<u16>(), value())
        .prop_map(|(index, value)| Origin::Element(Element { group: StepNo(0), index: u32::from(index), value }));
    let round = any::<[u16; 3]>().prop_map(|n| Origin::Round {
        of: StepNo(u32::from(n[0])),
        number: u32::from(n[1]),
        first: StepNo(u32::from(n[2])),
    });
    prop_oneof![Just(Origin::Root), element, round]
}

fn one_step(flow: FlowId, no: u32) -> BoxedStrategy<(Step, Option<Run>)> {
    let path = if no == 0 { StepPath::root("plan") } else { scene::path(no) };
    let id = scene::run_id(flow, &path, 1);
    let run = option::of((run_state(), wake(flow), time(), option::of(agent_run())));
    let counts = any::<[u8; 7]>();
    let told = (messages(), collection::vec("[a-z]{1,8}", 0..3));
    (step_state(flow, id), origin(), time(), counts, option::of(value()), run, told)
        .prop_map(move |(state, origin, since, counts, output, run, (inbox, places))| {
            let step = Step {
                no: StepNo(no),
                path: path.clone(),
                spec: SpecIndex(u32::from(counts[0])),
                origin,
                state,
                since,
                attempts: u32::from(counts[1]),
                failures: u32::from(counts[2]),
                losses: orc_domain::flow::Losses {
                    total: counts[3].into(),
                    in_vain: counts[2].into(),
                    finished_then: counts[1].into(),
                },
                silences: counts[4].into(),
                upstream: counts[5].into(),
                places,
                reminders: counts[6].into(),
                heard: inbox.iter().map(|message| message.id).collect(),
                inbox,
                output,
                artifacts: artifacts(),
                merging: Merging::Contradicting(None),
                tips: vec![scene::tip("build", '5')],
            };
            let run = run.map(|(state, wake, created_at, agent)| Run {
                id,
                flow,
                no: StepNo(no),
                path: path.clone(),
                attempt: 1,
                wake,
                created_at,
                artifacts: [("report".to_owned(), "out/report".to_owned())].into(),
                tree: Some(scene::tree('5')),
                violations: Vec::new(),
                agent,
                state,
            });
            (step, run)
        })
        .boxed()
}

fn artifacts() -> BTreeMap<String, Artifact> {
    let artifact = Artifact { file: "/data/report".to_owned(), bytes: 3, hash: ContentHash::of(b"abc") };
    [("report".to_owned(), artifact)].into()
}

fn spec(flow: FlowId) -> BoxedStrategy<FlowSpec> {
    let inputs = collection::btree_map("[a-z]{1,6}", value(), 0..3);
    let outcome = prop_oneof![Just(StepOutcome::Succeeded), Just(StepOutcome::NoChange)];
    let taken = (outcome, option::of(value())).prop_map(|(outcome, output)| TakenOver {
        outcome,
        output,
        artifacts: artifacts(),
        tips: vec![scene::tip("build", '6')],
    });
    let taken_over = collection::btree_map((0..9_u32).prop_map(scene::path), taken, 0..3);
    let carried = collection::btree_map((0..9_u32).prop_map(scene::path), Just(scene::flow_id(8)), 0..2);
    let parent =
        option::of((0..9_u32).prop_map(|no| Parent { flow: scene::flow_id(1), no: StepNo(no), path: scene::path(no) }));
    let above = (parent, collection::btree_set("[a-z]{1,8}", 0..3), any::<i16>());
    let of = option::of(Just(scene::flow_id(1)));
    (inputs, principal(), time(), of, (taken_over, carried), above)
        .prop_map(
            move |(
                inputs,
                requested_by,
                created_at,
                retry_of,
                (taken_over, carried),
                (parent, groups_above, priority),
            )| {
                FlowSpec {
                    inputs,
                    requested_by,
                    created_at,
                    retry_of,
                    taken_over,
                    carried,
                    parent,
                    groups_above,
                    priority,
                    ..scene::spec(flow)
                }
            },
        )
        .boxed()
}

fn hold() -> BoxedStrategy<Hold> {
    let scope = prop_oneof![Just(HoldScope::Flow), (0..9_u32).prop_map(|no| HoldScope::Step(scene::path(no)))];
    let reason =
        prop_oneof![Just(HoldReason::Paused), Just(HoldReason::ParentHeld), wall().prop_map(HoldReason::Wall),];
    (scope, reason, ".{0,20}", principal(), time(), option::of(time()), any::<bool>())
        .prop_map(|(scope, reason, note, by, since, until, sticky)| Hold {
            id: HoldId::derived(scene::flow_id(0).uuid(), &note),
            scope,
            reason,
            note,
            by,
            since,
            until,
            sticky,
        })
        .boxed()
}

/// A head of version 1.
fn head() -> BoxedStrategy<FlowHead> {
    let counts = any::<(u16, u16, bool, bool, u32)>();
    let held = (collection::vec(hold(), 0..3), option::of("[a-z]{1,8}"), usage());
    let times = (option::of(time()), time(), option::of(time()));
    (head_state(), times, counts, held, option::of(value()), ".{0,20}")
        .prop_map(|(state, (wake_at, seen, time_over), counts, (holds, group, usage), output, detail)| FlowHead {
            state,
            version: 1,
            wake_at,
            seen,
            open_main: u32::from(counts.0),
            open_finally: u32::from(counts.1),
            main_failed: counts.2,
            finally_failed: counts.3,
            holds,
            group,
            usage,
            raised: counts.4,
            time_over,
            output,
            detail,
            tips: vec![scene::tip("build", '7')],
        })
        .boxed()
}

/// A flow and every run and request that it ever had.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// The flow, with those that are live.
    pub(crate) flow: Flow,
    /// All.
    pub(crate) runs: Vec<Run>,
    /// All.
    pub(crate) requests: Vec<Request>,
}

/// A flow of version 1.
pub(crate) fn flow(id: FlowId) -> impl Strategy<Value = Shape> {
    let steps = (1..=STEPS).prop_flat_map(move |count| {
        (0..count).map(|no| one_step(id, u32::try_from(no).unwrap_or(0))).collect::<Vec<_>>()
    });
    let requests = (0..4_u32).prop_flat_map(move |count| (0..count).map(|no| request(id, no)).collect::<Vec<_>>());
    (spec(id), head(), steps, requests).prop_map(|(spec, head, steps, requests)| {
        let (steps, runs): (Vec<Step>, Vec<Option<Run>>) = steps.into_iter().unzip();
        let runs: Vec<Run> = runs.into_iter().flatten().collect();
        let live: BTreeMap<RunId, Run> =
            runs.iter().filter(|run| !run.state.is_final()).map(|run| (run.id, run.clone())).collect();
        let is_open = |request: &&Request| matches!(request.state, RequestState::Open { .. });
        let open = requests.iter().filter(is_open).map(|request| (request.id, request.clone())).collect();
        Shape { flow: Flow { spec, head, steps, runs: live, requests: open }, runs, requests }
    })
}
