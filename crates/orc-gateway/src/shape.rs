//! What a gateway is made of: providers, prices, limits and times. Settings become one of these, in `orc-cli`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use orc_domain::ids::InstanceId;
use orc_domain::model::Protocol;
use orc_domain::price::{self, PriceTable};
use orc_domain::time::Millis;
use orc_ports::executor::Secrets;

use crate::cassette::Place;
use crate::provider::Provider;

/// A whole gateway.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Who answers. The first that has the protocol and the model of a call is sent it.
    pub providers: Vec<ProviderShape>,
    /// What models cost.
    pub prices: PriceTable,
    /// What becomes of calls of a model that has no price.
    pub unpriced: Unpriced,
    /// How long things may take.
    pub times: Times,
    /// Where the sockets of runs are made: a directory for this alone, closed to others. Short, because a socket's path has at
    /// most 107 bytes.
    pub sockets: PathBuf,
    /// Who makes these calls.
    pub instance: InstanceId,
}

/// A provider.
#[derive(Clone, Debug)]
pub struct ProviderShape {
    /// Its name in the settings.
    pub name: String,
    /// How it talks.
    pub protocols: Vec<Protocol>,
    /// Its models: patterns with `*`.
    pub models: Vec<String>,
    /// How much may be sent to it.
    pub limits: RateLimits,
    /// What it is.
    pub kind: ProviderKind,
    /// Where everything that goes through it is recorded.
    pub record: Option<Recording>,
}

/// Where calls are recorded, and what is never written there.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Where.
    pub place: Place,
    /// Values that are left out.
    pub secrets: Secrets,
}

impl ProviderShape {
    /// Whether a call is for it.
    #[must_use]
    pub fn has(&self, protocol: Protocol, model: &str) -> bool {
        self.protocols.contains(&protocol) && self.has_model(model)
    }

    /// Whether it has a model.
    #[must_use]
    pub fn has_model(&self, model: &str) -> bool {
        self.models.iter().any(|pattern| price::matches(pattern, model))
    }
}

/// What a provider is.
#[derive(Clone)]
pub enum ProviderKind {
    /// One that is reached by HTTP.
    Http(HttpShape),
    /// One that was made before: a script, a cassette.
    Made(Arc<dyn Provider>),
}

impl fmt::Debug for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(http) => f.debug_tuple("Http").field(http).finish(),
            Self::Made(_) => f.debug_tuple("Made").finish_non_exhaustive(),
        }
    }
}

/// Where a provider is, and what it is shown.
#[derive(Clone, Debug)]
pub struct HttpShape {
    /// As the providers' own programs take it: `https://api.anthropic.com`, `https://api.openai.com/v1`. A `/v1` that is
    /// missing, or that is there for Anthropic, is no mistake.
    pub base_url: String,
    /// What it is shown. Providers with the same key share their limits, the lowest of them, and are parked together.
    pub credential: Credential,
}

/// What a provider is shown.
#[derive(Clone, Debug)]
pub enum Credential {
    /// This.
    Key(Key),
    /// Nothing: it asks for none.
    Needless,
    /// There should be one, and there is none.
    Missing {
        /// Where it was looked for.
        hint: String,
    },
}

/// A key. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Takes one.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// How much may be sent with one key; what is not set is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Calls at once.
    pub concurrency: Option<u32>,
    /// Calls in a minute.
    pub requests: Option<u32>,
    /// Tokens of all classes in a minute.
    pub tokens: Option<u64>,
}

/// What becomes of calls of a model that has no price. Below a wall of money they are refused in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unpriced {
    /// They are refused.
    Refuse,
    /// Their tokens are counted, their money is not.
    #[default]
    TokensOnly,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Until a provider is connected.
    pub connect: Millis,
    /// From then on until the head of its answer.
    pub first_byte: Millis,
    /// Between two pieces of an answer.
    pub idle: Millis,
    /// How long a call that a provider does not take is held and tried again, before its key is parked; and how long a
    /// call that finds its key parked is held before it is answered with a failure.
    pub hold: Millis,
    /// For how long a key is parked the first time; each time in a row it is twice as long.
    pub park: Millis,
    /// For how long it is parked at most, unless the provider itself names a later time.
    pub park_most: Millis,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Millis::from_secs(10),
            first_byte: Millis::from_secs(600),
            idle: Millis::from_secs(300),
            hold: Millis::from_secs(60),
            park: Millis::from_secs(60),
            park_most: Millis::from_secs(900),
        }
    }
}
