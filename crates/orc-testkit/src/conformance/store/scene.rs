//! Hand-made flows for the suite: small, numbered, with one step and at most one run each.

use std::collections::BTreeMap;
use std::sync::Arc;

use orc_domain::claim::Claim;
use orc_domain::effect::{Change, Command, Decision, Effect, EffectKind};
use orc_domain::event::{EventBody, Fact};
use orc_domain::flow::{FlowHead, FlowOutcome, FlowSpec, FlowState, Phase, Step, StepNo, StepState, Stop};
use orc_domain::graph::{Pipeline, SpecIndex};
use orc_domain::ids::{ContentHash, EffectId, FlowId, InstanceId, RunId, WorkspaceId};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::run::{Run, RunOutcome, RunState, WakeReason};
use orc_domain::time::Timestamp;
use orc_ports::store::{Commit, Committed, Store};
use uuid::Uuid;

/// A point in time.
pub const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

/// The flow with this number; numbers and ids have the same order.
pub fn flow_id(number: u32) -> FlowId {
    FlowId::from_uuid(Uuid::from_u128(0x018b_cfe5_6800_7000_8000_0000_0000_0000 + u128::from(number)))
}

/// The instance with this number.
pub fn instance_id(number: u32) -> InstanceId {
    InstanceId::from_uuid(Uuid::from_u128(0x018b_cfe5_6800_7000_9000_0000_0000_0000 + u128::from(number)))
}

/// The run of attempt `attempt` at the step `path` of a flow.
pub fn run_id(flow: FlowId, path: &StepPath, attempt: u32) -> RunId {
    RunId::derived(flow.uuid(), &format!("{path}#{attempt}"))
}

/// The effect of a flow with this label.
pub fn effect_id(flow: FlowId, label: &str) -> EffectId {
    EffectId::derived(flow.uuid(), label)
}

/// The path of the step with this number.
pub fn path(no: u32) -> StepPath {
    StepPath::root("each").element(no)
}

/// A definition.
pub fn pipeline() -> (ContentHash, Arc<Pipeline>) {
    let pipeline = Pipeline {
        name: "suite".to_owned(),
        description: Some("for the suite".to_owned()),
        inputs: BTreeMap::new(),
        env: BTreeMap::new(),
        steps: Vec::new(),
    };
    let hash = pipeline.content_hash().expect("a pipeline of text has a JSON form");
    (hash, Arc::new(pipeline))
}

/// What never changes about a flow.
pub fn spec(id: FlowId) -> FlowSpec {
    FlowSpec {
        id,
        workspace: WorkspaceId::default_workspace(),
        pipeline: pipeline().0,
        name: "suite".to_owned(),
        inputs: BTreeMap::new(),
        directory: "/repository".to_owned(),
        requested_by: Principal::Person("ada".to_owned()),
        created_at: at(0),
        retry_of: None,
        taken_over: BTreeMap::new(),
    }
}

/// The head of a live flow.
pub fn live(version: u64) -> FlowHead {
    FlowHead {
        state: FlowState::Live { phase: Phase::Main, stop: Stop::None },
        version,
        wake_at: Some(at(60_000)),
        seen: at(i64::try_from(version).expect("a small number")),
        open_main: 1,
        open_finally: 0,
        main_failed: false,
        finally_failed: false,
    }
}

/// The head of a flow that is over.
pub fn finished(version: u64) -> FlowHead {
    FlowHead {
        state: FlowState::Finished { at: at(9), outcome: FlowOutcome::Succeeded },
        wake_at: None,
        open_main: 0,
        ..live(version)
    }
}

/// A step instance in this state.
pub fn step(no: u32, state: StepState) -> Step {
    Step {
        no: StepNo(no),
        path: path(no),
        spec: SpecIndex(0),
        element: None,
        state,
        since: at(1),
        attempts: 0,
        failures: 0,
        losses: orc_domain::flow::Losses::default(),
        output: None,
    }
}

/// The first run of a step, not started yet.
pub fn pending(flow: FlowId, no: u32) -> Run {
    Run {
        id: run_id(flow, &path(no), 1),
        flow,
        no: StepNo(no),
        path: path(no),
        attempt: 1,
        wake: WakeReason::PipelineStep,
        created_at: at(1),
        state: RunState::Pending { since: at(1), deadline: at(1_000), stop: None },
    }
}

/// The same run, over.
pub fn delivered(flow: FlowId, no: u32) -> Run {
    Run { state: RunState::Finished { at: at(5), outcome: RunOutcome::Delivered }, ..pending(flow, no) }
}

/// A claim of a slot for the first run of a step.
pub fn slot(flow: FlowId, no: u32) -> Claim {
    Claim::Slot { run: run_id(flow, &path(no), 1) }
}

/// The effect that starts the first run of a step.
pub fn start_run(flow: FlowId, no: u32) -> Effect {
    Effect {
        id: effect_id(flow, &format!("start {no}")),
        kind: EffectKind::StartRun {
            run: run_id(flow, &path(no), 1),
            command: Command {
                argv: vec!["sh".to_owned(), "-c".to_owned(), "echo 'ü' \"$X\"".to_owned()],
                directory: "/repository".to_owned(),
                env: BTreeMap::from([("X".to_owned(), "line\nline".to_owned())]),
                path: path(no),
                attempt: 1,
            },
        },
    }
}

/// An event that says which commit of which flow made it.
pub fn mark(version: u64) -> EventBody {
    EventBody {
        at: at(2),
        actor: Principal::System,
        fact: Fact::StepExpanded { path: path(0), total: u32::try_from(version).expect("a small number") },
    }
}

/// A commit that creates a flow with one blocked step.
pub fn create(id: FlowId) -> Commit {
    Commit {
        flow: id,
        create: Some(spec(id)),
        expected: 0,
        decision: Decision {
            changes: vec![Change::Step(step(0, StepState::Blocked)), Change::Head(live(1))],
            events: vec![mark(1)],
            ..Decision::default()
        },
        slots: 4,
    }
}

/// A commit on version `expected` that changes these rows and the head.
pub fn carry_on(id: FlowId, expected: u64, mut changes: Vec<Change>) -> Commit {
    changes.push(Change::Head(live(expected + 1)));
    Commit {
        flow: id,
        create: None,
        expected,
        decision: Decision { changes, events: vec![mark(expected + 1)], ..Decision::default() },
        slots: 4,
    }
}

/// A commit on version `expected` that starts the first run of step `no`: row, slot and effect.
pub fn launch(id: FlowId, expected: u64, no: u32) -> Commit {
    let run = pending(id, no);
    let active = step(no, StepState::Active { run: run.id });
    let mut commit = carry_on(id, expected, vec![Change::Step(active), Change::Run(run)]);
    commit.decision.claims = vec![slot(id, no)];
    commit.decision.effects = vec![start_run(id, no)];
    commit
}

/// Keeps the definition, as every flow needs it.
pub async fn prepare(store: &dyn Store) {
    let (hash, pipeline) = pipeline();
    store.pipeline_insert(hash, pipeline, "name: suite\n".to_owned()).await.expect("the definition is kept");
}

/// Commits what must be accepted.
pub async fn done(store: &dyn Store, commit: Commit) {
    let answer = store.commit(commit.clone()).await;
    assert!(matches!(answer, Ok(Committed::Done)), "{answer:?} for {commit:?}");
}
