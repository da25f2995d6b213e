//! What a step waits for that has no run: its elements, its rounds, a child flow, people, a time, an event.
//!
//! A step that waits holds no slot. Each of these has an alarm, so that a message that was lost ends nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::action::WaitEvent;
use crate::flow::StepNo;
use crate::ids::{FlowId, RequestId};
use crate::run::Stopping;
use crate::time::Timestamp;
use crate::value::Value;

/// What a step waits for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// The elements of a fan-out.
    Elements(FanOut),
    /// The steps of the round of a `repeat`.
    Round(Round),
    /// A child flow.
    Flow {
        /// Which.
        flow: FlowId,
        /// When its parent asks whether it is still there.
        look_at: Timestamp,
        /// Set once it was asked to end.
        stop: Option<Stopping>,
    },
    /// People.
    Request {
        /// Which request; its deadline, reminders and tiers are its own.
        request: RequestId,
    },
    /// A time.
    Until {
        /// Which.
        at: Timestamp,
    },
    /// An event of another flow.
    Event {
        /// Which kind.
        event: WaitEvent,
        /// Only of flows of this pipeline.
        pipeline: Option<String>,
        /// Not longer than this.
        deadline: Timestamp,
    },
}

impl Wait {
    /// The word in rows and status: `elements`, `round`, `flow`, `request`, `time`, `event`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Elements(_) => "elements",
            Self::Round(_) => "round",
            Self::Flow { .. } => "flow",
            Self::Request { .. } => "request",
            Self::Until { .. } => "time",
            Self::Event { .. } => "event",
        }
    }
}

/// The expansion of a fan-out. How many elements run or are finished is counted from the elements, not stored twice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FanOut {
    /// The elements that are not written yet, from the list that was evaluated once.
    pub list: Vec<Value>,
    /// Elements in all.
    pub total: u32,
    /// Elements written so far; a join waits until it equals `total`.
    pub expanded: u32,
    /// Elements that were not written were given up, by a cancel or `fail_fast`.
    pub cut: bool,
}

/// The round of a `repeat` that is being carried out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Round {
    /// 1 for the first.
    pub number: u32,
    /// The position of the first step of the body in this round; the others follow without gaps.
    pub first: StepNo,
    /// What `previous` reads: outcome, output and error of each step of the round before, by key.
    pub previous: BTreeMap<String, Value>,
}
