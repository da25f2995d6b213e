//! Child processes: spawn, limit, kill, prove dead. The one place that starts programs.
//!
//! Everything happens on one OS thread that lives as long as the [`ProcessExecutor`] (a parent-death signal is tied to
//! the thread that spawned). It runs a small event loop of its own, so its state needs no locks and no detached work.
//!
//! What holds:
//! - A run is the leader of a process group of its own. **The end of the leader is the end of the run**: what it left in
//!   the background is killed, whether it stayed in the group or left it (`setsid`, double fork).
//! - The leader is reaped only after its group was told to go, so that a signal never hits a number used again; whatever
//!   is signalled by number is our own child, and anything else is reached through a process descriptor.
//! - A report follows only when the group and what left it are gone; a process that the system cannot end (stuck in the
//!   kernel) holds back its report, because "could not be ended" is not "ended".
//! - No output is waited for once the processes are gone: a pipe that somebody else holds open ends nothing.
//! - Memory per run is bounded, whatever it prints, and a log that cannot be written never blocks the program.
//!
//! What it must never do: kill by name, kill without proof, give two reports, decide anything.
//!
//! Limits: what left the group **and** cleared its environment **and** lost its parent is attributed by elimination, so
//! it may outlive its run until all runs that could own it have ended. One executor per process: what is re-parented to
//! this process is taken as the executor's, except for members of our own process group. Needs Linux 5.4 (process
//! descriptors) with `/proc/PID/task/TID/children`.
//!
//! A report may reach [`orc_ports::executor::Reports`] before the caller of `start` has seen its answer.
//!
//! Where to go next: `supervisor` (the loop), `supervise` (one run from start to report), `family` (who belongs to whom).

mod base64;
mod boxed;
mod disk;
pub mod egress;
mod family;
mod groups;
pub mod hands;
mod input;
pub mod inside;
mod launch;
mod log;
mod passing;
mod proc;
pub mod protocol;
mod reap;
mod redact;
pub mod relay;
pub mod sandbox;
mod sockets;
mod supervise;
mod supervisor;
pub mod voice;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::run::Process;
use orc_domain::time::Millis;
use orc_ports::clock::Clock;
use orc_ports::executor::{Executor, Launch, ReapError, Reaped, Reports, StartError};
use tokio::sync::{mpsc, oneshot};

use crate::sandbox::{Missing, Sandbox};
use crate::supervisor::{Command, Settings};

/// Why an executor cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No thread.
    #[error("cannot start the thread that owns the processes")]
    Thread {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No event loop or no signal of ended children.
    #[error("cannot listen for the end of processes")]
    Events {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The system will not hand over processes that lost their parent.
    #[error("cannot become the parent of processes that lost theirs (PR_SET_CHILD_SUBREAPER)")]
    Subreaper {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Core dumps, which would hold what a program knew, cannot be turned off.
    #[error("cannot turn off core dumps")]
    CoreDumps {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The list of our children cannot be read.
    #[error("cannot read `{file}`; /proc must be mounted and the kernel built with CONFIG_PROC_CHILDREN")]
    Children {
        /// Which file.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Runs steps as processes of this machine.
///
/// Made once per process. [`ProcessExecutor::close`] ends what is left and waits for it; dropping ends it too, without
/// waiting. Both still give each run its report.
#[derive(Debug)]
pub struct ProcessExecutor {
    commands: mpsc::UnboundedSender<Command>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ProcessExecutor {
    /// Starts the thread, makes this process the parent of whatever loses its own, and turns off core dumps for it and
    /// everything it starts.
    ///
    /// `clock` stamps the lines of logs and measures grace times. `reports` is called on the executor's thread.
    ///
    /// # Errors
    /// When the system refuses one of these.
    pub fn new(instance: InstanceId, clock: Arc<dyn Clock>, reports: Reports) -> Result<Self, SetupError> {
        Self::with_boxes(instance, clock, reports, Err(Vec::new()))
    }

    /// The same with boxes; a run that needs one where there are none is refused with what is missing.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_boxes(
        instance: InstanceId,
        clock: Arc<dyn Clock>,
        reports: Reports,
        sandbox: Result<Sandbox, Vec<Missing>>,
    ) -> Result<Self, SetupError> {
        // Unbounded, because `stop` may not wait; what arrives is bounded by the runs that the caller admits.
        let (commands, inbox) = mpsc::unbounded_channel();
        let (ready, made) = std::sync::mpsc::sync_channel(1);
        let sandbox = sandbox.map_err(|missing| {
            let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
            if lines.is_empty() { "this executor was made without boxes".to_owned() } else { lines.join("; ") }
        });
        let settings = Settings { instance, clock, reports, sandbox };
        let thread = std::thread::Builder::new()
            .name("processes".to_owned())
            .spawn(move || supervisor::run(settings, inbox, &ready))
            .map_err(|source| SetupError::Thread { source })?;
        match made.recv() {
            Ok(Ok(())) => Ok(Self { commands, thread: Mutex::new(Some(thread)) }),
            Ok(Err(error)) => Err(error),
            Err(ended) => Err(SetupError::Thread { source: io::Error::other(ended) }),
        }
    }
}

impl Executor for ProcessExecutor {
    /// Asking again for a run that is live starts nothing and returns its process. Dropping the answer undoes nothing.
    fn start(&self, launch: Launch) -> BoxFuture<'_, Result<Process, StartError>> {
        let (reply, answer) = oneshot::channel();
        // Sent before the future is polled, so that a `stop` that is called next arrives after it.
        let sent = self.commands.send(Command::Start { launch: Box::new(launch), reply });
        async move {
            sent.map_err(|_| StartError::Closed)?;
            answer.await.map_err(|_| StartError::Closed)?
        }
        .boxed()
    }

    fn stop(&self, run: RunId, grace: Millis) {
        // An executor that has ended has no runs.
        let _ = self.commands.send(Command::Stop { run, grace });
    }

    /// Kills every run that is left, waits until all of them are reported, and ends the thread. Whoever wants a grace
    /// time stops the runs first. Calling it again does nothing.
    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            let (done, ended) = oneshot::channel();
            if self.commands.send(Command::Close { done }).is_ok() {
                // An error means that the thread has ended already, which is what we wait for.
                let _ = ended.await;
            }
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if thread.is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("the thread that owns the processes panicked");
            }
        }
        .boxed()
    }

    fn reap(&self, dead: Vec<InstanceId>) -> BoxFuture<'_, Result<Vec<Reaped>, ReapError>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(Command::Reap { dead, reply });
        async move {
            let closed = |_| ReapError::Processes { source: io::Error::other(StartError::Closed) };
            sent.map_err(|_| closed(()))?;
            answer.await.map_err(|_| closed(()))?
        }
        .boxed()
    }
}

/// This process, as a run that lives in it names it.
#[must_use]
pub fn own_process(instance: InstanceId) -> Process {
    let pid = rustix::process::getpid().as_raw_pid();
    // Without `/proc` nothing of the executor works; here it only means that nobody can tell this process from a later one.
    let start_ticks = proc::stat(pid).map_or(0, |stat| stat.start_ticks);
    Process { pid, start_ticks, instance }
}

/// The command line of a tool host in a box: our own executable, which every box has.
#[must_use]
pub fn tool_host() -> Vec<String> {
    [sandbox::line::EXECUTABLE, "tool-host"].map(str::to_owned).to_vec()
}
