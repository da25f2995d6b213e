//! The seam behind the meter: who answers a call. Real providers, scripted models and cassettes stand behind it alike.
//!
//! Contract: [`Provider::send`] sends once and never tries again; waiting, trying again and giving up are decided in one place
//! (`crate::call`). A body is passed on as it comes: nothing is gathered.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use orc_domain::ids::RunId;
use orc_domain::model::Protocol;

/// What a program wants of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// An answer; costs.
    Answer,
    /// How many tokens a request has; free.
    Count,
    /// Which models there are; free.
    Models,
}

/// A request on its way out, credentials not yet in it.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// How it talks.
    pub protocol: Protocol,
    /// What it wants.
    pub want: Want,
    /// What follows the protocol's own path: a query with its `?`, or nothing.
    pub query: String,
    /// The model; empty for [`Want::Models`].
    pub model: String,
    /// Headers that go out as they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as it came, but for the output limit and `include_usage`.
    pub body: Bytes,
    /// The run, for those who keep records by run.
    pub run: Option<RunId>,
}

/// The head of an answer, and its body as it comes.
pub struct Incoming {
    /// Its status.
    pub status: u16,
    /// Its headers as they came, without those that belong to one connection; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: BoxStream<'static, Result<Bytes, Broken>>,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("status", &self.status).finish_non_exhaustive()
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
}

/// Why there is no answer at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nothing left this machine: whatever it is, it cost nothing.
    #[error("cannot reach the provider `{provider}`: {why}")]
    Unreachable {
        /// Its name in the settings.
        provider: String,
        /// In the words of the transport.
        why: String,
    },
    /// The request left, or may have, and no head of an answer came.
    #[error("the provider `{provider}` did not answer: {why}")]
    Silent {
        /// Its name in the settings.
        provider: String,
        /// In the words of the transport.
        why: String,
    },
    /// There is nobody to send it to: no key, no script for it, no record of it.
    #[error("{why}")]
    Unable {
        /// What is missing, and what helps.
        why: String,
    },
}

/// Who answers.
pub trait Provider: Send + Sync {
    /// Sends a request once.
    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, SendError>>;
}
