//! All that a flow can hear. An input is a fact or a wish from outside; `decide` turns it into changes and effects.

use serde::{Deserialize, Serialize};

use crate::ids::RunId;
use crate::principal::Principal;
use crate::run::{Failure, Process};
use crate::value::Value;

/// An input and who sent it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Signed {
    /// Who.
    pub by: Principal,
    /// What.
    pub input: Input,
}

/// Something that happened or that somebody wants.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The flow's `wake_at` has come, or a slot may be free. Harmless at any time.
    Alarm,
    /// A run's process exists.
    RunStarted {
        /// Which run.
        run: RunId,
        /// Its process.
        process: Process,
    },
    /// A run's process and everything it started is gone, and we know how it ended.
    RunEnded {
        /// Which run.
        run: RunId,
        /// How.
        ending: Ending,
    },
    /// A run's process is gone, or was never started, and nobody knows more: its instance ended.
    RunLost {
        /// Which run.
        run: RunId,
        /// Whether its start was claimed, so that it may have done something.
        claimed: bool,
        /// How we know.
        evidence: String,
    },
    /// Somebody wants the flow to end; the second time at once.
    Cancel {
        /// End at once even if it is the first time.
        force: bool,
    },
}

/// How a process ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with 0 and its outputs were read (a map; empty when it wrote none).
    Delivered {
        /// Its outputs.
        output: Value,
    },
    /// It did not.
    Failed(Failure),
}
