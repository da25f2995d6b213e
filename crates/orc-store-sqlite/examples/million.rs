//! What operators' reads cost with a million runs: `cargo run --release -p orc-store-sqlite --example million [directory]`.
//!
//! The rows are copies of one flow, made by the database itself: 10,000 flows of 100 steps, each step run once, two
//! events per run; and the last 20 flows live, one of them with 1,000 runs of its own.
#![expect(clippy::print_stdout, reason = "figures for people are the purpose")]

use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orc_ports::reader::{FlowFilter, Reader as _};
use orc_ports::store::Store as _;
use orc_store_sqlite::{SqliteReader, SqliteStore};
use orc_testkit::conformance::store::scene::{create, done, flow_id, launch, path as path_of, prepare, run_id};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection, raw_sql};
use tokio::time::Instant;

/// Copies of the flow, beside the one that is copied.
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
    let id = run_id(large, &path_of(5), 1).to_string();
    slowest("one run", || reader.run(run_id(large, &path_of(5), 1))).await?;
    slowest("an id by its end", || reader.ids_ending(id[id.len() - 8..].to_owned(), 9)).await?;
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

/// Two flows through the store, the rest copied from the first.
async fn fill(path: &Path) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let store = SqliteStore::open(path).await?;
    prepare(&store).await;
    for (flow, steps) in [(flow_id(0), EACH), (flow_id(FLOWS), 1_000)] {
        done(&store, create(flow)).await;
        for no in 0..steps {
            let mut launched = launch(flow, u64::from(no) + 1, no);
            launched.slots = u32::MAX;
            done(&store, launched).await;
        }
    }
    store.close().await?;
    let first = flow_id(0);
    // The copies keep the JSON of the first flow but for ids, so that each can be read; their numbers are the last three
    // characters of an id, in the alphabet of ids.
    let text = format!(
        "PRAGMA synchronous = OFF;
         CREATE TEMP TABLE numbers AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {FLOWS} - 1)
             SELECT i, substr('0123456789abcdefghjkmnpqrstvwxyz', (i >> 10 & 31) + 1, 1)
                 || substr('0123456789abcdefghjkmnpqrstvwxyz', (i >> 5 & 31) + 1, 1)
                 || substr('0123456789abcdefghjkmnpqrstvwxyz', (i & 31) + 1, 1) AS tail FROM n;
         CREATE TEMP TABLE renamed AS SELECT i, substr('{first}', 1, 28) || tail AS flow, tail FROM numbers;
         BEGIN;
         INSERT INTO flows SELECT renamed.flow, workspace, pipeline, name, replace(spec, '{first}', renamed.flow), head,
             version, CASE WHEN i > {FLOWS} - 20 THEN wake_at END, updated_at, CASE WHEN i <= {FLOWS} - 20 THEN 1 END
             FROM renamed, flows WHERE flows.id = '{first}';
         INSERT INTO steps SELECT renamed.flow, no, path, status, data
             FROM renamed, steps WHERE steps.flow = '{first}';
         INSERT INTO runs (id, flow, path, attempt, started_at, finished_at, claimed_by, process, data)
             SELECT substr(id, 1, 14) || tail || substr(id, 18), renamed.flow, path, attempt, 1,
                 CASE WHEN i <= {FLOWS} - 20 OR no_of_run > 1 THEN 1 END, claimed_by, process,
                 replace(replace(data, '{first}', renamed.flow), id, substr(id, 1, 14) || tail || substr(id, 18))
             FROM renamed, (SELECT *, row_number() OVER (ORDER BY position) AS no_of_run FROM runs WHERE flow = '{first}');
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
