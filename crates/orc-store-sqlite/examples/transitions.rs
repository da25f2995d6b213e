//! How fast durable transitions are: `cargo run --release -p orc-store-sqlite --example transitions [directory]`.
//!
//! A transition is what a chain of one-command steps costs per step: the commit that ends a run and starts the next
//! (two steps, two runs, a slot passed on, three events, an effect), the claim of the run, and the commit that says that
//! its process exists.
#![expect(clippy::print_stdout, reason = "figures for people are the purpose")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::try_join_all;
use orc_domain::claim::Claim;
use orc_domain::effect::{Change, Command, Decision, Effect, EffectKind};
use orc_domain::event::{EventBody, Fact};
use orc_domain::flow::{FlowHead, FlowSpec, FlowState, Phase, Step, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::{Pipeline, SpecIndex};
use orc_domain::ids::{ContentHash, EffectId, FlowId, InstanceId, RunId, WorkspaceId};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::run::{Process, Run, RunOutcome, RunState, WakeReason};
use orc_domain::time::Timestamp;
use orc_domain::value::Value;
use orc_ports::store::{Commit, Committed, Guarded, Store, StoreError};
use orc_store_sqlite::SqliteStore;
use tokio::time::Instant;
use uuid::Uuid;

const CHAINED: u32 = 2_000;
const FLOWS: u32 = 32;
const EACH: u32 = 200;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let place = tempfile::tempdir_in(directory)?;
    let began = Instant::now();
    let store = Arc::new(SqliteStore::open(&place.path().join("orc.db")).await?);
    println!("open, new database: {:?}", began.elapsed());
    let pipeline = definition();
    let hash = pipeline.content_hash()?;
    store.pipeline_insert(hash.clone(), Arc::new(pipeline), String::new()).await?;

    let began = Instant::now();
    chain(&store, &hash, 0, CHAINED).await?;
    let each = began.elapsed() / CHAINED;
    println!("chained: {each:?} each, three writes");

    let began = Instant::now();
    try_join_all((1..=FLOWS).map(|flow| chain(&store, &hash, flow, EACH))).await?;
    let total = FLOWS * EACH;
    let each = began.elapsed() / total;
    println!("{FLOWS} flows: {each:?} each, {} a second", 1_000_000_000 / each.as_nanos().max(1));

    let began = Instant::now();
    store.flow_load(flow_id(0)).await?;
    println!("load of a flow of {CHAINED} steps: {:?}", began.elapsed());
    let began = Instant::now();
    store.close().await?;
    println!("close: {:?}", began.elapsed());
    Ok(())
}

/// A flow of `steps` steps, one after the other.
async fn chain(store: &SqliteStore, hash: &ContentHash, number: u32, steps: u32) -> Result<(), Box<dyn Error>> {
    let flow = flow_id(number);
    let instance = InstanceId::derived(flow.uuid(), "instance");
    let blocked = (0..steps).map(|no| Change::Step(step(no, StepState::Blocked)));
    let mut version = 1;
    let mut create = commit(flow, 0, blocked.collect());
    create.create = Some(spec(flow, hash.clone()));
    accept(store.commit(create).await)?;
    for no in 0..steps {
        let mut next = commit(flow, version, Vec::new());
        let run = pending(flow, no);
        let mut changes = vec![Change::Step(step(no, StepState::Active { run: run.id })), Change::Run(run.clone())];
        if let Some(before) = no.checked_sub(1) {
            let mut ended = step(before, StepState::Finished { outcome: StepOutcome::Succeeded });
            ended.output = Some(Value::Map(BTreeMap::from([("result".to_owned(), Value::text("x".repeat(80)))])));
            let mut over = pending(flow, before);
            next.decision.releases.push(Claim::Slot { run: over.id });
            next.decision.events.push(event(Fact::CommandRunCompleted {
                path: path(before),
                run: over.id,
                attempt: 1,
                outcome: RunOutcome::Delivered,
            }));
            next.decision
                .events
                .push(event(Fact::StepFinished { path: path(before), outcome: StepOutcome::Succeeded }));
            over.state = RunState::Finished { at: at(), outcome: RunOutcome::Delivered };
            changes.extend([Change::Step(ended), Change::Run(over)]);
        }
        let effect = start(&run);
        let effect_id = effect.id;
        next.decision.claims.push(Claim::Slot { run: run.id });
        next.decision.effects.push(effect);
        next.decision.changes.splice(0..0, changes);
        accept(store.commit(next).await)?;
        if store.runs_claim(vec![(run.id, effect_id)], instance).await? != [Guarded::Updated] {
            return Err("a run was claimed twice".into());
        }
        let mut started = run.clone();
        let process = Process { pid: 4711, start_ticks: 1, instance };
        started.state = RunState::Running { since: at(), process, deadline: at(), stop: None };
        let mut known = commit(flow, version + 1, vec![Change::Run(started)]);
        known.decision.events.push(event(Fact::CommandRunStarted { path: run.path, run: run.id, attempt: 1 }));
        accept(store.commit(known).await)?;
        version += 2;
    }
    Ok(())
}

fn accept(answer: Result<Committed, StoreError>) -> Result<(), Box<dyn Error>> {
    match answer? {
        Committed::Done => Ok(()),
        other => Err(format!("not accepted: {other:?}").into()),
    }
}

fn commit(flow: FlowId, expected: u64, mut changes: Vec<Change>) -> Commit {
    changes.push(Change::Head(FlowHead {
        state: FlowState::Live { phase: Phase::Main, stop: Stop::None },
        version: expected + 1,
        wake_at: Some(at()),
        seen: at(),
        open_main: 1,
        open_finally: 0,
        main_failed: false,
        finally_failed: false,
    }));
    let decision = Decision { changes, ..Decision::default() };
    Commit { flow, create: None, expected, decision, slots: 1_000 }
}

fn definition() -> Pipeline {
    Pipeline {
        name: "chain".to_owned(),
        description: None,
        inputs: BTreeMap::new(),
        env: BTreeMap::new(),
        steps: Vec::new(),
    }
}

fn spec(id: FlowId, pipeline: ContentHash) -> FlowSpec {
    FlowSpec {
        id,
        workspace: WorkspaceId::default_workspace(),
        pipeline,
        name: "chain".to_owned(),
        inputs: BTreeMap::new(),
        directory: "/repository".to_owned(),
        requested_by: Principal::System,
        created_at: at(),
        retry_of: None,
        taken_over: BTreeMap::new(),
    }
}

fn step(no: u32, state: StepState) -> Step {
    Step {
        no: StepNo(no),
        path: path(no),
        spec: SpecIndex(no),
        element: None,
        state,
        since: at(),
        attempts: 1,
        failures: 0,
        losses: orc_domain::flow::Losses::default(),
        output: None,
    }
}

fn pending(flow: FlowId, no: u32) -> Run {
    Run {
        id: RunId::derived(flow.uuid(), &format!("{no}")),
        flow,
        no: StepNo(no),
        path: path(no),
        attempt: 1,
        wake: WakeReason::PipelineStep,
        created_at: at(),
        state: RunState::Pending { since: at(), deadline: at(), stop: None },
    }
}

fn start(run: &Run) -> Effect {
    Effect {
        id: EffectId::derived(run.id.uuid(), "start"),
        kind: EffectKind::StartRun {
            run: run.id,
            command: Command {
                argv: ["sh", "-eu", "-c", "cargo build --workspace --locked"].map(str::to_owned).to_vec(),
                directory: "/repository".to_owned(),
                env: BTreeMap::from([("ORC_FLOW_ID".to_owned(), run.flow.to_string())]),
                path: run.path.clone(),
                attempt: 1,
            },
        },
    }
}

fn event(fact: Fact) -> EventBody {
    EventBody { at: at(), actor: Principal::System, fact }
}

fn flow_id(number: u32) -> FlowId {
    FlowId::from_uuid(Uuid::from_u128(0x018b_cfe5_6800_7000_8000_0000_0000_0000 + u128::from(number)))
}

fn path(no: u32) -> StepPath {
    StepPath::root(&format!("step{no}"))
}

const fn at() -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000)
}
