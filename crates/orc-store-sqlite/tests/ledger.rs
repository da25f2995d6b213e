//! What only this store can show of its ledger: what is found when somebody changed it, and what a crash leaves.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::path::{Path, PathBuf};

use orc_domain::meter::Owner;
use orc_ports::ledger::{CostReader as _, Ledger as _};
use orc_ports::store::{Guarded, Store as _};
use orc_store_sqlite::{Findings, SqliteReader, SqliteStore, check, check_sums};
use orc_testkit::conformance::ledger::calls::{begin, reservation, run, settlement};
use orc_testkit::conformance::store::scene::{at, instance_id};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection, raw_sql};

/// A ledger of three calls, the last of them in flight.
async fn filled(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("orc.db");
    let store = SqliteStore::open(&path).await.unwrap();
    begin(&store, 1).await;
    for number in 1..=3 {
        assert_eq!(store.reserve(reservation(number, 1)).await.unwrap(), Guarded::Updated);
    }
    for number in 1..=2 {
        assert_eq!(store.settle(settlement(number, 500)).await.unwrap(), Guarded::Updated);
    }
    store.close().await.unwrap();
    path
}

/// Whoever can write the file can change it; triggers are gone with one statement each.
async fn change(path: &Path, text: &str) {
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    for trigger in ["accounts_stay", "owners_kept", "calls_stay", "ends_stay", "ends_kept"] {
        connection.execute(raw_sql(AssertSqlSafe(format!("DROP TRIGGER ledger_{trigger}")))).await.unwrap();
    }
    connection.execute(raw_sql("PRAGMA foreign_keys = OFF")).await.unwrap();
    connection.execute(raw_sql(AssertSqlSafe(text.to_owned()))).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_sum_that_is_not_what_its_entries_add_up_to_is_named() {
    let sum = "the ledger's sum of 2023-11-14, agent `writer`, model `large-1` (account ";
    let cases = [
        ("UPDATE ledger_sums SET micros = micros - 1", "micros 999 instead of 1000"),
        ("UPDATE ledger_sums SET output = 11, in_flight = 0", "output 11 instead of 10, in_flight 0 instead of 1"),
        ("UPDATE ledger_ends SET micros = micros + 1", "micros 1000 instead of 1002"),
        ("UPDATE ledger_ends SET kind = 'estimated'", "unsure 0 instead of 1000"),
        ("UPDATE ledger_calls SET micros = micros * 2", "reserved 1000 instead of 2000"),
        ("DELETE FROM ledger_sums", "calls 0 instead of 2"),
    ];
    for (text, wanted) in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = filled(&directory).await;
        assert_eq!(check_sums(&path).await.unwrap(), Findings::default());
        assert_eq!(check(&path).await.unwrap(), Findings::default());
        change(&path, text).await;
        let found = check_sums(&path).await.unwrap().listed;
        assert!(found.len() == 1 && found[0].starts_with(sum) && found[0].contains(wanted), "{text}: {found:?}");
        assert!(check(&path).await.unwrap().listed.contains(&found[0]), "{text}");
    }
}

#[tokio::test]
async fn everything_else_that_was_changed_is_found_too() {
    let cases = [
        (
            "DELETE FROM ledger_open",
            "is a call whose entries and place among the calls in flight contradict each other",
        ),
        ("UPDATE instances SET ended_at = 9", "is a call in flight of an instance that is over"),
        ("DELETE FROM ledger_owners WHERE owner LIKE 'flow%'", "it counts below 2 walls, and 1 are listed"),
        ("UPDATE ledger_accounts SET data = replace(data, 'writer', 'reader')", "its hash is another one than its id"),
        ("UPDATE ledger_accounts SET data = '{'", "row `"),
        ("UPDATE ledger_ends SET kind = 'reserved' WHERE micros = 500", "`reserved` ends no call"),
    ];
    for (text, wanted) in cases {
        let directory = tempfile::tempdir().unwrap();
        let path = filled(&directory).await;
        change(&path, text).await;
        let found = check(&path).await.unwrap().listed;
        assert!(found.iter().any(|finding| finding.contains(wanted)), "{text}: {found:?}");
    }
}

#[tokio::test]
async fn a_crash_leaves_reservations_for_whoever_comes_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orc.db");
    let store = SqliteStore::open(&path).await.unwrap();
    begin(&store, 1).await;
    store.reserve(reservation(1, 1)).await.unwrap();
    // Beside the one that writes, which then dies without a word.
    let reader = SqliteReader::open(&path).await.unwrap();
    assert_eq!(reader.spent(Owner::Run(run(1))).await.unwrap().in_flight, 1);
    drop(store);
    let next = SqliteStore::open(&path).await.unwrap();
    assert_eq!(next.instance_end(instance_id(1), at(9)).await.unwrap(), Guarded::Updated);
    let sum = reader.spent(Owner::Run(run(1))).await.unwrap();
    assert_eq!((sum.in_flight, sum.calls, sum.micros.as_micros(), sum.lost_tokens), (0, 1, 1_000, 700));
    next.close().await.unwrap();
}
