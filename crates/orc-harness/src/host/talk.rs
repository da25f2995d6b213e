//! One host from its start to its report: calls go in, answers come out in any order.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use orc_domain::time::Millis;
use orc_ports::clock::Clock;
use orc_ports::executor::{Executor, Exit, Hosting, Launch, Report};
use orc_process::protocol::{self, Answer, Call, CallLimits, Content, Frames, Outcome, Request, Tool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::{IDLE, IDLE_AT_FIRST};
use crate::place::Progress;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// What is asked for.
pub(super) struct Asked {
    pub(super) tool: Tool,
    pub(super) cwd: PathBuf,
    pub(super) deadline: Option<u64>,
    pub(super) limits: CallLimits,
    pub(super) progress: Progress,
}

/// Where the answer comes.
pub(super) struct Answering {
    pub(super) id: u64,
    pub(super) reply: oneshot::Receiver<Result<Outcome, String>>,
}

enum Order {
    Call(Box<Asked>, u64, oneshot::Sender<Result<Outcome, String>>),
    Cancel(u64),
    Leave,
}

/// Ends a host with everything in its box.
type Kill = Arc<dyn Fn() + Send + Sync>;

/// A host that lives, or has lived.
#[derive(Clone)]
pub(super) struct Talk {
    orders: mpsc::UnboundedSender<Order>,
    next: Arc<AtomicU64>,
    over: watch::Receiver<Option<Option<Report>>>,
    kill: Kill,
}

impl Talk {
    /// Starts a host. `Err` says why there is none.
    pub(super) async fn begin(
        launch: &Launch,
        executor: &Arc<dyn Executor>,
        clock: &Arc<dyn Clock>,
        tracker: &TaskTracker,
    ) -> Result<Self, String> {
        let no_socket = |error: std::io::Error| format!("no socket for what does its tools: {error}");
        let (ours, theirs) = StdStream::pair().map_err(no_socket)?;
        ours.set_nonblocking(true).map_err(no_socket)?;
        let socket = UnixStream::from_std(ours).map_err(no_socket)?;
        let (told, report) = oneshot::channel();
        let told = Mutex::new(Some(told));
        let hosting = Hosting {
            socket: Arc::new(OwnedFd::from(theirs)),
            report: Arc::new(move |report| {
                if let Some(told) = told.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    // Whoever wanted to know has been told otherwise.
                    let _ = told.send(report);
                }
            }),
        };
        let run = launch.run;
        let launch = Launch {
            argv: orc_process::tool_host(),
            log: launch.log.with_extension("host.jsonl"),
            stdin: None,
            tap: None,
            host: Some(hosting),
            ..launch.clone()
        };
        executor.start(launch).await.map_err(|error| with_causes(&error))?;
        let (orders, inbox) = mpsc::unbounded_channel();
        let (over_sender, over) = watch::channel(None);
        let talking = Talking { socket, frames: Frames::default(), open: BTreeMap::new(), shells: 0, was_used: false };
        let (clock, executor) = (Arc::clone(clock), Arc::clone(executor));
        let kill: Kill = Arc::new(move || executor.stop(run, Millis::ZERO));
        let kill_it = Arc::clone(&kill);
        drop(tracker.spawn(async move {
            let report = talking.run(inbox, report, &*clock, &kill_it).await;
            over_sender.send_replace(Some(report));
        }));
        Ok(Self { orders, next: Arc::new(AtomicU64::new(1)), over, kill })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.over.borrow().is_none() && !self.orders.is_closed()
    }

    pub(super) fn call(&self, asked: Asked) -> Answering {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        // When it is gone the reply is dropped, which is an answer too.
        let _ = self.orders.send(Order::Call(Box::new(asked), id, reply));
        Answering { id, reply: answer }
    }

    /// Asks a call to end; a second time it is ended.
    pub(super) fn cancel(&self, id: u64) {
        let _ = self.orders.send(Order::Cancel(id));
    }

    /// Lets it go once nothing is open.
    pub(super) fn leave(&self) {
        let _ = self.orders.send(Order::Leave);
    }

    /// Ends it, with everything in its box.
    pub(super) fn kill(&self) {
        (self.kill)();
    }

    /// Its report, once it is gone; none when nobody could tell.
    pub(super) async fn over(&self) -> Option<Report> {
        let mut over = self.over.clone();
        over.wait_for(Option::is_some).await.ok().and_then(|report| report.clone().flatten())
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

type Open = (oneshot::Sender<Result<Outcome, String>>, Progress);

/// The side of it that talks.
struct Talking {
    socket: UnixStream,
    frames: Frames,
    open: BTreeMap<u64, Open>,
    /// Shells that run in the background.
    shells: u32,
    /// A tool was used.
    was_used: bool,
}

impl Talking {
    /// Until its report has come.
    async fn run(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<Order>,
        mut report: oneshot::Receiver<Report>,
        clock: &dyn Clock,
        kill: &Kill,
    ) -> Option<Report> {
        let mut chunk = vec![0; CHUNK];
        let mut leaves = false;
        let broken = loop {
            let idle = self.open.is_empty() && self.shells == 0 && !leaves;
            let patience = async {
                match idle {
                    true if self.was_used => clock.sleep(IDLE).await,
                    true => clock.sleep(IDLE_AT_FIRST).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = &mut report => return self.lose(ended.ok()),
                read = self.socket.read(&mut chunk) => match read {
                    Ok(0) => break "it closed its end".to_owned(),
                    Ok(count) => {
                        self.frames.push(&chunk[..count]);
                        if let Err(why) = self.hear() {
                            break why;
                        }
                    }
                    Err(error) => break error.to_string(),
                },
                order = inbox.recv(), if !leaves => {
                    let frame = match order {
                        Some(Order::Call(asked, id, reply)) => self.ask(*asked, id, reply),
                        Some(Order::Cancel(id)) => protocol::encode(&Request::Cancel { id }).ok(),
                        Some(Order::Leave) | None => {
                            leaves = true;
                            protocol::encode(&Request::Bye).ok()
                        }
                    };
                    if let Some(frame) = frame
                        && let Err(error) = self.socket.write_all(&frame).await
                    {
                        break error.to_string();
                    }
                }
                () = patience => {
                    leaves = true;
                    inbox.close();
                    let frame = protocol::encode(&Request::Bye).unwrap_or_default();
                    if let Err(error) = self.socket.write_all(&frame).await {
                        break error.to_string();
                    }
                }
            }
        };
        inbox.close();
        if !leaves {
            tracing::debug!(why = broken, "a tool host cannot be spoken with any more");
            kill();
        }
        let ended = report.await.ok();
        self.lose(ended)
    }

    fn ask(&mut self, asked: Asked, id: u64, reply: oneshot::Sender<Result<Outcome, String>>) -> Option<Vec<u8>> {
        let Asked { tool, cwd, deadline, limits, progress } = asked;
        self.was_used |= matches!(tool, Tool::Use(_));
        match protocol::encode(&Request::Call(Call { id, tool, cwd, deadline, limits })) {
            Ok(frame) => {
                self.open.insert(id, (reply, progress));
                Some(frame)
            }
            Err(error) => {
                let failure = protocol::Failure { what: protocol::Blame::Call, errno: None, why: error.to_string() };
                let _ = reply.send(Ok(Outcome::Failed(failure)));
                None
            }
        }
    }

    /// Everything that has arrived.
    fn hear(&mut self) -> Result<(), String> {
        while let Some(answer) = self.frames.take::<Answer>().map_err(|error| error.to_string())? {
            match answer {
                Answer::Hello { version, .. } if version == protocol::VERSION => {}
                Answer::Hello { version, .. } => return Err(format!("it speaks version {version} of the protocol")),
                Answer::Progress { id, text } => {
                    if let (Some((_, progress)), Some(text)) = (self.open.get(&id), text) {
                        progress(text);
                    }
                }
                Answer::Result { id, outcome, .. } => {
                    let Some((reply, _)) = self.open.remove(&id) else {
                        return Err(format!("it answers a call {id} that nobody made"));
                    };
                    if let Outcome::Content(Content::Used(used)) = &outcome {
                        self.shells = used.shells;
                    }
                    // Whoever asked may not want it any more.
                    let _ = reply.send(Ok(outcome));
                }
                Answer::Violation(_) => {}
                Answer::Error { message } => return Err(message),
            }
        }
        Ok(())
    }

    /// Tells everybody who still waits that it is gone.
    fn lose(&mut self, report: Option<Report>) -> Option<Report> {
        let why = match &report {
            Some(Report { exit: Exit::Code(code), last_line, .. }) if last_line.is_empty() => {
                format!("exit code {code}")
            }
            Some(Report { exit: Exit::Code(code), last_line, .. }) => format!("exit code {code}: {last_line}"),
            Some(Report { exit: Exit::Signal(signal), .. }) => format!("ended by signal {signal}"),
            None => "nobody knows why".to_owned(),
        };
        let refused = report.iter().flat_map(|report| &report.violations).next();
        let why = refused.map_or(why.clone(), |one| format!("{why}; {} refused: {}", one.kind.word(), one.what));
        for (_, (reply, _)) in std::mem::take(&mut self.open) {
            let _ = reply.send(Err(why.clone()));
        }
        report
    }
}
