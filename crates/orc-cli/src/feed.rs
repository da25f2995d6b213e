//! One way to speak to the loop that carries flows on, whether it is in this process or in the holder of the directory.

use std::path::PathBuf;
use std::sync::Arc;

use orc_domain::flow::{FlowSpec, FlowState};
use orc_domain::graph::Pipeline;
use orc_domain::ids::FlowId;
use orc_domain::input::{Input, Signed};
use orc_domain::principal::Principal;
use orc_domain::time::Millis;
use orc_ports::clock::Clock as _;
use orc_runtime::clock::SystemClock;
use orc_runtime::control::{Client, Request, Response};
use orc_runtime::{Dispatcher, DispatcherError, Follower, Seen, Trouble};

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

/// What a follower shows next.
pub(crate) enum Feed {
    Own(Box<Follower>),
    Holder(Client),
}

impl Line {
    /// Starts a flow.
    pub(crate) async fn submit(&self, spec: FlowSpec, pipeline: Arc<Pipeline>, source: String) -> CommandResult<()> {
        match self {
            Self::Own(dispatcher) => dispatcher.submit(spec, pipeline, source).await.map_err(of_dispatcher),
            Self::Holder(socket) => {
                let pipeline = Box::new(Pipeline::clone(&pipeline));
                done(socket, Request::Submit { spec: Box::new(spec), pipeline, source }).await
            }
        }
    }

    /// Carries an unfinished flow on.
    pub(crate) async fn resume(&self, flow: FlowId) -> CommandResult<()> {
        match self {
            Self::Own(dispatcher) => dispatcher.resume(flow).await.map_err(of_dispatcher),
            Self::Holder(socket) => done(socket, Request::Resume { flow }).await,
        }
    }

    /// Asks a flow to end. True when that changed anything, and where it stands now.
    pub(crate) async fn cancel(&self, flow: FlowId, by: Principal, force: bool) -> CommandResult<(bool, FlowState)> {
        match self {
            Self::Own(dispatcher) => {
                let heard = dispatcher.send(flow, Signed { by, input: Input::Cancel { force } }).await;
                heard.map(|heard| (heard.changed, heard.state)).map_err(of_dispatcher)
            }
            Self::Holder(socket) => match ask(socket, Request::Cancel { flow, force }).await? {
                Response::Heard { changed, state } => Ok((changed, state)),
                other => Err(unexpected(&other)),
            },
        }
    }

    /// Follows a flow from the event after `position`.
    pub(crate) async fn follow(&self, flow: FlowId, position: u64) -> CommandResult<Feed> {
        match self {
            Self::Own(dispatcher) => Ok(Feed::Own(Box::new(Follower::new(dispatcher, flow, position)))),
            Self::Holder(socket) => {
                let client = Client::ask(socket, &Request::Follow { flow, after: position }).await;
                client.map(Feed::Holder).map_err(|error| unavailable("cannot follow the flow").because(error))
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
                let answer = client.next().await.map_err(|error| {
                    let hint = "what it recorded is safe: `orchestrator flows resume --all` carries it on";
                    unavailable("the process that carries the flow on is gone").because(error).hint(hint)
                })?;
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
        }
    }
}

async fn ask(socket: &std::path::Path, request: Request) -> CommandResult<Response> {
    let failed = |error| unavailable("cannot speak to the holder of the data directory").because(error);
    let answer = async { Client::ask(socket, &request).await?.next().await };
    tokio::select! {
        answer = answer => answer.map_err(failed),
        () = SystemClock.sleep(PATIENCE) => {
            let what = format!("the holder of the data directory has not answered for {PATIENCE}");
            Err(unavailable(what).hint("it may still do what it was asked for; `orchestrator status` says who it is"))
        }
    }
}

async fn done(socket: &std::path::Path, request: Request) -> CommandResult<()> {
    match ask(socket, request).await? {
        Response::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(response: &Response) -> Failure {
    match response {
        Response::Error { message, unknown: true } => not_found(message.clone()),
        Response::Error { message, unknown: false } => unavailable(message.clone()),
        other => unavailable(format!("the holder of the data directory gave an unexpected answer: {other:?}")),
    }
}

/// A failure of the loop in this process.
pub(crate) fn of_dispatcher(error: DispatcherError) -> Failure {
    match error {
        DispatcherError::Unknown(flow) => not_found(format!("there is no flow {flow}")),
        error => unavailable("the flow cannot be carried on").because(error),
    }
}
