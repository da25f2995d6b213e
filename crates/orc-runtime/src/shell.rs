//! What every part of the running program shares, and how a message finds its flow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;
use orc_ports::executor::{Executor, Reports};
use orc_ports::reader::Reader;
use orc_ports::store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};

use crate::data_dir::DataDir;
use crate::dispatcher::Heard;
use crate::endings::ending_of;
use crate::slots::Slots;
use crate::tasks::Tasks;

/// Settings of one running instance.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Runs at the same time.
    pub slots: u32,
    /// Time between TERM and KILL.
    pub grace: Millis,
    /// Bytes of output kept per run.
    pub log_bytes: u64,
    /// The host's variables that every step gets; already reduced to the allow-list.
    pub host_env: BTreeMap<String, String>,
    /// The subcommand, for people.
    pub command: String,
}

/// Something outside keeps the instance from going on; it tries again by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Since when.
    pub since: Timestamp,
    /// What and why, as one line.
    pub what: String,
}

/// What a flow's loop is sent.
#[derive(Debug)]
pub(crate) enum Message {
    /// Something it must hear, and who waits for the outcome.
    Input(Signed, Option<oneshot::Sender<Heard>>),
    /// A slot may be free.
    Look,
}

impl Message {
    /// Whether nothing waits for it to be committed.
    pub(crate) const fn is_patient(&self) -> bool {
        matches!(self, Self::Input(Signed { input: Input::RunStarted { .. }, .. }, None))
    }

    /// Whether it tells of a run, and no person waits for an answer.
    pub(crate) const fn is_of_a_run(&self) -> bool {
        let Self::Input(signed, None) = self else { return false };
        matches!(signed.input, Input::RunStarted { .. } | Input::RunEnded { .. })
    }
}

/// Finds the flow of a run and the loop of a flow. Made before the executor, which reports into it.
#[derive(Debug, Default)]
pub struct Router {
    loops: Mutex<BTreeMap<FlowId, mpsc::UnboundedSender<Message>>>,
    runs: Mutex<BTreeMap<RunId, FlowId>>,
}

impl Router {
    /// Where an executor gives its reports.
    #[must_use]
    pub fn reports(self: &Arc<Self>) -> Reports {
        let router = Arc::clone(self);
        Arc::new(move |report| {
            if let Some(error) = &report.log_error {
                tracing::warn!(run = %report.run, error, "the log of a run is not complete");
            }
            let flow = lock(&router.runs).remove(&report.run);
            let input = Input::RunEnded { run: report.run, ending: ending_of(&report) };
            match flow {
                Some(flow) => router.tell(flow, input),
                None => tracing::error!(run = %report.run, "a process ended that no flow has started"),
            }
        })
    }

    /// Sends an input of ours to a flow that is being carried on. A flow that has ended needs no input.
    pub(crate) fn tell(&self, flow: FlowId, input: Input) {
        self.send(flow, Message::Input(Signed { by: Principal::System, input }, None));
    }

    /// False when the flow is not being carried on.
    pub(crate) fn send(&self, flow: FlowId, message: Message) -> bool {
        // Unbounded, because its length is bounded otherwise: two answers for each live run, one look for each turn in the
        // queue for slots, and what people send.
        lock(&self.loops).get(&flow).is_some_and(|sender| sender.send(message).is_ok())
    }

    pub(crate) fn open(&self, flow: FlowId) -> Option<mpsc::UnboundedReceiver<Message>> {
        let mut loops = lock(&self.loops);
        if loops.contains_key(&flow) {
            return None;
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        loops.insert(flow, sender);
        Some(receiver)
    }

    pub(crate) fn close(&self, flow: FlowId) -> usize {
        let mut loops = lock(&self.loops);
        loops.remove(&flow);
        loops.len()
    }

    pub(crate) fn flows(&self) -> Vec<FlowId> {
        lock(&self.loops).keys().copied().collect()
    }

    pub(crate) fn expect_report(&self, run: RunId, flow: FlowId) {
        lock(&self.runs).insert(run, flow);
    }

    pub(crate) fn expect_no_report(&self, run: RunId) {
        lock(&self.runs).remove(&run);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves maps of ids as they were: nothing in them is ever half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shared by all loops.
pub(crate) struct Shell {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) router: Arc<Router>,
    pub(crate) data: DataDir,
    pub(crate) shape: Shape,
    pub(crate) instance: InstanceId,
    pub(crate) slots: Slots,
    pub(crate) tasks: Tasks,
    /// Counts commits, so that readers of the event log know when to look.
    pub(crate) commits: watch::Sender<u64>,
    /// Flows that are being carried on.
    pub(crate) live: watch::Sender<usize>,
    /// What keeps us from going on.
    pub(crate) trouble: watch::Sender<Option<Trouble>>,
}

impl Shell {
    /// Wakes flows that wait for a slot, as long as slots are free.
    pub(crate) fn offer_slots(&self) {
        while let Some(flow) = self.slots.next() {
            if self.router.send(flow, Message::Look) {
                return;
            }
        }
    }

    /// Says what the store refused, and waits before the next attempt. False when the program is ending.
    pub(crate) async fn wait_out(&self, error: &StoreError) -> bool {
        let what = chain(error);
        let now = self.clock.now();
        self.trouble.send_if_modified(|trouble| {
            let news = trouble.as_ref().is_none_or(|known| known.what != what);
            if news {
                tracing::warn!(what, "the store cannot be written; trying again");
                *trouble = Some(Trouble { since: now, what });
            }
            news
        });
        tokio::select! {
            () = self.clock.sleep(Millis::from_secs(1)) => true,
            () = self.tasks.ending().cancelled_owned() => false,
        }
    }

    pub(crate) fn all_is_well(&self) {
        self.trouble.send_if_modified(|trouble| trouble.take().is_some());
    }
}

/// An error with its causes, as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
