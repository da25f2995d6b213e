//! Generated flows in every state that the vocabulary knows.

use std::collections::BTreeMap;

use orc_domain::flow::{
    Element, FanOut, Flow, FlowHead, FlowOutcome, FlowSpec, FlowState, Held, Phase, SkipReason, Step, StepNo,
    StepOutcome, StepState, Stop, TakenOver,
};
use orc_domain::graph::SpecIndex;
use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::run::{
    Cause, ErrorFamily, Failure, Process, Run, RunOutcome, RunState, StopReason, Stopping, WakeReason,
};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::value::{Finite, Text, Value};
use proptest::prelude::{Just, Strategy, any};
use proptest::{collection, option, prop_oneof};

use super::scene;

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

fn stop() -> impl Strategy<Value = Stop> {
    prop_oneof![
        Just(Stop::None),
        (principal(), time()).prop_map(|(by, at)| Stop::Cancel { by, at }),
        (principal(), time()).prop_map(|(by, at)| Stop::Force { by, at }),
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
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    let cause = prop_oneof![
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
        any::<(u32, u32)>().prop_map(|(failed, total)| Cause::Elements { failed, total }),
    ];
    let family = prop_oneof![
        Just(ErrorFamily::TransientUpstream),
        Just(ErrorFamily::SandboxInfrastructure),
        Just(ErrorFamily::BudgetExceeded),
        Just(ErrorFamily::ProcessLost),
        Just(ErrorFamily::SilentRun),
        Just(ErrorFamily::PolicyDenied),
        Just(ErrorFamily::Unknown),
    ];
    (family, cause, ".{0,20}").prop_map(|(family, cause, detail)| Failure { family, cause, detail })
}

fn outcome() -> impl Strategy<Value = StepOutcome> {
    let skip = prop_oneof![
        Just(SkipReason::Condition),
        "[a-z]{1,9}".prop_map(|outcome| SkipReason::Parent { path: scene::path(0), outcome }),
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
    prop_oneof![Just(WakeReason::PipelineStep), Just(WakeReason::Recovery { lost })]
}

/// The state of a step, and of its run if it has one.
fn step_state(flow: FlowId, run: RunId) -> impl Strategy<Value = StepState> {
    let held = option::of(prop_oneof![Just(Held::Slot), Just(Held::Limit)]);
    let fan_out = (collection::vec(value(), 0..3), any::<[u16; 3]>(), any::<bool>()).prop_map(|(list, n, cut)| {
        FanOut { list, total: u32::from(n[0]), expanded: u32::from(n[1]), first: StepNo(u32::from(n[2])), cut }
    });
    prop_oneof![
        Just(StepState::Blocked),
        (time(), held, wake(flow)).prop_map(|(not_before, held_by, wake)| StepState::Ready {
            not_before,
            held_by,
            wake
        }),
        Just(StepState::Active { run }),
        fan_out.prop_map(StepState::Waiting),
        outcome().prop_map(|outcome| StepState::Finished { outcome }),
    ]
}

fn run_state() -> impl Strategy<Value = RunState> {
    let stopping = || {
        option::of((stop_reason(), time(), any::<bool>()).prop_map(|(reason, again_at, forced)| Stopping {
            reason,
            again_at,
            forced,
        }))
    };
    let process = any::<(u16, u64)>().prop_map(|(pid, start_ticks)| Process {
        pid: i32::from(pid),
        start_ticks,
        instance: scene::instance_id(1),
    });
    let outcome = prop_oneof![
        Just(RunOutcome::Delivered),
        ".{0,9}".prop_map(|missing| RunOutcome::NoDeliverable { missing }),
        ".{0,9}".prop_map(|why| RunOutcome::Blocked { why }),
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
}

fn one_step(flow: FlowId, no: u32) -> impl Strategy<Value = (Step, Option<Run>)> {
    let path = if no == 0 { StepPath::root("plan") } else { scene::path(no) };
    let id = scene::run_id(flow, &path, 1);
    let element = option::of((any::<u16>(), value()).prop_map(|(index, value)| Element {
        group: StepNo(0),
        index: u32::from(index),
        value,
    }));
    let run = option::of((run_state(), wake(flow), time()));
    let counts = any::<[u8; 4]>();
    (step_state(flow, id), element, time(), counts, option::of(value()), run).prop_map(
        move |(state, element, since, counts, output, run)| {
            let step = Step {
                no: StepNo(no),
                path: path.clone(),
                spec: SpecIndex(u32::from(counts[0])),
                element,
                state,
                since,
                attempts: u32::from(counts[1]),
                failures: u32::from(counts[2]),
                losses: orc_domain::flow::Losses {
                    total: counts[3].into(),
                    in_vain: counts[2].into(),
                    finished_then: counts[1].into(),
                },
                output,
            };
            let run = run.map(|(state, wake, created_at)| Run {
                id,
                flow,
                no: StepNo(no),
                path: path.clone(),
                attempt: 1,
                wake,
                created_at,
                state,
            });
            (step, run)
        },
    )
}

fn spec(flow: FlowId) -> impl Strategy<Value = FlowSpec> {
    let inputs = collection::btree_map("[a-z]{1,6}", value(), 0..3);
    let outcome = prop_oneof![Just(StepOutcome::Succeeded), Just(StepOutcome::NoChange)];
    let taken = (outcome, option::of(value())).prop_map(|(outcome, output)| TakenOver { outcome, output });
    let taken_over = collection::btree_map((0..9_u32).prop_map(scene::path), taken, 0..3);
    (inputs, principal(), time(), option::of(Just(scene::flow_id(1))), taken_over).prop_map(
        move |(inputs, requested_by, created_at, retry_of, taken_over)| FlowSpec {
            inputs,
            requested_by,
            created_at,
            retry_of,
            taken_over,
            ..scene::spec(flow)
        },
    )
}

/// A flow of version 1 and every run that it ever had; [`Flow::runs`] holds those that are live.
pub(crate) fn flow(id: FlowId) -> impl Strategy<Value = (Flow, Vec<Run>)> {
    let steps = (1..=STEPS).prop_flat_map(move |count| {
        (0..count).map(|no| one_step(id, u32::try_from(no).unwrap_or(0))).collect::<Vec<_>>()
    });
    let counts = any::<(u16, u16, bool, bool)>();
    (spec(id), head_state(), option::of(time()), time(), counts, steps).prop_map(
        |(spec, state, wake_at, seen, (open_main, open_finally, main_failed, finally_failed), steps)| {
            let head = FlowHead {
                state,
                version: 1,
                wake_at,
                seen,
                open_main: u32::from(open_main),
                open_finally: u32::from(open_finally),
                main_failed,
                finally_failed,
            };
            let (steps, runs): (Vec<Step>, Vec<Option<Run>>) = steps.into_iter().unzip();
            let runs: Vec<Run> = runs.into_iter().flatten().collect();
            let live: BTreeMap<RunId, Run> =
                runs.iter().filter(|run| !run.state.is_final()).map(|run| (run.id, run.clone())).collect();
            (Flow { spec, head, steps, runs: live }, runs)
        },
    )
}
