//! The only place that spawns. Every future has a name, a panic in it is caught, said and remembered, and all of them
//! are waited for at the end.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tracker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    ending: CancellationToken,
    panicked: Arc<AtomicBool>,
}

impl Tasks {
    /// Runs a future beside the others until it ends.
    pub(crate) fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        let panicked = Arc::clone(&self.panicked);
        let guarded = AssertUnwindSafe(future).catch_unwind();
        self.tracker.spawn(async move {
            if guarded.await.is_err() {
                panicked.store(true, Ordering::SeqCst);
                tracing::error!(name, "a part of the orchestrator panicked; its flow waits for the next start");
            }
        });
    }

    /// Ends when the program is asked to end: loops listen to it.
    pub(crate) fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    /// Whether anything panicked so far.
    pub(crate) fn panicked(&self) -> bool {
        self.panicked.load(Ordering::SeqCst)
    }

    /// Tells every loop to end and waits for all of them.
    pub(crate) async fn end(&self) {
        self.ending.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
