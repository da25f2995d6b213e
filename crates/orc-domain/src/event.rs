//! Facts in the past tense, appended in the transaction of the decision that made them true.
//!
//! Kinds and fields are only ever added. Consumers read them by cursor; one that wants a state change sends an input.

use serde::{Deserialize, Serialize};

use crate::flow::{FlowOutcome, StepOutcome};
use crate::ids::{FlowId, RunId, WorkspaceId};
use crate::path::StepPath;
use crate::principal::Principal;
use crate::run::{RunOutcome, StopReason};
use crate::time::Timestamp;

/// The version of the fields below, in every row.
pub const EVENT_VERSION: u32 = 1;

/// An event as stored: positions have no gaps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its place in the log, from 1.
    pub position: u64,
    /// The flow it is about.
    pub flow: FlowId,
    /// The tenant.
    pub workspace: WorkspaceId,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// An event as decided, before it has a position.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EventBody {
    /// When.
    pub at: Timestamp,
    /// Whose input led to it.
    pub actor: Principal,
    /// What happened.
    pub fact: Fact,
}

/// What happened. The name of the variant is the event's kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Fact {
    /// A flow began.
    FlowStarted {
        /// The pipeline's name.
        pipeline: String,
        /// The flow it carries on, if it is a retry.
        retry_of: Option<FlowId>,
    },
    /// Somebody asked a flow to end.
    FlowCancelRequested {
        /// At once.
        force: bool,
    },
    /// A flow is over.
    FlowFinished {
        /// How.
        outcome: FlowOutcome,
    },
    /// A step was expanded into elements.
    StepExpanded {
        /// Which.
        path: StepPath,
        /// Elements in all.
        total: u32,
    },
    /// A step is over.
    StepFinished {
        /// Which.
        path: StepPath,
        /// How.
        outcome: StepOutcome,
    },
    /// A command's process exists.
    CommandRunStarted {
        /// The step.
        path: StepPath,
        /// The run.
        run: RunId,
        /// 1 for the first.
        attempt: u32,
    },
    /// A command's run is over.
    CommandRunCompleted {
        /// The step.
        path: StepPath,
        /// The run.
        run: RunId,
        /// 1 for the first.
        attempt: u32,
        /// How.
        outcome: RunOutcome,
    },
    /// Another attempt was decided.
    RetryPlanned {
        /// The step.
        path: StepPath,
        /// The attempt to come.
        attempt: u32,
        /// Not before then.
        not_before: Timestamp,
    },
    /// A run was asked to end.
    RunStopRequested {
        /// The step.
        path: StepPath,
        /// The run.
        run: RunId,
        /// Why.
        reason: StopReason,
        /// At once.
        forced: bool,
    },
}

impl Fact {
    /// The event's kind, as in rows and documents.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::FlowStarted { .. } => "FlowStarted",
            Self::FlowCancelRequested { .. } => "FlowCancelRequested",
            Self::FlowFinished { .. } => "FlowFinished",
            Self::StepExpanded { .. } => "StepExpanded",
            Self::StepFinished { .. } => "StepFinished",
            Self::CommandRunStarted { .. } => "CommandRunStarted",
            Self::CommandRunCompleted { .. } => "CommandRunCompleted",
            Self::RetryPlanned { .. } => "RetryPlanned",
            Self::RunStopRequested { .. } => "RunStopRequested",
        }
    }

    /// The step it is about; `None` when it is about the whole flow.
    #[must_use]
    pub const fn path(&self) -> Option<&StepPath> {
        match self {
            Self::FlowStarted { .. } | Self::FlowCancelRequested { .. } | Self::FlowFinished { .. } => None,
            Self::StepExpanded { path, .. }
            | Self::StepFinished { path, .. }
            | Self::CommandRunStarted { path, .. }
            | Self::CommandRunCompleted { path, .. }
            | Self::RetryPlanned { path, .. }
            | Self::RunStopRequested { path, .. } => Some(path),
        }
    }
}
