//! The store passes the suite that the model passes.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::sync::Arc;

use futures_util::future::BoxFuture;
use orc_ports::store::Store;
use orc_store_sqlite::SqliteStore;
use orc_testkit::conformance::store::Place;

struct OnDisk(tempfile::TempDir);

impl OnDisk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
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
