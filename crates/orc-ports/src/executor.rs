//! Where runs become processes.
//!
//! Contract: [`Executor::start`] either returns the process or an error, never both; after `Ok` exactly one
//! [`Report`] about the run follows, and only once its process group **and** whatever left the group is proven gone.
//! An executor never decides: it does not retry and does not judge an exit status.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use orc_domain::confine::Violation;
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::run::Process;
use orc_domain::time::{Millis, Timestamp};

/// Everything needed to start a process. No choice is left open.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The run, in the environment as `ORC_RUN_ID`: with `ORC_INSTANCE` the nonce by which a left process is recognised.
    pub run: RunId,
    /// Program and arguments; a program without `/` is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// Working directory; in a box, as it is called there.
    pub directory: PathBuf,
    /// The box that it runs in; none: it runs as we do.
    pub confinement: Option<Box<Confinement>>,
    /// Values that no log and no report may show.
    pub secrets: Secrets,
    /// The whole environment; nothing is inherited beside it.
    pub env: BTreeMap<String, String>,
    /// Where its output goes, as [`crate::log::LogLine`]s; made with its parents once there is something to tell.
    pub log: PathBuf,
    /// `$ORC_OUTPUT`: made by the process, in a folder that exists; read after the end and then removed.
    pub output: PathBuf,
    /// `$ORC_TEMP`: made if missing and `argv` names it, kept. A program that names it elsewhere makes it itself.
    pub temp: PathBuf,
    /// Bounds.
    pub limits: Limits,
    /// What it reads from standard input, which then ends; `None` is a standard input that has ended already. A program
    /// that does not read it is not waited for.
    pub stdin: Option<Vec<u8>>,
    /// Hears all of its output, beside the log and whatever the log's bound.
    pub tap: Option<Tap>,
    /// Set for a program that is spoken with: a run may have several of those, one after the other.
    pub host: Option<Hosting>,
}

/// How a program is spoken with.
#[derive(Clone)]
pub struct Hosting {
    /// Its standard input and output; whoever speaks with it holds the other end. Nothing of it goes to log or tap.
    pub socket: Arc<OwnedFd>,
    /// Hears of its end, instead of whoever hears of all others.
    pub report: Reports,
}

impl std::fmt::Debug for Hosting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosting").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// What a box holds: nothing of the machine is there but the system's programs, read-only, and what is listed. In it
/// `$ORC_OUTPUT` is `/orc/run/output` and `$ORC_TEMP` is `/orc/temp`, whatever they are called outside.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// What is mounted, in this order.
    pub mounts: Vec<Mount>,
    /// Its home, a directory of the machine; made if missing, kept. `/orc/home` inside.
    pub home: PathBuf,
    /// Paths inside that are empty and cannot be written, whether they exist or not.
    pub masked: Vec<PathBuf>,
    /// Hosts that it may reach, in the form of [`orc_domain::confine::BoxRules::network`]; empty: there is no network.
    pub network: BTreeSet<String>,
    /// Ways to what listens on the machine, open with and without a network; ports differ.
    pub doors: Vec<Door>,
    /// Bounds.
    pub limits: BoxLimits,
}

/// A way out of a box, to one socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// A unix socket of the machine, on which somebody listens before the box starts. The executor gives it to the box user.
    pub socket: PathBuf,
    /// Where programs inside find it: this port of 127.0.0.1.
    pub port: u16,
}

/// A directory or file of the machine in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// What.
    pub source: Source,
    /// Where inside, absolute.
    pub at: PathBuf,
    /// Whether it may be changed.
    pub writable: bool,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directory or file.
    Path(PathBuf),
    /// A directory made of layers, of which only the topmost changes. Needs root outside the box; one box at a time.
    Layers {
        /// Below, never changed; the topmost first.
        lower: Vec<PathBuf>,
        /// Where changes go.
        upper: PathBuf,
        /// A directory of the file system's own beside `upper`.
        work: PathBuf,
    },
}

/// Bounds of a box; 0 is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxLimits {
    /// Processes and threads at once.
    pub processes: u32,
    /// Bytes of memory of all of them.
    pub memory_bytes: u64,
    /// Bytes that it may write to its copy, home and temporary directories.
    pub disk_bytes: u64,
    /// Descriptors of one process.
    pub open_files: u32,
}

/// Values that are replaced by `***` wherever output goes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Arc<Vec<String>>);

impl Secrets {
    /// The longest first, so that one that holds another goes as a whole; empty ones are dropped.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<String> = values.into_iter().filter(|value| !value.is_empty()).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self(Arc::new(values))
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.0
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// Hears output as it comes, in the order of each stream, on the executor's own thread: it must not block and must not
/// panic. While it works, the program waits. After the report it is not called any more.
#[derive(Clone)]
pub struct Tap(Arc<Hear>);

type Hear = dyn Fn(Stream, &[u8], Timestamp) + Send + Sync;

impl Tap {
    /// Calls `hear` with bytes that were just read.
    pub fn new(hear: impl Fn(Stream, &[u8], Timestamp) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// Passes bytes on.
    pub fn hear(&self, stream: Stream, bytes: &[u8], at: Timestamp) {
        (self.0)(stream, bytes, at);
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tap").finish_non_exhaustive()
    }
}

/// Where output comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Error output.
    Stderr,
}

/// Bounds of one process.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that the log may reach; output beyond them is counted and dropped, but for the last lines.
    pub log_bytes: u64,
    /// Bytes of `$ORC_OUTPUT` that are read.
    pub output_bytes: u64,
}

/// How a process ended, as a fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which run.
    pub run: RunId,
    /// Its exit status.
    pub exit: Exit,
    /// What it wrote to `$ORC_OUTPUT`.
    pub output: OutputFile,
    /// The last non-empty line of its error output, else of its output; at most 500 characters; empty when silent.
    pub last_line: String,
    /// Processes that had left the group and were ended.
    pub escaped: u32,
    /// What its box refused where that can be seen.
    pub violations: Vec<Violation>,
    /// Set when the log could not be written in full: why.
    pub log_error: Option<String>,
}

/// An exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Ended by itself.
    Code(i32),
    /// Ended by a signal.
    Signal(i32),
}

/// The bytes of `$ORC_OUTPUT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputFile {
    /// All of it; empty when the file is missing.
    Bytes(Vec<u8>),
    /// More than may be read.
    TooLarge {
        /// Its length.
        bytes: u64,
    },
    /// It cannot be read.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No such program, or it may not be executed.
    #[error("cannot start `{program}`")]
    Program {
        /// What was looked for.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The working directory is missing or closed to us.
    #[error("cannot work in `{}`", directory.display())]
    Directory {
        /// Which.
        directory: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file of the run (log, output, private directory) cannot be made.
    #[error("cannot make `{}`", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no box to be had, or not this one.
    #[error("cannot make the box: {what}")]
    Box {
        /// What is missing, and what helps.
        what: String,
    },
    /// The machine gives no more processes or descriptors.
    #[error("the machine gives no further process")]
    Exhausted {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The executor has ended.
    #[error("the executor has ended")]
    Closed,
}

/// A process of a dead instance that was found and ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The run whose nonce it carried.
    pub run: RunId,
    /// The instance whose nonce it carried.
    pub instance: InstanceId,
    /// Process ids that were ended.
    pub pids: Vec<i32>,
}

/// Where reports go; called from the executor's own context, must not block.
pub type Reports = Arc<dyn Fn(Report) + Send + Sync>;

/// Starts and ends processes.
pub trait Executor: Send + Sync {
    /// Starts a process; see the contract above.
    fn start(&self, launch: Launch) -> BoxFuture<'_, Result<Process, StartError>>;

    /// Asks a process group to end: TERM, then KILL after `grace` (zero: KILL at once). Asking again with less grace
    /// hurries it. A run that is not known is no error: its report has been given already.
    fn stop(&self, run: RunId, grace: Millis);

    /// Ends every process that is left and waits until all are gone. Nothing starts any more.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Ends what dead instances left: every process whose environment names `ORC_INSTANCE` of one of them. Returns when
    /// all of it is proven gone.
    ///
    /// # Errors
    /// When a process cannot be looked at or does not go.
    fn reap(&self, dead: Vec<InstanceId>) -> BoxFuture<'_, Result<Vec<Reaped>, ReapError>>;
}

/// Why left processes could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum ReapError {
    /// The table of processes cannot be read.
    #[error("cannot read the table of processes")]
    Processes {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It was killed and is still there.
    #[error("process {pid} of {run} does not go")]
    Survivor {
        /// Which process.
        pid: i32,
        /// Which run.
        run: RunId,
    },
}
