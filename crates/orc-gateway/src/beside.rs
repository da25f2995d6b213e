//! The only place that spawns. A panic in a future is caught and said, and all futures are waited for at the end.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// What runs beside the calls.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    tracker: TaskTracker,
    /// Kept, because whoever drops a call need not stand in a runtime.
    runtime: Handle,
}

impl Beside {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { tracker: TaskTracker::new(), runtime }
    }

    /// Runs a future beside the others until it ends.
    pub(crate) fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        let guarded = AssertUnwindSafe(future).catch_unwind();
        let watched = async move {
            if guarded.await.is_err() {
                tracing::error!(name, "a part of the gateway panicked");
            }
        };
        self.tracker.spawn_on(watched, &self.runtime);
    }

    /// Waits for all of them.
    pub(crate) async fn end(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
