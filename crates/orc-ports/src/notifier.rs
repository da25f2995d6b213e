//! Telling people what needs them, outside of this program.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;
use orc_domain::ids::FlowId;
use orc_domain::path::StepPath;
use orc_domain::time::Timestamp;
use serde::{Serialize, Serializer};

/// What people can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// A question is asked or repeated.
    Request,
    /// A step ended in a way that a person should look at.
    Incident,
    /// A flow failed, or was out of budget.
    FlowFailed,
}

/// What happened: the document that goes out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notice {
    /// `orc/notice/1`.
    pub schema: &'static str,
    /// The same each time that this is told: the flow and the position of its event. Whoever has it has all of it.
    pub key: String,
    /// What kind.
    pub moment: Moment,
    /// When it happened.
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    /// The flow that it is about.
    pub flow: FlowId,
    /// Its pipeline's name.
    pub pipeline: String,
    /// The step; none: the flow as a whole.
    pub step: Option<StepPath>,
    /// In words. May hold text from outside.
    pub what: String,
    /// Who can do something about it: names and groups of the settings; empty: whoever has the role admin.
    pub who: Vec<String>,
    /// When it is decided without them.
    #[serde(serialize_with = "as_optional_text")]
    pub deadline: Option<Timestamp>,
    /// What to type.
    pub command: String,
}

fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

fn as_optional_text<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

/// Where notices go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name for people. Never an address that is a secret.
    pub name: String,
    /// What it is told of.
    pub on: BTreeSet<Moment>,
}

/// Why a notice did not arrive.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// A variable that the settings name is not set.
    #[error("the variable `{name}` is not set")]
    Variable {
        /// Which.
        name: String,
    },
    /// The program could not be started or fed.
    #[error("`{program}` cannot be run")]
    Start {
        /// Which.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The program failed.
    #[error("`{program}` ended with {status}: {detail}")]
    Exit {
        /// Which.
        program: String,
        /// `exit status: 1`.
        status: String,
        /// The last line of its error output.
        detail: String,
    },
    /// It took too long.
    #[error("no answer in {seconds} s")]
    Silent {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The address is none.
    #[error("its address cannot be used")]
    Address,
    /// The address could not be reached.
    #[error("cannot be reached")]
    Reach {
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The address answered something else than 2xx.
    #[error("answered with status {status}")]
    Status {
        /// Which.
        status: u16,
    },
}

impl NotifyError {
    /// Whether a later attempt may do better.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Variable { .. } | Self::Start { .. } | Self::Address => false,
            Self::Exit { .. } | Self::Silent { .. } | Self::Reach { .. } => true,
            Self::Status { status } => *status >= 500 || *status == 408 || *status == 429,
        }
    }
}

/// Tells people. Each attempt takes a bounded time; whether there is another one, the caller decides.
pub trait Notifier: Send + Sync {
    /// Everybody who is told of anything.
    fn targets(&self) -> &[Target];

    /// Tells one of [`Self::targets`], by its place there. May be told the same twice.
    fn deliver(&self, target: usize, notice: &Notice) -> BoxFuture<'_, Result<(), NotifyError>>;
}
