//! Facts in the past tense, appended in the transaction of the decision that made them true.
//!
//! Kinds and fields are only ever added. Consumers read them by cursor; one that wants a state change sends an input.

use serde::{Deserialize, Serialize};

use crate::budget::{Usage, Wall};
use crate::confine::Violation;
use crate::flow::{FlowOutcome, StepOutcome};
use crate::hold::HoldReason;
use crate::ids::{FlowId, MessageId, RequestId, RunId, WorkspaceId};
use crate::meter::Shortfall;
use crate::path::StepPath;
use crate::permission::Scope;
use crate::principal::Principal;
use crate::request::Answer;
use crate::run::{RunOutcome, StopReason, WakeReason};
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
        /// Why, where that is no step's doing; may be empty.
        #[serde(default)]
        detail: String,
    },
    /// The box of a run refused something.
    SandboxViolation {
        /// The step.
        path: StepPath,
        /// The run.
        run: RunId,
        /// What.
        violation: Violation,
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
    /// A flow waits for its concurrency group.
    FlowQueued {
        /// Which.
        group: String,
    },
    /// Nothing more starts, in all of a flow or in a step.
    HoldPlaced {
        /// The step; none: the flow.
        path: Option<StepPath>,
        /// Why.
        reason: HoldReason,
        /// In the words of whoever placed it.
        note: String,
        /// When it ends by itself.
        until: Option<Timestamp>,
    },
    /// It goes on.
    HoldLifted {
        /// The step; none: the flow.
        path: Option<StepPath>,
        /// Which kind.
        reason: HoldReason,
    },
    /// A round of a `repeat` began.
    RoundStarted {
        /// The step that repeats.
        path: StepPath,
        /// 1 for the first.
        number: u32,
    },
    /// A step began to wait for a child flow, people, a time or an event.
    StepWaiting {
        /// Which.
        path: StepPath,
        /// For what: `flow`, `request`, `time`, `event`.
        on: String,
        /// More of it: the id of the flow or request, the time, the kind of event.
        what: String,
    },
    /// People are asked.
    RequestOpened {
        /// The step; none: the flow.
        path: Option<StepPath>,
        /// The request.
        request: RequestId,
        /// What kind: `approval`, `question`, `wall`.
        kind: String,
        /// What is asked.
        message: String,
        /// Who may answer; empty: the role admin.
        by: Vec<String>,
        /// When it closes by itself.
        deadline: Timestamp,
    },
    /// People are told again: nobody has answered.
    RequestReminded {
        /// The step; none: the flow.
        path: Option<StepPath>,
        /// The request.
        request: RequestId,
        /// Who may answer by now.
        by: Vec<String>,
    },
    /// A request has its answer.
    RequestResolved {
        /// The step; none: the flow.
        path: Option<StepPath>,
        /// The request.
        request: RequestId,
        /// The answer.
        answer: Answer,
        /// For how long it holds.
        #[serde(default)]
        scope: Scope,
        /// In the words of whoever gave it.
        reason: String,
    },
    /// A wall was reached.
    WallReached {
        /// The step; none: the flow.
        path: Option<StepPath>,
        /// Which.
        wall: Wall,
        /// The figures; none for a wall of time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        short: Option<Shortfall>,
    },
    /// The provider of its model takes no calls until then.
    RunParked {
        /// The step.
        path: StepPath,
        /// The run.
        run: RunId,
        /// The provider.
        provider: String,
        /// Until when.
        until: Timestamp,
        /// What it said, one line; text from outside.
        why: String,
    },
    /// An agent's process exists.
    AgentRunStarted {
        /// The step, which is the conversation.
        path: StepPath,
        /// The run.
        run: RunId,
        /// 1 for the first.
        attempt: u32,
        /// The agent.
        agent: String,
        /// Why it was woken.
        wake: WakeReason,
    },
    /// An agent's run is over.
    AgentRunCompleted {
        /// The step, which is the conversation.
        path: StepPath,
        /// The run.
        run: RunId,
        /// 1 for the first.
        attempt: u32,
        /// The agent.
        agent: String,
        /// How.
        outcome: RunOutcome,
        /// What it used.
        usage: Usage,
    },
    /// A conversation has a new message, by an agent or to it.
    MessageReceived {
        /// The step, which is the conversation.
        path: StepPath,
        /// The message.
        message: MessageId,
        /// Who wrote it.
        from: Principal,
        /// Its text.
        text: String,
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
            Self::FlowQueued { .. } => "FlowQueued",
            Self::HoldPlaced { .. } => "HoldPlaced",
            Self::HoldLifted { .. } => "HoldLifted",
            Self::RoundStarted { .. } => "RoundStarted",
            Self::StepWaiting { .. } => "StepWaiting",
            Self::RequestOpened { .. } => "RequestOpened",
            Self::RequestReminded { .. } => "RequestReminded",
            Self::RequestResolved { .. } => "RequestResolved",
            Self::WallReached { .. } => "WallReached",
            Self::RunParked { .. } => "RunParked",
            Self::AgentRunStarted { .. } => "AgentRunStarted",
            Self::AgentRunCompleted { .. } => "AgentRunCompleted",
            Self::MessageReceived { .. } => "MessageReceived",
            Self::SandboxViolation { .. } => "SandboxViolation",
        }
    }

    /// The step it is about; `None` when it is about the whole flow.
    #[must_use]
    pub const fn path(&self) -> Option<&StepPath> {
        match self {
            Self::FlowStarted { .. }
            | Self::FlowCancelRequested { .. }
            | Self::FlowFinished { .. }
            | Self::FlowQueued { .. } => None,
            Self::StepExpanded { path, .. }
            | Self::StepFinished { path, .. }
            | Self::CommandRunStarted { path, .. }
            | Self::CommandRunCompleted { path, .. }
            | Self::RetryPlanned { path, .. }
            | Self::RunStopRequested { path, .. }
            | Self::RoundStarted { path, .. }
            | Self::StepWaiting { path, .. }
            | Self::AgentRunStarted { path, .. }
            | Self::RunParked { path, .. }
            | Self::AgentRunCompleted { path, .. }
            | Self::MessageReceived { path, .. }
            | Self::SandboxViolation { path, .. } => Some(path),
            Self::HoldPlaced { path, .. }
            | Self::HoldLifted { path, .. }
            | Self::RequestOpened { path, .. }
            | Self::RequestReminded { path, .. }
            | Self::RequestResolved { path, .. }
            | Self::WallReached { path, .. } => path.as_ref(),
        }
    }
}
