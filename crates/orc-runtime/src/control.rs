//! The control socket: how other processes speak to the holder of a data directory.
//!
//! One request per connection, as one line of JSON; answers are lines of JSON, the last one says that it is the last. The
//! socket is readable by its owner only, and the peer's user id is the principal of what it asks.

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orc_domain::event::Event;
use orc_domain::flow::{FlowSpec, FlowState};
use orc_domain::graph::Pipeline;
use orc_domain::hold::HoldReason;
use orc_domain::ids::{FlowId, MessageId};
use orc_domain::input::{Input, Signed};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::time::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::data_dir::Holder;
use crate::dispatcher::{Definition, Definitions, Dispatcher, DispatcherError, Heard, Reply};
use crate::follow::{Follower, Seen};
use crate::shell::chain;

/// Bytes of a request: a compiled pipeline with its source and inputs fits many times over.
const MAX_REQUEST: u64 = 64 * 1024 * 1024;
/// A follower is told that nothing happens after this time, which also finds out that it is gone.
const QUIET: Millis = Millis::from_secs(5);

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Who holds the directory.
    Hello,
    /// What the holder does at this moment.
    Status,
    /// Start a flow and carry it on.
    Submit {
        /// What to start.
        spec: Box<FlowSpec>,
        /// Its definition.
        pipeline: Box<Pipeline>,
        /// Its text, for people.
        source: String,
        /// Those of its children, and of theirs.
        children: Vec<Definition>,
    },
    /// End a flow.
    Cancel {
        /// Which.
        flow: FlowId,
        /// At once.
        force: bool,
    },
    /// Answer a request.
    Answer(Reply),
    /// Let nothing more of a flow, or of one of its steps, start.
    Pause {
        /// Which.
        flow: FlowId,
        /// The step; none: all of it.
        step: Option<StepPath>,
        /// Why; may be empty.
        note: String,
        /// When it ends by itself.
        until: Option<Timestamp>,
    },
    /// Let it go on.
    Unpause {
        /// Which.
        flow: FlowId,
        /// The step; none: all of it.
        step: Option<StepPath>,
    },
    /// Write to the agent of a step.
    Message {
        /// Which flow.
        flow: FlowId,
        /// The step.
        path: StepPath,
        /// The message's id; the same twice is heard once.
        id: MessageId,
        /// The text.
        text: String,
    },
    /// Carry an unfinished flow on.
    Resume {
        /// Which.
        flow: FlowId,
    },
    /// Give a flow's events until it is over.
    Follow {
        /// Which.
        flow: FlowId,
        /// From the event after this position.
        after: u64,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// To `Hello`; the last line.
    Holder(Holder),
    /// To `Status`; the last line.
    Status {
        /// Flows that it carries on, in order.
        flows: Vec<FlowId>,
        /// Runs that it may have at the same time.
        slots: u32,
        /// What keeps it from going on.
        trouble: Option<String>,
    },
    /// It is done; the last line.
    Done,
    /// To `Cancel`; the last line.
    Heard {
        /// Whether it changed anything.
        changed: bool,
        /// Where the flow stands now.
        state: FlowState,
    },
    /// To `Follow`: an event.
    Event(Box<Event>),
    /// To `Follow`: what keeps the holder from going on, or that nothing does any more.
    Trouble(Option<String>),
    /// To `Follow`: nothing happened for a while.
    Quiet,
    /// To `Follow`: the flow is over; the last line.
    End,
    /// No flow is taken any more, because the holder is about to end; the last line.
    Ending,
    /// It cannot be done; the last line.
    Error {
        /// Why.
        message: String,
        /// There is no such flow or request.
        unknown: bool,
        /// They may not.
        refused: bool,
    },
}

/// Why the socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It cannot be opened for others.
    #[error("cannot listen on `{}`", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Nobody answers.
    #[error("cannot reach the holder of the data directory on `{}`", path.display())]
    Connect {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It broke off.
    #[error("the holder of the data directory broke off")]
    Broken {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The other side does not speak our protocol.
    #[error("the holder of the data directory gave an answer that cannot be read")]
    Garbled {
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Opens the socket and answers on it until the program ends.
///
/// # Errors
/// [`ControlError::Listen`].
pub fn listen(dispatcher: &Dispatcher, path: &Path, holder: Holder) -> Result<(), ControlError> {
    let fail = |source| ControlError::Listen { path: path.to_owned(), source };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    let listener = with_short_path(path, |short| UnixListener::bind(short)).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
    let served = dispatcher.clone();
    dispatcher.tasks().spawn("control", async move {
        let ending = served.tasks().ending();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = ending.cancelled() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (dispatcher, holder) = (served.clone(), holder.clone());
                    let ending = served.tasks().ending();
                    served.tasks().spawn("control connection", async move {
                        tokio::select! {
                            () = answer(&dispatcher, &holder, stream) => {}
                            () = ending.cancelled() => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the control socket failed");
                    served.clock().sleep(Millis::from_millis(100)).await;
                }
            }
        }
    });
    Ok(())
}

async fn answer(dispatcher: &Dispatcher, holder: &Holder, stream: UnixStream) {
    let by = match stream.peer_cred() {
        Ok(peer) => Principal::Os(peer.uid()),
        Err(error) => return tracing::warn!(%error, "a peer of the control socket has no user"),
    };
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(read.take(MAX_REQUEST)).read_line(&mut line).await.is_err() {
        return;
    }
    let response = match serde_json::from_str::<Request>(&line) {
        Ok(Request::Follow { flow, after }) => follow(dispatcher, flow, after, &mut write).await,
        Ok(request) => Some(carry_out(dispatcher, holder, by, request).await),
        Err(error) => {
            Some(Response::Error { message: format!("not a request: {error}"), unknown: false, refused: false })
        }
    };
    if let Some(response) = response {
        // Whoever asked may have gone; what they asked for is done.
        let _ = say(&mut write, &response).await;
    }
}

async fn carry_out(dispatcher: &Dispatcher, holder: &Holder, by: Principal, request: Request) -> Response {
    let done = match request {
        Request::Hello => return Response::Holder(holder.clone()),
        Request::Status => {
            let trouble = dispatcher.trouble().borrow().as_ref().map(|trouble| trouble.what.clone());
            return Response::Status { flows: dispatcher.flows(), slots: dispatcher.slots(), trouble };
        }
        Request::Follow { .. } => Ok(()),
        Request::Submit { spec, pipeline, source, children } => {
            let spec = FlowSpec { requested_by: by, ..*spec };
            dispatcher.submit(spec, Definitions { pipeline: Arc::from(pipeline), source, children }).await
        }
        Request::Resume { flow } => dispatcher.resume(flow).await,
        Request::Answer(reply) => return heard(dispatcher.answer(by, reply).await),
        Request::Cancel { flow, force } => {
            return heard(dispatcher.send(flow, Signed { by, input: Input::Cancel { force } }).await);
        }
        Request::Pause { flow, step, note, until } => {
            let input = Input::Hold { step, reason: HoldReason::Paused, note, until };
            return heard(dispatcher.send(flow, Signed { by, input }).await);
        }
        Request::Unpause { flow, step } => {
            let input = Input::Lift { step, reason: HoldReason::Paused };
            return heard(dispatcher.send(flow, Signed { by, input }).await);
        }
        Request::Message { flow, path, id, text } => {
            return heard(dispatcher.send(flow, Signed { by, input: Input::Message { path, id, text } }).await);
        }
    };
    said(done)
}

fn heard(heard: Result<Heard, DispatcherError>) -> Response {
    match heard {
        Ok(Heard { changed, state }) => Response::Heard { changed, state },
        Err(error) => said(Err(error)),
    }
}

fn said(done: Result<(), DispatcherError>) -> Response {
    match done {
        Ok(()) => Response::Done,
        Err(DispatcherError::Ending) => Response::Ending,
        Err(error) => {
            let unknown = matches!(error, DispatcherError::Unknown(_) | DispatcherError::NoRequest(_));
            let refused = matches!(error, DispatcherError::Answer(_) | DispatcherError::MayNot(_));
            Response::Error { message: chain(&error), unknown, refused }
        }
    }
}

async fn follow(
    dispatcher: &Dispatcher,
    flow: FlowId,
    after: u64,
    write: &mut (impl AsyncWriteExt + Unpin),
) -> Option<Response> {
    let mut follower = Follower::new(dispatcher, flow, after);
    loop {
        let said = match follower.next(QUIET).await {
            Ok(Seen::Events(events)) => {
                let mut said = Ok(());
                for event in events {
                    said = say(write, &Response::Event(Box::new(event))).await;
                }
                said
            }
            Ok(Seen::Trouble(trouble)) => say(write, &Response::Trouble(trouble.map(|trouble| trouble.what))).await,
            Ok(Seen::Quiet) => say(write, &Response::Quiet).await,
            Ok(Seen::End) => return Some(Response::End),
            Err(error) => {
                return Some(Response::Error { message: chain(&error), unknown: false, refused: false });
            }
        };
        // A write that fails means that nobody listens any more.
        said.ok()?;
    }
}

async fn say(write: &mut (impl AsyncWriteExt + Unpin), response: &Response) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(response)?;
    line.push(b'\n');
    write.write_all(&line).await
}

/// The other end: asks the holder of a data directory.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    /// The part of the next answer that was read before a wait was given up.
    line: Vec<u8>,
}

impl Client {
    /// Connects and asks.
    ///
    /// # Errors
    /// [`ControlError::Connect`] when nobody listens.
    pub async fn ask(path: &Path, request: &Request) -> Result<Self, ControlError> {
        let fail = |source| ControlError::Connect { path: path.to_owned(), source };
        let connected = with_short_path(path, |short| std::os::unix::net::UnixStream::connect(short)).map_err(fail)?;
        connected.set_nonblocking(true).map_err(fail)?;
        let mut stream = UnixStream::from_std(connected).map_err(fail)?;
        let mut line = serde_json::to_vec(request).map_err(|source| ControlError::Garbled { source })?;
        line.push(b'\n');
        stream.write_all(&line).await.map_err(|source| ControlError::Broken { source })?;
        Ok(Self { stream: BufReader::new(stream), line: Vec::new() })
    }

    /// The next answer. A wait that is given up loses nothing.
    ///
    /// # Errors
    /// When the holder ends before its last answer, or answers something else.
    pub async fn next(&mut self) -> Result<Response, ControlError> {
        let read = self.stream.read_until(b'\n', &mut self.line).await;
        read.map_err(|source| ControlError::Broken { source })?;
        if !self.line.ends_with(b"\n") {
            let source = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(ControlError::Broken { source });
        }
        let line = std::mem::take(&mut self.line);
        serde_json::from_slice(&line).map_err(|source| ControlError::Garbled { source })
    }
}

/// The address of a socket holds 108 bytes. A longer path is reached through the descriptor of its directory.
fn with_short_path<T>(path: &Path, then: impl FnOnce(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    const LONGEST: usize = 100;
    if path.as_os_str().len() <= LONGEST {
        return then(path);
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return then(path);
    };
    let directory = std::fs::File::open(parent)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    then(&short)
}
