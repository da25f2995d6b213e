//! The store passes the suite that the model passes.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::sync::Arc;

use futures_util::future::BoxFuture;
use orc_ports::store::Store;
use orc_store_sqlite::{Findings, SqliteStore};
use orc_testkit::conformance::ledger::{self, Books};
use orc_testkit::conformance::store::Place;

struct OnDisk(tempfile::TempDir);

impl OnDisk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl ledger::Place for OnDisk {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Books>> {
        Box::pin(async move {
            let store = SqliteStore::open(&self.0.path().join("orc.db")).await.unwrap();
            Arc::new(store) as Arc<dyn Books>
        })
    }
}

impl Place for OnDisk {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async move {
            let store = SqliteStore::open(&self.0.path().join("orc.db")).await.unwrap();
            Arc::new(store) as Arc<dyn Store>
        })
    }
}

orc_testkit::store_conformance!(OnDisk::new());
orc_testkit::ledger_conformance!(OnDisk::new());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_random_sequence_the_check_finds_nothing() {
    let place = OnDisk::new();
    ledger::sums_are_a_fold_of_the_entries(&place).await;
    assert_eq!(orc_store_sqlite::check(&place.0.path().join("orc.db")).await.unwrap(), Findings::default());
}
