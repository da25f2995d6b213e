//! The seam behind the meter: who answers a call. Real providers, scripted models and cassettes stand behind it alike.
//!
//! Contract: [`Provider::send`] sends once and never tries again; waiting, trying again and giving up are decided in one place
//! (`crate::call`). A body is passed on as it comes: nothing is gathered.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use orc_domain::ids::RunId;
use orc_domain::model::Protocol;
pub use orc_domain::model::Want;
pub use orc_ports::gateway::{Answer as Incoming, Broken};

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
