//! What the ledger costs: `cargo run --release -p orc-store-sqlite --example ledger [place] [calls]`.
//!
//! `place` is a directory for the store, which goes afterwards. Calls are made one after another and 50 at a time, of runs
//! with 20 calls each; then costs are read.
#![expect(clippy::print_stdout, reason = "figures for people are the purpose")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use orc_domain::ledger::CostsBy;
use orc_domain::meter::Owner;
use orc_ports::ledger::{CostFilter, CostReader as _, Ledger as _};
use orc_ports::store::{Store as _, StoreError};
use orc_store_sqlite::{SqliteStore, check_sums};
use orc_testkit::conformance::ledger::calls::{DAY, begin, reservation, run, settlement};
use orc_testkit::conformance::store::scene::at;
use tokio::time::Instant;

/// Calls of a run.
const EACH: u32 = 20;
/// Calls at the same time.
const WIDE: u32 = 50;
/// Calls a day.
const A_DAY: u32 = 5_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let calls: u32 = std::env::args().nth(2).map_or(Ok(20_000), |text| text.parse())?;
    let place = tempfile::tempdir_in(directory)?;
    let path = place.path().join("orc.db");
    let store = Arc::new(SqliteStore::open(&path).await?);
    begin(store.as_ref(), 1).await;
    let alone = calls / 10;
    let (mut reserves, mut settles) = (Vec::new(), Vec::new());
    for number in 0..alone {
        let began = Instant::now();
        reserve(&store, number).await?;
        reserves.push(began.elapsed());
        let began = Instant::now();
        store.settle(settlement(number, 900)).await?;
        settles.push(began.elapsed());
    }
    told("one at a time, reserve", &mut reserves);
    told("one at a time, settle", &mut settles);
    let began = Instant::now();
    let mut both = Vec::new();
    let mut number = alone;
    while number < calls {
        let one = async |number| {
            let began = Instant::now();
            reserve(&store, number).await?;
            store.settle(settlement(number, 900)).await?;
            Ok::<_, StoreError>(began.elapsed())
        };
        both.extend(try_join_all((number..calls.min(number + WIDE)).map(one)).await?);
        number += WIDE;
    }
    let each = began.elapsed() / (calls - alone).max(1);
    told("50 at a time, both writes of a call", &mut both);
    println!("50 at a time, a call on average: {each:?}");
    let began = Instant::now();
    store.spent(Owner::Run(run(3))).await?;
    println!("spent of a run: {:?}", began.elapsed());
    for (what, filter) in [
        ("ever", CostFilter::default()),
        ("of a week from noon", CostFilter { since: Some(at(DAY / 2)), before: Some(at(7 * DAY)), only: Vec::new() }),
    ] {
        let began = Instant::now();
        let (_, sum) = store.costs(vec![CostsBy::Agent], filter, 9).await?;
        println!("costs by agent, {what} ({} calls): {:?}", sum.calls, began.elapsed());
    }
    let began = Instant::now();
    store
        .calls(CostFilter { only: vec![(CostsBy::Run, run(3).to_string())], ..CostFilter::default() }, None, 50)
        .await?;
    println!("calls of a run: {:?}", began.elapsed());
    store.close().await?;
    let began = Instant::now();
    let findings = check_sums(&path).await?;
    println!("sums compared with {calls} calls: {:?}, {} findings", began.elapsed(), findings.listed.len());
    println!("bytes a call: {}", std::fs::metadata(&path)?.len() / u64::from(calls.max(1)));
    Ok(())
}

async fn reserve(store: &SqliteStore, number: u32) -> Result<(), StoreError> {
    let mut reserved = reservation(number, number / EACH);
    reserved.at = at(i64::from(number / A_DAY) * DAY + i64::from(number % A_DAY));
    store.reserve(reserved).await.map(drop)
}

fn told(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    println!("{what}: p50 {:?}, p99 {:?}, worst {:?}", at(50), at(99), times.last().copied().unwrap_or_default());
}
