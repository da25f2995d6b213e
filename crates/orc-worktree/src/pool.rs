//! Threads of our own for work that blocks: git, boxes, files. The program's loop only waits for their answers.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use futures_util::future::BoxFuture;
use orc_ports::worktrees::WorktreeError;
use tokio::sync::oneshot;

/// Threads for what somebody waits for. Most of them wait for a process, so there are more than cores.
const THREADS: usize = 8;

pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// What nobody waits for, one after another.
#[derive(Clone)]
pub(crate) struct Background(Arc<Mutex<Option<Sender<Work>>>>);

impl Background {
    /// Does it some time later; not at all when the program ends before.
    pub(crate) fn send(&self, work: Work) {
        if let Some(queue) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            let _ = queue.send(work);
        }
    }
}

/// The threads. Dropped, they end what they have and are waited for.
pub(crate) struct Pool {
    work: Option<Sender<Work>>,
    background: Background,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts them.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub(crate) fn new() -> std::io::Result<Self> {
        let (work, waiting) = channel::<Work>();
        let (background, later) = channel::<Work>();
        let waiting = Arc::new(Mutex::new(waiting));
        let later = Arc::new(Mutex::new(later));
        let mut threads = Vec::new();
        for number in 0..=THREADS {
            let queue = if number == 0 { Arc::clone(&later) } else { Arc::clone(&waiting) };
            let name = if number == 0 { "trees-trash".to_owned() } else { format!("trees-{number}") };
            threads.push(std::thread::Builder::new().name(name).spawn(move || serve(&queue))?);
        }
        let background = Background(Arc::new(Mutex::new(Some(background))));
        Ok(Self { work: Some(work), background, threads })
    }

    /// Runs something on one of the threads; the future is its answer. It is done also when nobody waits any more.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, WorktreeError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, WorktreeError>> {
        let (answer, answered) = oneshot::channel();
        let work: Work = Box::new(move || {
            let _ = answer.send(work());
        });
        let lost = || WorktreeError::Box { what: "its thread ended; the log says why".to_owned() };
        if self.work.as_ref().is_none_or(|queue| queue.send(work).is_err()) {
            return Box::pin(async move { Err(lost()) });
        }
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(lost())) })
    }

    /// Where what nobody waits for goes.
    pub(crate) fn background(&self) -> Background {
        self.background.clone()
    }
}

fn serve(queue: &Mutex<Receiver<Work>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = next else { return };
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
            tracing::error!("work on a private copy panicked");
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.work = None;
        *self.background.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
