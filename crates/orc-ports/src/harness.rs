//! The built-in agent: its loop runs in this process, its tools in the box of its run.
//!
//! Contract: after `Ok` of [`Harness::start`] exactly one report about the run follows, through [`Begin::report`], and only
//! once everything that the run started is proven gone. What it does is told as lines of the vocabulary of agent programs,
//! to the run's log and tap. A harness never decides about a run: it does not retry, and does not judge what came of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use orc_domain::agent::AgentStop;
use orc_domain::ids::RunId;
use orc_domain::permission::{Above, Ruleset};
use orc_domain::profile::Profile;
use orc_domain::run::Process;
use orc_domain::time::{Millis, Timestamp};
use orc_domain::tree::Place;
use serde::{Deserialize, Serialize};

use crate::adapter::AgentStart;
use crate::executor::{Launch, Reports};

/// What a run began with beside its conversation: enough to lay out another place like its own, and to judge calls there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outset {
    /// Its copy and its box, with every choice already made.
    pub place: Place,
    /// Its variables, without what the machine, the box and secrets add.
    pub env: BTreeMap<String, String>,
    /// Who it is.
    pub profile: Profile,
    /// Who is above it, and what they let it do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<Above>,
    /// Rules that held beside that when it began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Ruleset>,
}

/// A run that is to begin.
pub struct Begin {
    /// Who it is, and what it must submit.
    pub start: AgentStart,
    /// Why it wakes and what it is asked, in words.
    pub prompt: String,
    /// Why it wakes, for one that knows from its conversation what it is asked.
    pub wake: String,
    /// Agents that it may start itself.
    pub workers: Vec<Profile>,
    /// Who is above it, and what they let it do.
    pub above: Vec<Above>,
    /// Rules that hold beside that.
    pub rules: Vec<Ruleset>,
    /// The box, the directory, the environment, the log and the tap of the run; `argv` and `stdin` are the harness's own.
    pub place: Launch,
    /// The same as it was decided, for the record.
    pub outset: Outset,
    /// The record of its conversation; made if missing.
    pub record: PathBuf,
    /// Whether it goes on in the conversation that is recorded; else a record that is there is put aside.
    pub goes_on: bool,
    /// Now, for the date that it is told.
    pub at: Timestamp,
    /// Hears of its end.
    pub report: Reports,
}

impl std::fmt::Debug for Begin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begin").field("run", &self.place.run).field("record", &self.record).finish_non_exhaustive()
    }
}

/// Why a run of the built-in agent cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// Its conversation cannot be read or written.
    #[error("the record of its conversation cannot be used: {why}")]
    Record {
        /// Why.
        why: String,
    },
    /// Its profile asks for what there is not.
    #[error("{why}")]
    Profile {
        /// What.
        why: String,
    },
    /// The harness has ended.
    #[error("the built-in agent has ended")]
    Closed,
}

/// Runs built-in agents.
pub trait Harness: Send + Sync {
    /// Begins a run; see the contract above. The process is the one that the loop runs in.
    fn start(&self, begin: Begin) -> BoxFuture<'_, Result<Process, BeginError>>;

    /// Hands messages to a running agent, which reads them at its next turn. False when it is not running.
    fn write(&self, run: RunId, texts: Vec<String>) -> bool;

    /// Asks a run to end: tools are ended, then everything after `grace`. A run that is not known is no error.
    fn stop(&self, run: RunId, why: AgentStop, grace: Millis);

    /// Whether a run is one of these, and not over.
    fn has(&self, run: RunId) -> bool;

    /// Ends every run and waits until all are gone. Nothing begins any more.
    fn close(&self) -> BoxFuture<'_, ()>;
}
