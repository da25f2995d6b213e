//! A hold: why work below a scope may not start. Admission means that there is no hold on any scope above.
//!
//! One shape for a paused flow, a paused step, a wall that was reached; what stands above a flow follows. Sticky: only a named
//! person lifts it, with a reason; nothing automatic does.

use serde::{Deserialize, Serialize};

use crate::budget::Wall;
use crate::ids::HoldId;
use crate::path::StepPath;
use crate::principal::Principal;
use crate::time::Timestamp;

/// A row of the holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// Its id.
    pub id: HoldId,
    /// What may not start.
    pub scope: HoldScope,
    /// Why.
    pub reason: HoldReason,
    /// In the words of whoever put it there; may be empty.
    pub note: String,
    /// Who put it there.
    pub by: Principal,
    /// Since when.
    pub since: Timestamp,
    /// When it ends by itself, if it does.
    pub until: Option<Timestamp>,
    /// Only a person lifts it.
    pub sticky: bool,
}

/// What a hold covers, of the flow that it stands in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldScope {
    /// All of it, and the flows that are its children.
    Flow,
    /// One step of it, with what is below.
    Step(StepPath),
}

/// Why a hold exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// A person paused it.
    Paused,
    /// The flow that it is a child of is held.
    ParentHeld,
    /// A wall was reached; the request to raise it is open.
    Wall(Wall),
}
