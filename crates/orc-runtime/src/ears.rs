//! Listens to runs of agents: bytes go to the adapter's listener as they come, and what matters goes to the flow.
//!
//! A flow hears of its agents now and then, not with each line: when one repeats itself at once, of the rest every
//! [`TOLD_EVERY`]. The end of a run becomes one result, in the words of the adapter, and one ending, in ours.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orc_domain::agent::{AgentOutcome, AgentResult, AgentStop, Statistics, Usage};
use orc_domain::ids::{FlowId, RunId};
use orc_domain::input::{Ending, Input, Signed, Told};
use orc_domain::principal::Principal;
use orc_domain::run::{Cause, ErrorFamily, Failure, StopReason};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::value::Value;
use orc_ports::adapter::{End, Finding, Listener};
use orc_ports::executor::{Exit, Report, Stream, Tap};
use orc_ports::gateway::Gateway;

use crate::models;
use crate::router::What;
use crate::shell::Shell;

/// How often a flow hears that an agent goes on.
const TOLD_EVERY: Millis = Millis::from_secs(5);
/// How long an agent may take to leave after it said that it is done.
const LEAVE_WITHIN: Millis = Millis::from_secs(10);

/// Listens to one run.
pub(crate) struct Ear {
    run: RunId,
    flow: FlowId,
    /// Measures what it uses, if anything does.
    meter: Option<Arc<dyn Gateway>>,
    heard: Mutex<Heard>,
}

struct Heard {
    /// `None` once the run is over.
    listener: Option<Box<dyn Listener>>,
    stopped: Option<AgentStop>,
    told: (Statistics, Usage),
    is_done: bool,
}

impl Ear {
    pub(crate) fn new(
        flow: FlowId,
        run: RunId,
        listener: Box<dyn Listener>,
        meter: Option<Arc<dyn Gateway>>,
    ) -> Arc<Self> {
        let told = (Statistics::default(), Usage::default());
        let heard = Heard { listener: Some(listener), stopped: None, told, is_done: false };
        Arc::new(Self { run, flow, meter, heard: Mutex::new(heard) })
    }

    /// What the executor calls with each piece of output.
    pub(crate) fn tap(self: &Arc<Self>, shell: &Arc<Shell>) -> Tap {
        let (ear, shell) = (Arc::clone(self), Arc::clone(shell));
        Tap::new(move |stream, bytes, at| ear.hear(&shell, stream, bytes, at))
    }

    fn hear(&self, shell: &Shell, stream: Stream, bytes: &[u8], at: Timestamp) {
        let mut heard = self.heard();
        let Some(listener) = &mut heard.listener else { return };
        match listener.hear(stream, bytes, at) {
            Some(Finding::Looping { .. }) => {
                let input = self.progress(&mut heard, true);
                drop(heard);
                self.tell(shell, input);
            }
            Some(Finding::Done) => heard.is_done = true,
            None => {}
        }
    }

    /// Tells the flow now and then how its agent does, and ends one that said it is done and does not go.
    pub(crate) async fn watch(self: Arc<Self>, shell: Arc<Shell>) {
        let ending = shell.tasks.ending();
        let mut done_since: Option<Timestamp> = None;
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                () = shell.clock.sleep(TOLD_EVERY) => {}
            }
            let input = {
                let mut heard = self.heard();
                let Some(listener) = &heard.listener else { return };
                if heard.is_done {
                    let since = *done_since.get_or_insert_with(|| shell.clock.now());
                    if shell.clock.now().since(since) >= LEAVE_WITHIN {
                        shell.stop(self.run, AgentStop::Abort, shell.shape.grace);
                    }
                }
                let news = self.known(listener.as_ref()) != heard.told;
                news.then(|| self.progress(&mut heard, false))
            };
            if let Some(input) = input {
                self.tell(&shell, input);
            }
        }
    }

    fn progress(&self, heard: &mut Heard, looping: bool) -> Input {
        let known = heard.listener.as_ref().map(|listener| self.known(listener.as_ref()));
        let (statistics, usage) = known.unwrap_or_default();
        heard.told = (statistics, usage);
        Input::RunHeard { run: self.run, statistics, usage, looping }
    }

    fn known(&self, listener: &dyn Listener) -> (Statistics, Usage) {
        let told = listener.usage();
        let usage = match &self.meter {
            Some(gateway) => models::measured(gateway.metered(self.run).usage, told),
            None => told,
        };
        (listener.statistics(), usage)
    }

    fn tell(&self, shell: &Shell, input: Input) {
        let signed = Signed { by: Principal::System, input };
        shell.router.send(self.flow, What::Input(Box::new(signed), None));
    }

    /// We asked it to end.
    pub(crate) fn stopped(&self, why: AgentStop) {
        self.heard().stopped.get_or_insert(why);
    }

    /// The process is gone: what came of the run.
    pub(crate) fn finish(&self, report: &Report) -> Option<(Ending, Told)> {
        let mut heard = self.heard();
        let listener = heard.listener.take()?;
        let end = End { exit: report.exit, stopped: heard.stopped };
        Some(ending_of_agent(listener.finish(end), report.exit))
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why we end a run, in the word that its agent hears.
pub(crate) const fn word_of(reason: StopReason) -> AgentStop {
    match reason {
        StopReason::Silence => AgentStop::Silence,
        StopReason::Looping => AgentStop::Looping,
        StopReason::Paused => AgentStop::Paused,
        StopReason::Wall(_) | StopReason::FlowWall(_) => AgentStop::Spend,
        StopReason::Cancel
        | StopReason::FailFast
        | StopReason::FinallyDeadline
        | StopReason::Timeout
        | StopReason::StartDeadline
        | StopReason::Parked(_) => AgentStop::Abort,
    }
}

/// An adapter's result in the words of a flow. The output of an agent that owes none is its last message.
fn ending_of_agent(result: AgentResult, exit: Exit) -> (Ending, Told) {
    let AgentResult { outcome, stop, message, output, usage, statistics } = result;
    let said = message.clone();
    let told = Told { answer: message, usage, stop, statistics };
    let cause = match exit {
        Exit::Code(0) => Cause::Reported,
        Exit::Code(code) => Cause::Exit(code),
        Exit::Signal(signal) => Cause::Signal(signal),
    };
    let ending = match outcome {
        AgentOutcome::Delivered => {
            let said = || Value::text(said.unwrap_or_default()).tainted();
            // Whatever an agent says is text from outside.
            let output = output.map(Value::tainted);
            let output = output.unwrap_or_else(|| Value::Map([("message".to_owned(), said())].into()));
            Ending::Delivered { output }
        }
        AgentOutcome::NoDeliverable { missing } => Ending::NoDeliverable { missing },
        AgentOutcome::Blocked { why, call, .. } => Ending::Blocked { why, call },
        AgentOutcome::Failed { family, why } => Ending::Failed(Failure { family, cause, detail: why }),
        AgentOutcome::Cancelled => {
            Ending::Failed(Failure { family: ErrorFamily::Unknown, cause, detail: String::new() })
        }
    };
    (ending, told)
}
