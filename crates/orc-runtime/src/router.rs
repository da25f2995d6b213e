//! How a message finds its flow: from an executor's report to the run's flow, and from there to the loop that owns it.
//!
//! Every message is stamped when it arrives: a flow decides it later, together with others, and must not take that for the
//! time at which it happened. Of one run the start is told before the end, in whichever order they become known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orc_domain::ids::{FlowId, RunId};
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::time::Timestamp;
use orc_ports::clock::Clock;
use orc_ports::executor::Reports;
use tokio::sync::{mpsc, oneshot};

use crate::dispatcher::Heard;
use crate::ears::Ear;
use crate::endings::ending_of;

/// What a flow's loop is sent, and when it arrived.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) at: Timestamp,
    pub(crate) what: What,
}

/// What a flow's loop is sent.
#[derive(Debug)]
pub(crate) enum What {
    /// Something it must hear, and who waits for the outcome.
    Input(Box<Signed>, Option<oneshot::Sender<Heard>>),
    /// A slot may be free.
    Look,
}

impl What {
    /// The same without anybody who waits for an answer.
    pub(crate) fn unanswered(&self) -> Self {
        match self {
            Self::Input(signed, _) => Self::Input(signed.clone(), None),
            Self::Look => Self::Look,
        }
    }
}

impl Message {
    /// Whether nothing waits for it to be committed.
    pub(crate) const fn is_patient(&self) -> bool {
        let What::Input(signed, None) = &self.what else { return false };
        matches!(signed.input, Input::RunStarted { .. } | Input::RunHeard { looping: false, .. })
    }
}

/// A run whose report is still to come, or has come before its start was known.
struct Expected {
    flow: FlowId,
    is_started: bool,
    early: Option<(Timestamp, Input)>,
    /// Listens to it, if it is an agent's.
    ear: Option<Arc<Ear>>,
}

/// See the module. Made before the executor, which reports into it.
pub struct Router {
    clock: Arc<dyn Clock>,
    loops: Mutex<BTreeMap<FlowId, mpsc::UnboundedSender<Message>>>,
    runs: Mutex<BTreeMap<RunId, Expected>>,
}

impl Router {
    /// A router that knows no flow yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, loops: Mutex::default(), runs: Mutex::default() }
    }

    /// Where an executor gives its reports.
    #[must_use]
    pub fn reports(self: &Arc<Self>) -> Reports {
        let router = Arc::clone(self);
        Arc::new(move |report| {
            if let Some(error) = &report.log_error {
                tracing::warn!(run = %report.run, error, "the log of a run is not complete");
            }
            let told = router.ear(report.run).and_then(|ear| ear.finish(&report));
            let (ending, told) = match told {
                Some((ending, told)) => (ending, Some(told)),
                None => (ending_of(&report), None),
            };
            if !report.violations.is_empty() {
                let input = Input::RunViolated { run: report.run, violations: report.violations.clone() };
                router.violated(report.run, input);
            }
            router.ended(report.run, Input::RunEnded { run: report.run, ending, told });
        })
    }

    /// Its box refused something. A flow hears of it before the end, which comes next.
    fn violated(&self, run: RunId, input: Input) {
        let flow = lock(&self.runs).get(&run).map(|expected| expected.flow);
        if let Some(flow) = flow {
            self.deliver(flow, self.clock.now(), input);
        }
    }

    fn ended(&self, run: RunId, input: Input) {
        let at = self.clock.now();
        let mut runs = lock(&self.runs);
        match runs.get_mut(&run) {
            Some(expected) if !expected.is_started => expected.early = Some((at, input)),
            Some(expected) => {
                let flow = expected.flow;
                runs.remove(&run);
                self.deliver(flow, at, input);
            }
            None => tracing::error!(%run, "a process ended that no flow has started"),
        }
    }

    /// A run is about to be started.
    pub(crate) fn expect_report(&self, run: RunId, flow: FlowId, ear: Option<Arc<Ear>>) {
        lock(&self.runs).insert(run, Expected { flow, is_started: false, early: None, ear });
    }

    /// Who listens to a live run of an agent.
    pub(crate) fn ear(&self, run: RunId) -> Option<Arc<Ear>> {
        lock(&self.runs).get(&run).and_then(|expected| expected.ear.clone())
    }

    /// Its process exists: tells the start, and the end if that is known already.
    pub(crate) fn started(&self, run: RunId, input: Input) {
        let at = self.clock.now();
        let mut runs = lock(&self.runs);
        let Some(expected) = runs.get_mut(&run) else { return };
        let flow = expected.flow;
        expected.is_started = true;
        let early = expected.early.take();
        // The start cannot have been later than the end, whenever we came to know of it.
        let began = early.as_ref().map_or(at, |(ended, _)| at.min(*ended));
        self.deliver(flow, began, input);
        if let Some((ended, input)) = early {
            runs.remove(&run);
            self.deliver(flow, ended, input);
        }
    }

    /// It has no process: no report will come.
    pub(crate) fn not_started(&self, run: RunId, input: Input) {
        if let Some(expected) = lock(&self.runs).remove(&run) {
            self.deliver(expected.flow, self.clock.now(), input);
        }
    }

    /// Sends an input of ours. A flow that has ended needs none.
    pub(crate) fn deliver(&self, flow: FlowId, at: Timestamp, input: Input) {
        let what = What::Input(Box::new(Signed { by: Principal::System, input }), None);
        self.push(flow, Message { at, what });
    }

    /// False when the flow is not being carried on.
    pub(crate) fn send(&self, flow: FlowId, what: What) -> bool {
        self.push(flow, Message { at: self.clock.now(), what })
    }

    fn push(&self, flow: FlowId, message: Message) -> bool {
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

    pub(crate) fn close(&self, flow: FlowId) {
        lock(&self.loops).remove(&flow);
    }

    /// Closes the inbox of a flow if nothing is in it; else gives what is.
    pub(crate) fn close_if_empty(&self, flow: FlowId, inbox: &mut mpsc::UnboundedReceiver<Message>) -> Option<Message> {
        // Whoever sends holds this lock too, so that nothing arrives in between.
        let mut loops = lock(&self.loops);
        let message = inbox.try_recv().ok();
        if message.is_none() {
            loops.remove(&flow);
        }
        message
    }

    /// Whether a flow is in memory.
    pub(crate) fn carries(&self, flow: FlowId) -> bool {
        lock(&self.loops).contains_key(&flow)
    }

    pub(crate) fn flows(&self) -> Vec<FlowId> {
        lock(&self.loops).keys().copied().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves maps of ids as they were: nothing in them is ever half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use orc_domain::ids::InstanceId;
    use orc_domain::run::Process;
    use orc_domain::time::Millis;
    use orc_ports::executor::{Exit, OutputFile, Report};
    use std::sync::atomic::{AtomicI64, Ordering};
    use uuid::Uuid;

    /// Every look at it is a millisecond later.
    #[derive(Default)]
    struct Ticking(AtomicI64);

    impl Clock for Ticking {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
        }

        fn sleep(&self, _: Millis) -> BoxFuture<'static, ()> {
            std::future::ready(()).boxed()
        }
    }

    #[test]
    fn the_start_is_told_before_the_end_and_both_with_their_times() {
        let (run, flow) = (RunId::from_uuid(Uuid::from_u128(1)), FlowId::from_uuid(Uuid::from_u128(2)));
        let instance = InstanceId::from_uuid(Uuid::from_u128(3));
        let report = || Report {
            run,
            exit: Exit::Code(0),
            output: OutputFile::Bytes(Vec::new()),
            last_line: String::new(),
            escaped: 0,
            violations: Vec::new(),
            log_error: None,
        };
        let started = || Input::RunStarted { run, process: Process { pid: 4, start_ticks: 5, instance } };
        for early in [true, false] {
            let router = Arc::new(Router::new(Arc::new(Ticking::default())));
            let mut inbox = router.open(flow).unwrap();
            router.expect_report(run, flow, None);
            if early {
                router.reports()(report());
                assert!(inbox.try_recv().is_err(), "the end waits for the start");
                router.started(run, started());
            } else {
                router.started(run, started());
                router.reports()(report());
            }
            let heard: Vec<Message> = std::iter::from_fn(|| inbox.try_recv().ok()).collect();
            assert!(heard[0].is_patient() && !heard[1].is_patient() && heard.len() == 2);
            assert!(heard[0].at <= heard[1].at, "early: {early}");
        }
    }
}
