//! One way to speak to the loop that carries flows on, whether it is in this process or in the holder of the directory.

use std::path::PathBuf;

use orc_domain::flow::{FlowSpec, FlowState};
use orc_domain::graph::Pipeline;
use orc_domain::hold::HoldReason;
use orc_domain::ids::{FlowId, MessageId};
use orc_domain::input::{Input, Signed};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock as _;
use orc_runtime::clock::SystemClock;
use orc_runtime::control::{Client, ControlError, Request, Response};
use orc_runtime::{Definitions, Dispatcher, DispatcherError, Follower, Heard, Reply, Seen, Trouble};

use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::hold::PATIENCE;

/// The loop.
#[derive(Clone)]
pub(crate) enum Line {
    /// It is ours.
    Own(Dispatcher),
    /// It belongs to the holder, on this socket.
    Holder(PathBuf),
}

/// Something that somebody wants of a flow that is there.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// An answer to one of its requests.
    Answer(Reply),
    /// Nothing more of it starts.
    Pause { flow: FlowId, step: Option<StepPath>, note: String, until: Option<Timestamp> },
    /// It goes on.
    Unpause { flow: FlowId, step: Option<StepPath> },
    /// Words for the agent of a step.
    Message { flow: FlowId, path: StepPath, id: MessageId, text: String },
}

impl Change {
    /// The flow that it is about.
    pub(crate) const fn flow(&self) -> FlowId {
        match self {
            Self::Answer(reply) => reply.flow,
            Self::Pause { flow, .. } | Self::Unpause { flow, .. } | Self::Message { flow, .. } => *flow,
        }
    }

    async fn decide(self, dispatcher: &Dispatcher, by: Principal) -> Result<Heard, DispatcherError> {
        let (flow, input) = match self {
            Self::Answer(reply) => return dispatcher.answer(by, reply).await,
            Self::Pause { flow, step, note, until } => {
                (flow, Input::Hold { step, reason: HoldReason::Paused, note, until })
            }
            Self::Unpause { flow, step } => (flow, Input::Lift { step, reason: HoldReason::Paused }),
            Self::Message { flow, path, id, text } => (flow, Input::Message { path, id, text }),
        };
        dispatcher.send(flow, Signed { by, input }).await
    }

    fn request(self) -> Request {
        match self {
            Self::Answer(reply) => Request::Answer(reply),
            Self::Pause { flow, step, note, until } => Request::Pause { flow, step, note, until },
            Self::Unpause { flow, step } => Request::Unpause { flow, step },
            Self::Message { flow, path, id, text } => Request::Message { flow, path, id, text },
        }
    }
}

/// What a follower shows next.
pub(crate) enum Feed {
    Own(Box<Follower>),
    Holder(Client),
    /// The holder ended before it could be asked.
    Gone,
}

impl Line {
    /// Starts a flow. False when the holder has ended.
    pub(crate) async fn submit(&self, spec: &FlowSpec, definitions: &Definitions) -> CommandResult<bool> {
        let definitions = definitions.clone();
        match self {
            Self::Own(dispatcher) => {
                let started = dispatcher.submit(spec.clone(), definitions).await;
                started.map(|()| true).map_err(of_dispatcher)
            }
            Self::Holder(socket) => {
                let Definitions { pipeline, source, children } = definitions;
                let (spec, pipeline) = (Box::new(spec.clone()), Box::new(Pipeline::clone(&pipeline)));
                done(socket, Request::Submit { spec, pipeline, source, children }).await
            }
        }
    }

    /// Sends a change to a flow in our name. True when that changed anything, and where the flow stands now; nothing when the
    /// holder ended before it answered, whether it made the change or not.
    pub(crate) async fn send(&self, by: Principal, change: Change) -> CommandResult<Option<(bool, FlowState)>> {
        match self {
            Self::Own(dispatcher) => {
                let heard = change.decide(dispatcher, by).await;
                heard.map(|heard| Some((heard.changed, heard.state))).map_err(of_dispatcher)
            }
            Self::Holder(socket) => match ask(socket, change.request()).await? {
                Ok(Response::Heard { changed, state }) => Ok(Some((changed, state))),
                Ok(Response::Ending) | Err(_) => Ok(None),
                Ok(other) => Err(unexpected(&other)),
            },
        }
    }

    /// Has an unfinished flow carried on. False when the holder ended before.
    pub(crate) async fn resume(&self, flow: FlowId) -> CommandResult<bool> {
        match self {
            Self::Own(dispatcher) => dispatcher.resume(flow).await.map(|()| true).map_err(of_dispatcher),
            Self::Holder(socket) => done(socket, Request::Resume { flow }).await,
        }
    }

    /// Has all unfinished flows carried on, which are `flows`. False when the holder ended before.
    pub(crate) async fn resume_all(&self, flows: &[FlowId]) -> CommandResult<bool> {
        let Self::Own(dispatcher) = self else {
            for flow in flows {
                if !self.resume(*flow).await? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        dispatcher.resume_all().await.map(|()| true).map_err(of_dispatcher)
    }

    /// Asks a flow to end. True when that changed anything, and where it stands now.
    pub(crate) async fn cancel(&self, flow: FlowId, by: Principal, force: bool) -> CommandResult<(bool, FlowState)> {
        match self {
            Self::Own(dispatcher) => {
                let heard = dispatcher.send(flow, Signed { by, input: Input::Cancel { force } }).await;
                heard.map(|heard| (heard.changed, heard.state)).map_err(of_dispatcher)
            }
            Self::Holder(socket) => match ask(socket, Request::Cancel { flow, force }).await?.map_err(unheard)? {
                Response::Heard { changed, state } => Ok((changed, state)),
                other => Err(unexpected(&other)),
            },
        }
    }

    /// Follows a flow from the event after `position`.
    pub(crate) async fn follow(&self, flow: FlowId, position: u64) -> Feed {
        match self {
            Self::Own(dispatcher) => Feed::Own(Box::new(Follower::new(dispatcher, flow, position))),
            Self::Holder(socket) => {
                let client = Client::ask(socket, &Request::Follow { flow, after: position }).await;
                client.map_or(Feed::Gone, Feed::Holder)
            }
        }
    }
}

impl Feed {
    /// The next thing to show; waits at most about `patience` when the loop is ours.
    pub(crate) async fn next(&mut self, patience: Millis) -> CommandResult<Seen> {
        match self {
            Self::Own(follower) => {
                follower.next(patience).await.map_err(|error| unavailable("cannot read the store").because(error))
            }
            Self::Holder(client) => {
                let answer = client.next().await.map_err(|error| gone().because(error))?;
                match answer {
                    Response::Event(event) => Ok(Seen::Events(vec![*event])),
                    Response::Quiet => Ok(Seen::Quiet),
                    Response::End => Ok(Seen::End),
                    Response::Trouble(what) => Ok(Seen::Trouble(what.map(|what| Trouble {
                        since: orc_domain::time::Timestamp::from_millis(0),
                        what,
                        // Then the holder ends, and that is heard.
                        is_final: false,
                    }))),
                    other => Err(unexpected(&other)),
                }
            }
            Self::Gone => Err(gone()),
        }
    }
}

fn gone() -> Failure {
    let hint = "what it recorded is safe: `orchestrator flows resume --all` carries it on";
    unavailable("the process that carries the flow on is gone").hint(hint)
}

/// The answer, or why there is none because the holder has ended.
async fn ask(socket: &std::path::Path, request: Request) -> CommandResult<Result<Response, ControlError>> {
    let answer = async { Client::ask(socket, &request).await?.next().await };
    tokio::select! {
        answer = answer => match answer {
            Err(error @ (ControlError::Connect { .. } | ControlError::Broken { .. })) => Ok(Err(error)),
            answer => answer.map(Ok).map_err(unheard),
        },
        () = SystemClock.sleep(PATIENCE) => {
            let what = format!("the holder of the data directory has not answered for {PATIENCE}");
            Err(unavailable(what).hint("it may still do what it was asked for; `orchestrator status` says who it is"))
        }
    }
}

fn unheard(error: ControlError) -> Failure {
    unavailable("cannot speak to the holder of the data directory").because(error)
}

/// False when the holder has ended.
async fn done(socket: &std::path::Path, request: Request) -> CommandResult<bool> {
    match ask(socket, request).await? {
        Ok(Response::Done) => Ok(true),
        Ok(Response::Ending) | Err(_) => Ok(false),
        Ok(other) => Err(unexpected(&other)),
    }
}

fn unexpected(response: &Response) -> Failure {
    match response {
        Response::Error { message, unknown: true, .. } => not_found(message.clone()),
        Response::Error { message, refused: true, .. } => Failure::new(Exit::Refused, message.clone()),
        Response::Error { message, .. } => unavailable(message.clone()),
        other => unavailable(format!("the holder of the data directory gave an unexpected answer: {other:?}")),
    }
}

/// A failure of the loop in this process.
pub(crate) fn of_dispatcher(error: DispatcherError) -> Failure {
    match error {
        DispatcherError::Unknown(flow) => not_found(format!("there is no flow {flow}")),
        DispatcherError::Answer(error) => Failure::new(Exit::Refused, error.to_string()),
        error @ DispatcherError::MayNot(_) => Failure::new(Exit::Refused, error.to_string()),
        error @ DispatcherError::NoRequest(_) => not_found(error.to_string()),
        error => unavailable("the flow cannot be carried on").because(error),
    }
}
