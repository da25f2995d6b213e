//! The thread that owns the processes: its event loop and what the runs on it share.
//!
//! The runs are futures of this loop, not tasks, so that none is detached and nothing here needs a lock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use orc_domain::ids::{InstanceId, RunId};
use orc_domain::run::Process;
use orc_domain::time::Millis;
use orc_ports::clock::Clock;
use orc_ports::executor::{Launch, ReapError, Reaped, Report, Reports, StartError};
use rustix::process::{Resource, Rlimit, getpid, getrlimit, set_child_subreaper, setrlimit};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::SetupError;
use crate::disk::Disk;
use crate::egress::Proxies;
use crate::family::{Family, open_arrivals};
use crate::sandbox::{Porter, Sandbox};
use crate::sockets::Sockets;
use crate::{reap, supervise};

/// Bytes that one read may bring: what a pipe holds by default.
const READ_BYTES: usize = 64 * 1024;

/// What an executor is made of.
pub(crate) struct Settings {
    pub(crate) instance: InstanceId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) reports: Reports,
    /// Makes boxes; else why there are none.
    pub(crate) sandbox: Result<Sandbox, String>,
}

/// What the thread is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Start { launch: Box<Launch>, reply: oneshot::Sender<Result<Process, StartError>> },
    Stop { run: RunId, grace: Millis },
    Reap { dead: Vec<InstanceId>, reply: oneshot::Sender<Result<Vec<Reaped>, ReapError>> },
    Close { done: oneshot::Sender<()> },
}

/// What the runs share; never borrowed across an await.
pub(crate) struct Shared {
    pub(crate) instance: InstanceId,
    pub(crate) instance_name: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sandbox: Result<Sandbox, String>,
    pub(crate) proxies: Proxies,
    pub(crate) sockets: Sockets,
    pub(crate) disk: Disk,
    pub(crate) porter: RefCell<Porter>,
    pub(crate) family: RefCell<Family>,
    pub(crate) buffer: RefCell<Vec<u8>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("instance", &self.instance).finish_non_exhaustive()
    }
}

/// A run that has no report yet.
struct Live {
    process: Process,
    stops: mpsc::UnboundedSender<Millis>,
}

/// Something that ends on the loop.
enum Done {
    Run(Report, Option<Reports>),
    /// Its program never began; whoever asked for it knows.
    NotStarted(RunId),
    Other,
}

/// Everything on the thread.
struct Supervisor {
    shared: Rc<Shared>,
    reports: Reports,
    live: BTreeMap<RunId, Live>,
    work: FuturesUnordered<LocalBoxFuture<'static, Done>>,
    /// Set once nothing new may start; who waits for the end.
    closing: Option<Vec<oneshot::Sender<()>>>,
}

/// The body of the thread; says through `ready` whether it could be set up.
pub(crate) fn run(
    settings: Settings,
    inbox: mpsc::UnboundedReceiver<Command>,
    ready: &SyncSender<Result<(), SetupError>>,
) {
    let instance_name = settings.instance.to_string();
    // Nobody hears `ready` if the caller is gone; the loop then finds its inbox closed and ends.
    match set_up(&instance_name) {
        Err(error) => {
            let _ = ready.send(Err(error));
        }
        Ok((runtime, ended, family)) => {
            let shared = Shared {
                instance: settings.instance,
                instance_name,
                clock: settings.clock,
                sandbox: settings.sandbox,
                proxies: Proxies::default(),
                sockets: Sockets::default(),
                disk: Disk::default(),
                porter: RefCell::default(),
                family: RefCell::new(family),
                buffer: RefCell::new(vec![0; READ_BYTES]),
            };
            let supervisor = Supervisor {
                shared: Rc::new(shared),
                reports: settings.reports,
                live: BTreeMap::new(),
                work: FuturesUnordered::new(),
                closing: None,
            };
            let _ = ready.send(Ok(()));
            runtime.block_on(supervisor.run(inbox, ended));
        }
    }
}

/// The event loop, the signal that a child ended, and what is known of children.
fn set_up(instance: &str) -> Result<(Runtime, Signal, Family), SetupError> {
    let events = |source| SetupError::Events { source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(events)?;
    let ended = {
        let _context = runtime.enter();
        signal(SignalKind::child()).map_err(events)?
    };
    let arrivals = open_arrivals().map_err(|(file, source)| SetupError::Children { file, source })?;
    set_child_subreaper(Some(getpid())).map_err(|error| SetupError::Subreaper { source: error.into() })?;
    // For ourselves, so that children have it from their first instruction and no call is needed for each of them.
    let limit = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    setrlimit(Resource::Core, limit).map_err(|error| SetupError::CoreDumps { source: error.into() })?;
    Ok((runtime, ended, Family::new(instance.to_owned(), arrivals)))
}

impl Supervisor {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>, mut ended: Signal) {
        loop {
            tokio::select! {
                command = inbox.recv(), if self.closing.is_none() || !inbox.is_closed() => match command {
                    Some(command) => self.handle(command),
                    None => self.abandon(),
                },
                Some(done) = self.work.next() => self.finish(done),
                Some(()) = ended.recv() => self.shared.family.borrow_mut().sweep(),
            }
            if self.closing.is_some() && self.work.is_empty() {
                break;
            }
        }
        inbox.close();
        for done in self.closing.into_iter().flatten() {
            // Whoever asked may have stopped waiting.
            let _ = done.send(());
        }
    }

    fn handle(&mut self, command: Command) {
        // A reply that nobody waits for any more changes nothing: a run gives its report in any case.
        match command {
            Command::Start { launch, reply } => self.start(*launch, reply),
            Command::Stop { run, grace } => {
                if let Some(live) = self.live.get(&run) {
                    let _ = live.stops.send(grace);
                }
            }
            Command::Reap { dead, reply } => {
                let shared = Rc::clone(&self.shared);
                self.work.push(Box::pin(async move {
                    let _ = reply.send(reap::reap(&dead, &shared).await);
                    Done::Other
                }));
            }
            Command::Close { done } => {
                self.close();
                self.closing.get_or_insert_default().push(done);
            }
        }
    }

    fn start(&mut self, launch: Launch, reply: oneshot::Sender<Result<Process, StartError>>) {
        let (run, hosting) = (launch.run, launch.host.clone());
        let known = self.live.get(&run).map(|live| live.process.clone());
        let started = match (&self.closing, known) {
            (Some(_), _) => Err(StartError::Closed),
            (None, Some(process)) => {
                // Asked again; nobody waits any more for the first answer.
                let _ = reply.send(Ok(process));
                return;
            }
            (None, None) => supervise::start(launch, &self.shared),
        };
        let (process, supervised) = match started {
            Ok(started) => started,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        // Unbounded: each message is a person or an alarm asking again.
        let (stops, asked) = mpsc::unbounded_channel();
        self.live.insert(run, Live { process: process.clone(), stops });
        self.work.push(Box::pin(async move {
            match supervised.run(asked, (process, reply)).await {
                Some(report) => Done::Run(report, hosting.map(|hosting| hosting.report)),
                None => Done::NotStarted(run),
            }
        }));
    }

    fn finish(&mut self, done: Done) {
        match done {
            Done::Run(report, own) => {
                self.live.remove(&report.run);
                own.as_ref().unwrap_or(&self.reports)(report);
            }
            Done::NotStarted(run) => drop(self.live.remove(&run)),
            Done::Other => {}
        }
    }

    fn close(&mut self) {
        self.closing.get_or_insert_default();
        for live in self.live.values() {
            let _ = live.stops.send(Millis::ZERO);
        }
    }

    /// The executor was dropped.
    fn abandon(&mut self) {
        if !self.live.is_empty() {
            tracing::warn!(runs = self.live.len(), "the executor is gone; the runs that are left are killed");
        }
        self.close();
    }
}
