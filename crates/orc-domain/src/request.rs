//! A request: whatever waits for a person or an automatic answer. One row, one state machine, one inbox.

use serde::{Deserialize, Serialize};

use crate::ids::{ContentHash, FlowId, RequestId};
use crate::path::StepPath;
use crate::principal::Principal;
use crate::time::Timestamp;

/// Something that waits for an answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Its id; `approve ID` takes it.
    pub id: RequestId,
    /// The flow that waits.
    pub flow: FlowId,
    /// The step that waits.
    pub path: StepPath,
    /// What kind of answer is wanted.
    pub kind: RequestKind,
    /// Hash of exactly what is asked: an answer to something else does not count.
    pub subject: ContentHash,
    /// Who asked; with `four_eyes` this principal may not answer.
    pub asked_by: Principal,
    /// Where it stands.
    pub state: RequestState,
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// An approval step.
    Approval,
    /// A permission at the gate.
    Permission,
    /// A question of an agent.
    Question,
}

/// Where a request stands; resolved once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// Waits, until its deadline.
    Open {
        /// Since when.
        since: Timestamp,
        /// Its alarm.
        deadline: Timestamp,
    },
    /// Answered, by whom and how.
    Resolved {
        /// When.
        at: Timestamp,
        /// By whom; `system` at the deadline.
        by: Principal,
        /// The answer.
        answer: Answer,
    },
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Go on.
    Approved,
    /// Do not.
    Denied,
}
