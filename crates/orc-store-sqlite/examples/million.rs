//! What operators' reads cost with a million runs: `cargo run --release -p orc-store-sqlite --example million [directory]`.
//!
//! The rows are copies of two flows, made by the database itself. 10,000 flows of 100 steps, each step run once, every
//! second by an agent, two events per run and ten answered requests per flow; the last 20 of them are live, one with 1,000
//! runs of its own. And 10,000 flows that wait: each for an event and with a request that nobody has answered.
#![expect(clippy::print_stdout, reason = "figures for people are the purpose")]

use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orc_domain::action::WaitEvent;
use orc_domain::effect::Change;
use orc_domain::request::Answer;
use orc_ports::reader::{FlowFilter, Reader as _, RequestFilter};
use orc_ports::store::Store as _;
use orc_store_sqlite::{SqliteReader, SqliteStore};
use orc_testkit::conformance::store::scene::{
    at, carry_on, create, done, flow_id, launch, open, path as path_of, pending_agent, prepare, request_id, resolved,
    run_id, step, waiting_for,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection, raw_sql};
use tokio::time::Instant;

/// Copies of each of the two flows, those that are copied included.
const FLOWS: u32 = 10_000;
/// Steps and runs of each.
const EACH: u32 = 100;
/// Times each read is made; the slowest counts.
const TIMES: u32 = 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let place = tempfile::tempdir_in(directory)?;
    let path = place.path().join("orc.db");
    fill(&path).await?;
    let began = Instant::now();
    let reader = SqliteReader::open(&path).await?;
    println!("open: {:?}", began.elapsed());
    let totals = reader.totals().await?;
    println!("{totals:?}");
    let (one, large) = (flow_id(77), flow_id(FLOWS));
    slowest("totals", || reader.totals()).await?;
    slowest("flows, first page of 50", || reader.flows(FlowFilter::All, None, 50)).await?;
    slowest("flows, live", || reader.flows(FlowFilter::Live, None, 50)).await?;
    slowest("flows, finished, in the middle", || reader.flows(FlowFilter::Finished, Some(flow_id(FLOWS / 2)), 50))
        .await?;
    slowest("flow of 100 steps", || reader.flow(one)).await?;
    slowest("flow of 1,000 steps", || reader.flow(large)).await?;
    slowest("runs, first page of 50", || reader.runs(None, None, 50)).await?;
    slowest("runs of a flow with 100", || reader.runs(Some(one), None, 50)).await?;
    slowest("runs of a flow with 1,000", || reader.runs(Some(large), None, 50)).await?;
    slowest("events of a flow", || reader.events(Some(one), 0, 50)).await?;
    slowest("events, the last 50", || reader.events(None, totals.last_event - 50, 50)).await?;
    slowest("runs of an agent, first page of 50", || reader.runs_by_agent("reviewer".to_owned(), None, 50)).await?;
    slowest("requests, open, first page of 50", || reader.requests(RequestFilter::Open, 50)).await?;
    slowest("requests, open, all 10,000", || reader.requests(RequestFilter::Open, FLOWS)).await?;
    slowest("requests, resolved, first page of 50", || reader.requests(RequestFilter::Resolved, 50)).await?;
    slowest("one request", || reader.request(request_id(large, 0))).await?;
    slowest("answers, 100,000 by three", || reader.answers()).await?;
    let id = run_id(large, &path_of(5), 1).to_string();
    slowest("one run", || reader.run(run_id(large, &path_of(5), 1))).await?;
    slowest("an id by its end", || reader.ids_ending(id[id.len() - 8..].to_owned(), 9)).await?;
    let store = SqliteStore::open(&path).await?;
    slowest("flows that are due, none of 10,020", || store.flows_due(at(0), None, 500)).await?;
    slowest("flows that are due, 500 of 10,020", || store.flows_due(at(60_000), None, 500)).await?;
    slowest("flows with live runs", || store.flows_with_live_runs(None, 500)).await?;
    slowest("flows with effects", || store.flows_with_effects(None, 500)).await?;
    slowest("flows that wait for an event, 10,000", || store.flows_waiting_for(WaitEvent::FlowFinished)).await?;
    slowest("flows that wait for an event, none", || store.flows_waiting_for(WaitEvent::AgentRunCompleted)).await?;
    store.close().await?;
    Ok(())
}

async fn slowest<T, E, F>(what: &str, read: impl Fn() -> F) -> Result<(), E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut slowest = Duration::ZERO;
    for _ in 0..TIMES {
        let began = Instant::now();
        read().await?;
        slowest = slowest.max(began.elapsed());
    }
    println!("{what}: {slowest:?}");
    Ok(())
}

/// Three flows through the store, the rest copied from the first and the last.
async fn fill(path: &Path) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let store = SqliteStore::open(path).await?;
    prepare(&store).await;
    for (flow, steps) in [(flow_id(0), EACH), (flow_id(FLOWS), 1_000)] {
        done(&store, create(flow)).await;
        for no in 0..steps {
            let mut launched = launch(flow, u64::from(no) + 1, no);
            launched.slots = u32::MAX;
            if no % 2 == 0 {
                launched.decision.changes[1] = Change::Run(pending_agent(flow, no));
            }
            done(&store, launched).await;
        }
        let answered = (0..10_u32).map(|no| {
            let name = ["ada", "bob", "eve"][no as usize % 3];
            Change::Request(resolved(flow, no, i64::from(no), name, Answer::Approved))
        });
        done(&store, carry_on(flow, u64::from(steps) + 1, answered.collect())).await;
    }
    let waiting = flow_id(FLOWS + 1);
    done(&store, create(waiting)).await;
    let asked = vec![Change::Step(step(0, waiting_for(WaitEvent::FlowFinished))), Change::Request(open(waiting, 0, 1))];
    done(&store, carry_on(waiting, 1, asked)).await;
    store.close().await?;
    let first = flow_id(0);
    // The copies keep the JSON of the flow but for ids, so that each can be read; their numbers are the last three
    // characters of an id, in the alphabet of ids.
    let text = format!(
        "PRAGMA synchronous = OFF;
         CREATE TEMP TABLE numbers AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2 * {FLOWS})
             SELECT i, substr('0123456789abcdefghjkmnpqrstvwxyz', (i >> 10 & 31) + 1, 1)
                 || substr('0123456789abcdefghjkmnpqrstvwxyz', (i >> 5 & 31) + 1, 1)
                 || substr('0123456789abcdefghjkmnpqrstvwxyz', (i & 31) + 1, 1) AS tail FROM n;
         CREATE TEMP TABLE renamed AS SELECT i, substr('{first}', 1, 28) || tail AS flow, tail FROM numbers
             WHERE i < {FLOWS};
         CREATE TEMP TABLE asleep AS SELECT substr('{first}', 1, 28) || tail AS flow, tail FROM numbers
             WHERE i > {FLOWS} + 1;
         BEGIN;
         INSERT INTO flows
             SELECT renamed.flow, workspace, pipeline, name, version,
                 CASE WHEN i > {FLOWS} - 20 THEN wake_at END, NULL, updated_at,
                 CASE WHEN i <= {FLOWS} - 20 THEN 1 END, replace(spec, '{first}', renamed.flow), head
             FROM renamed, flows WHERE flows.id = '{first}';
         INSERT INTO flows
             SELECT asleep.flow, workspace, pipeline, name, version, wake_at, NULL, updated_at, NULL,
                 replace(spec, '{waiting}', asleep.flow), head
             FROM asleep, flows WHERE flows.id = '{waiting}';
         INSERT INTO steps SELECT renamed.flow, no, path, status, waits_for, data
             FROM renamed, steps WHERE steps.flow = '{first}';
         INSERT INTO steps SELECT asleep.flow, no, path, status, waits_for, data
             FROM asleep, steps WHERE steps.flow = '{waiting}';
         INSERT INTO runs (id, flow, path, attempt, agent, started_at, finished_at, claimed_by, process, data)
             SELECT substr(id, 1, 20) || 'zzz' || substr(id, 24, 4) || tail, renamed.flow, path, attempt, agent, 1,
                 CASE WHEN i <= {FLOWS} - 20 OR no_of_run > 1 THEN 1 END, claimed_by, process,
                 replace(replace(data, '{first}', renamed.flow), id, substr(id, 1, 20) || 'zzz' || substr(id, 24, 4) || tail)
             FROM renamed, (SELECT *, row_number() OVER (ORDER BY position) AS no_of_run FROM runs WHERE flow = '{first}');
         INSERT INTO requests
             SELECT substr(id, 1, 20) || 'zzz' || substr(id, 24, 4) || tail, renamed.flow, opened_at, resolved_at + i, answer, answered_by, i,
                 replace(replace(data, '{first}', renamed.flow), id, substr(id, 1, 20) || 'zzz' || substr(id, 24, 4) || tail)
             FROM renamed, requests WHERE requests.flow = '{first}';
         INSERT INTO requests
             SELECT substr(id, 1, 20) || 'zzz' || substr(id, 24, 4) || tail, asleep.flow, opened_at, NULL, NULL, NULL, NULL,
                 replace(replace(data, '{waiting}', asleep.flow), id, substr(id, 1, 20) || 'zzz' || substr(id, 24, 4) || tail)
             FROM asleep, requests WHERE requests.flow = '{waiting}';
         INSERT INTO events (flow, workspace, kind, v, at, actor, data)
             SELECT renamed.flow, workspace, kind, v, at, actor, data
             FROM renamed, events, (SELECT 1 UNION ALL SELECT 2) WHERE events.flow = '{first}';
         UPDATE counters SET value = (SELECT count(*) FROM flows WHERE finished_at IS NOT NULL);
         COMMIT;
         PRAGMA wal_checkpoint(TRUNCATE);"
    );
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await?;
    connection.execute(raw_sql(AssertSqlSafe(text))).await?;
    connection.close().await?;
    println!("filled in {:?}", began.elapsed());
    Ok(())
}
