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
use orc_domain::effect::{Change, Decision};
use orc_domain::event::{EventBody, Fact};
use orc_domain::flow::{FlowHead, StepOutcome, StepState};
use orc_domain::ids::FlowId;
use orc_domain::principal::Principal;
use orc_domain::run::{Process, RunOutcome, RunState};
use orc_domain::value::Value;
use orc_ports::store::{Commit, Committed, Guarded, Store, StoreError};
use orc_store_sqlite::SqliteStore;
use orc_testkit::conformance::store::scene::{
    at, delivered, flow_id, instance_id, live, path, pending, prepare, slot, spec, start_run, step,
};
use tokio::time::Instant;

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
    prepare(store.as_ref()).await;

    let began = Instant::now();
    chain(&store, 0, CHAINED).await?;
    let each = began.elapsed() / CHAINED;
    println!("chained: {each:?} each, three writes");

    let began = Instant::now();
    try_join_all((1..=FLOWS).map(|flow| chain(&store, flow, EACH))).await?;
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
async fn chain(store: &SqliteStore, number: u32, steps: u32) -> Result<(), Box<dyn Error>> {
    let flow = flow_id(number);
    let instance = instance_id(number);
    let blocked = (0..steps).map(|no| Change::Step(step(no, StepState::Blocked)));
    let mut version = 1;
    let mut create = commit(flow, 0, blocked.collect());
    create.create = Some(spec(flow));
    accept(store.commit(create).await)?;
    for no in 0..steps {
        let mut next = commit(flow, version, Vec::new());
        let run = pending(flow, no);
        let mut changes = vec![Change::Step(step(no, StepState::Active { run: run.id })), Change::Run(run.clone())];
        if let Some(before) = no.checked_sub(1) {
            let mut ended = step(before, StepState::Finished { outcome: StepOutcome::Succeeded });
            ended.output = Some(Value::Map(BTreeMap::from([("result".to_owned(), Value::text("x".repeat(80)))])));
            let over = delivered(flow, before);
            next.decision.releases.push(slot(flow, before));
            next.decision.events.push(event(Fact::CommandRunCompleted {
                path: path(before),
                run: over.id,
                attempt: 1,
                outcome: RunOutcome::Delivered,
            }));
            next.decision
                .events
                .push(event(Fact::StepFinished { path: path(before), outcome: StepOutcome::Succeeded }));
            changes.extend([Change::Step(ended), Change::Run(over)]);
        }
        let effect = start_run(flow, no);
        let effect_id = effect.id;
        next.decision.claims.push(slot(flow, no));
        next.decision.effects.push(effect);
        next.decision.changes.splice(0..0, changes);
        accept(store.commit(next).await)?;
        if store.runs_claim(vec![(run.id, effect_id)], instance).await? != [Guarded::Updated] {
            return Err("a run was claimed twice".into());
        }
        let mut started = run.clone();
        let process = Process { pid: 4711, start_ticks: 1, instance };
        started.state = RunState::Running { since: at(1), process, deadline: at(1), stop: None };
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

/// Each commit moves the flow's alarm, as a decision about another run does.
fn commit(flow: FlowId, expected: u64, mut changes: Vec<Change>) -> Commit {
    let head = live(expected + 1);
    changes.push(Change::Head(FlowHead { wake_at: Some(head.seen), ..head }));
    let decision = Decision { changes, ..Decision::default() };
    Commit { flow, create: None, expected, decision, slots: 1_000 }
}

fn event(fact: Fact) -> EventBody {
    EventBody { at: at(1), actor: Principal::System, fact }
}
