//! A hold: why work below a scope may not start. Admission means that there is no hold on any scope above.
//!
//! One shape for a paused flow, a parked provider key, a quarantined step, a draining instance. Sticky: only a named
//! person lifts it, with a reason; nothing automatic does.

use serde::{Deserialize, Serialize};

use crate::ids::{FlowId, HoldId};
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
    /// Who put it there.
    pub by: Principal,
    /// Since when.
    pub since: Timestamp,
    /// When it ends by itself, if it does.
    pub until: Option<Timestamp>,
    /// Only a person lifts it.
    pub sticky: bool,
}

/// What a hold covers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldScope {
    /// Everything in this instance: it drains.
    Instance,
    /// One flow.
    Flow(FlowId),
    /// One step instance of a flow.
    Step(FlowId, StepPath),
}

/// Why a hold exists.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// The instance is shutting down.
    Draining,
    /// A person paused it.
    Paused,
    /// The step lost its process again and again.
    Quarantined,
}
