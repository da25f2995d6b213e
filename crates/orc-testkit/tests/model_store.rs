//! The model passes the suite that real stores pass.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, ready};
use orc_ports::store::Store;
use orc_testkit::conformance::ledger::{self, Books};
use orc_testkit::conformance::store::Place;
use orc_testkit::model::{Model, ModelStore};

/// Opening again gives a new store over what the last one held.
#[derive(Default)]
struct InMemory {
    last: Mutex<Option<Arc<ModelStore>>>,
}

impl InMemory {
    fn again(&self) -> Arc<ModelStore> {
        let mut last = self.last.lock().unwrap();
        let model = last.as_ref().map_or_else(Model::default, |store| store.snapshot());
        let store = Arc::new(ModelStore::of(model));
        *last = Some(Arc::clone(&store));
        store
    }
}

impl Place for InMemory {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(ready(self.again() as Arc<dyn Store>))
    }
}

impl ledger::Place for InMemory {
    fn open(&self) -> BoxFuture<'_, Arc<dyn Books>> {
        Box::pin(ready(self.again() as Arc<dyn Books>))
    }
}

orc_testkit::store_conformance!(InMemory::default());
orc_testkit::ledger_conformance!(InMemory::default());
