//! The model gateway: every call of a model of every agent goes through it, and no key of a provider goes to an agent.
//!
//! Contract: between [`Gateway::open`] and [`Gateway::close`] of a run, whoever shows the run's token at its socket, and
//! nobody else, makes calls on the run's account. Each call is decided by the meter and written to the ledger before its
//! first byte leaves. [`Gateway::close`] answers once no call of the run is in flight and all of them are in the ledger.
//!
//! A gateway never decides about a run: it refuses calls and tells [`Notice`]s; flows decide what becomes of the run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use orc_domain::agent::Usage;
use orc_domain::ids::RunId;
use orc_domain::ledger::Account;
use orc_domain::meter::{Limits, Owner, Refusal};
use orc_domain::model::{Protocol, Want};
use orc_domain::time::Timestamp;

use crate::store::StoreError;

/// A run that may make calls.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The run.
    pub run: RunId,
    /// Whose calls these are.
    pub account: Account,
    /// Walls above its calls.
    pub walls: Vec<(Owner, Limits)>,
    /// The model that it is to ask for: the profile's `model:`.
    pub model: String,
    /// Hears what happens to its calls.
    pub notices: Notices,
}

/// The way to the gateway.
#[derive(Clone, PartialEq, Eq)]
pub struct Door {
    /// The unix socket at which it listens for this run.
    pub socket: PathBuf,
    /// What a program shows as its key. Worth nothing but calls of this run, and nothing once it is closed.
    pub token: String,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Door {
    /// Variables by which programs find the gateway at a port of 127.0.0.1, and the model that they are to ask for.
    #[must_use]
    pub fn environment(&self, port: u16, model: &str) -> BTreeMap<String, String> {
        let base = format!("http://127.0.0.1:{port}");
        [
            ("ANTHROPIC_BASE_URL", base.clone()),
            ("ANTHROPIC_API_KEY", self.token.clone()),
            ("OPENAI_BASE_URL", format!("{base}/v1")),
            ("OPENAI_API_KEY", self.token.clone()),
            ("ORC_MODEL", model.to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Something that happened to calls of a run and that its flow has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Calls came to their end: what the run used so far.
    Used(Usage),
    /// A call was refused at a wall.
    Refused(Refusal),
    /// The provider takes nothing for now: calls of the run are held, and answered with a failure at the end of the run.
    Parked {
        /// The provider's name in the settings.
        provider: String,
        /// Until when nothing is sent to it.
        until: Timestamp,
        /// What it said, one line.
        why: String,
    },
}

/// Where notices go; called from the gateway's own context, must not block.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(RunId, Notice) + Send + Sync>);

impl Notices {
    /// Calls `hear` with each notice.
    pub fn new(hear: impl Fn(RunId, Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }

    /// Passes a notice on.
    pub fn tell(&self, run: RunId, notice: Notice) {
        (self.0)(run, notice);
    }
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notices").finish_non_exhaustive()
    }
}

/// What became of the calls of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metered {
    /// What it used, by the figures of the ledger; `tool_calls` is 0.
    pub usage: Usage,
    /// The last refusal.
    pub refused: Option<Refusal>,
    /// The provider that parked it, and until when.
    pub parked: Option<(String, Timestamp)>,
}

/// A call of a run, as its program made it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The run; one that is not open is refused.
    pub run: RunId,
    /// How it talks.
    pub protocol: Protocol,
    /// What it wants.
    pub want: Want,
    /// What follows the protocol's own path: a query with its `?`, or nothing.
    pub query: String,
    /// Its headers as they came, names in lower case. Credentials in them are dropped.
    pub headers: Vec<(String, String)>,
    /// Its body as it came.
    pub body: Bytes,
    /// Who made it, where that is an agent that the run's own started; none: the run's own.
    pub agent: Option<String>,
    /// Whether it may be held while its provider takes nothing, and the run's flow told so. Who has another model to turn to
    /// gets the failure at once, and nobody is told.
    pub patient: bool,
}

/// The head of an answer, and its body as it comes. Dropping it gives the call up, which is settled all the same.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers as they came, without those that belong to one connection; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: BoxStream<'static, Result<Bytes, Broken>>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

/// A body that ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The connection was cut.
    #[error("the answer was cut: {why}")]
    Cut {
        /// In the words of the transport.
        why: String,
    },
    /// Nothing came for too long.
    #[error("nothing came for {} s", seconds)]
    Idle {
        /// How long.
        seconds: u64,
    },
    /// The run was closed.
    #[error("the way of the run to the gateway was closed")]
    Closed,
}

/// Why a run cannot have a way to the gateway.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No provider of the settings has its model.
    #[error("no provider has the model `{model}`")]
    Model {
        /// Which.
        model: String,
    },
    /// A provider has no credential.
    #[error("the provider `{provider}` has no key: {hint}")]
    Credential {
        /// Which.
        provider: String,
        /// Where one is looked for.
        hint: String,
    },
    /// The ledger does not answer.
    #[error("cannot read the ledger")]
    Ledger {
        /// Why.
        #[source]
        source: StoreError,
    },
    /// There is no socket to be had.
    #[error("cannot listen at `{}`", socket.display())]
    Socket {
        /// Where.
        socket: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// The gateway, as the runtime uses it.
pub trait Gateway: Send + Sync {
    /// Opens the way for a run.
    fn open(&self, opening: Opening) -> BoxFuture<'_, Result<Door, OpenError>>;

    /// How the one talks that would answer calls of this model; none: nobody has it. Of several protocols, the one that
    /// keeps most of what a model thinks.
    fn speaks(&self, model: &str) -> Option<Protocol>;

    /// Makes a call of a run in this process: what its program would get at its door. Refusals and failures are answers in
    /// the form of the protocol.
    fn call(&self, request: Request) -> BoxFuture<'static, Answer>;

    /// What a run used so far; nothing for one that is not open.
    fn metered(&self, run: RunId) -> Metered;

    /// Ends the way: calls in flight are given up and settled, and what is known of all calls is told. A run that was never
    /// open used nothing.
    fn close(&self, run: RunId) -> BoxFuture<'_, Metered>;

    /// Ends every way.
    fn end(&self) -> BoxFuture<'_, ()>;
}
