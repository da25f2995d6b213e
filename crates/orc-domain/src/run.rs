//! A run: one attempt at a step. Its states, outcomes, error families and wake reasons (design: flows, runs, recovery).
//!
//! "Exit code 0" is not delivery: the outcome says what happened, the family decides once, where the failure is first
//! understood, what is done about it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::agent::AgentStop;
use crate::agent::{Statistics, Usage};
use crate::budget::Wall;
use crate::confine::Violation;
use crate::flow::StepNo;
use crate::ids::{ContentHash, FlowId, InstanceId, MessageId, RunId};
use crate::meter::Shortfall;
use crate::path::StepPath;
use crate::permission::{AskedCall, CallAnswer};
use crate::principal::Principal;
use crate::request::Answer;
use crate::time::{Millis, Timestamp};
use crate::tree::{Conflict, Tree};

/// One attempt at a step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The fence: derived from flow, path and attempt.
    pub id: RunId,
    /// The flow it belongs to.
    pub flow: FlowId,
    /// The step instance it tries.
    pub no: StepNo,
    /// Its name.
    pub path: StepPath,
    /// 1 for the first.
    pub attempt: u32,
    /// Why it was woken.
    pub wake: WakeReason,
    /// When it was decided.
    pub created_at: Timestamp,
    /// Files that are to be kept once it has delivered: paths below where it works, by name.
    #[serde(default)]
    pub artifacts: BTreeMap<String, String>,
    /// The commits that its private copy ended with, once it delivered.
    #[serde(default)]
    pub tree: Option<Tree>,
    /// What its box refused, as far as was told.
    #[serde(default)]
    pub violations: Vec<Violation>,
    /// What is known of it as an agent's; none: a command, or a merge.
    #[serde(default)]
    pub agent: Option<AgentRun>,
    /// Where it stands.
    pub state: RunState,
}

/// What the log of an agent's run knows beside its state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentRun {
    /// The agent's name.
    pub agent: String,
    /// Its profile, by the hash of what was used.
    pub profile: ContentHash,
    /// How long it may say nothing.
    pub silence: Millis,
    /// What is known of its output.
    pub statistics: Statistics,
    /// What it used, as it told.
    pub usage: Usage,
    /// Messages that it took from the inbox of its conversation.
    pub messages: Vec<Message>,
    /// Its last message.
    pub answer: Option<String>,
    /// Why it ended, where that is known.
    pub stop: Option<AgentStop>,
    /// At which figures it reached the wall of its step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<Shortfall>,
}

/// A message to an agent in a conversation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Who wrote it.
    pub from: Principal,
    /// When.
    pub at: Timestamp,
    /// The text.
    pub text: String,
    /// What it answers, when it answers whether a call may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<CallAnswer>,
}

/// Where a run stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Decided; its process is not known yet. `deadline`: when we stop believing that it will be.
    Pending {
        /// Since when.
        since: Timestamp,
        /// Alarm.
        deadline: Timestamp,
        /// A stop that came before the process did.
        stop: Option<Stopping>,
    },
    /// Its process lives.
    Running {
        /// When it was started.
        since: Timestamp,
        /// Which process.
        process: Process,
        /// When the attempt has taken too long.
        deadline: Timestamp,
        /// Set once it was asked to end.
        stop: Option<Stopping>,
    },
    /// Over.
    Finished {
        /// When.
        at: Timestamp,
        /// How.
        outcome: RunOutcome,
    },
}

/// A run that was asked to end and has not yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stopping {
    /// Why.
    pub reason: StopReason,
    /// When we ask again, harder: every state that is not final has an alarm.
    pub again_at: Timestamp,
    /// Whether it was told to end at once.
    pub forced: bool,
}

/// Why a run was asked to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The flow was cancelled.
    Cancel,
    /// A sibling of a `fail_fast` fan-out failed.
    FailFast,
    /// The attempt took longer than its `timeout`.
    Timeout,
    /// `finally` took longer than its deadline.
    FinallyDeadline,
    /// No start was confirmed in time.
    StartDeadline,
    /// It said nothing for longer than it may.
    Silence,
    /// It did the same again and again.
    Looping,
    /// A wall was reached.
    Wall(Wall),
    /// A wall of its flow was reached, and somebody is asked to raise it: then it runs again.
    FlowWall(Wall),
    /// The provider of its model takes no calls until then: then it runs again.
    Parked(Timestamp),
    /// A person paused it, and it can go on where it stands: it ends at its next turn, and runs again when it may.
    Paused,
}

/// A process, so that it can be recognised even after its number was used again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Process id, which is also the process group.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
    /// The instance whose child it is.
    pub instance: InstanceId,
}

/// How a run ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// It ended and everything it owed is there.
    Delivered,
    /// It ended well and something it owed is missing.
    NoDeliverable {
        /// What.
        missing: String,
    },
    /// It says that it cannot go on.
    Blocked {
        /// Why.
        why: String,
        /// The call that it asks about, when it asks whether that may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<AskedCall>,
    },
    /// It failed.
    Failed(Failure),
    /// It was stopped because it was no longer wanted.
    Cancelled {
        /// Why.
        reason: StopReason,
    },
}

impl RunOutcome {
    /// The word in documents and expressions.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::NoDeliverable { .. } => "no_deliverable",
            Self::Blocked { .. } => "blocked",
            Self::Failed(_) => "failed",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// The coarse status that operators know: `completed` or `error`.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Delivered | Self::NoDeliverable { .. } | Self::Blocked { .. } => "completed",
            Self::Failed(_) | Self::Cancelled { .. } => "error",
        }
    }
}

impl RunState {
    /// The coarse status that operators know: `pending`, `running`, `completed` or `error`. Derived, never stored.
    #[must_use]
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Running { .. } => "running",
            Self::Finished { outcome, .. } => outcome.status(),
        }
    }

    /// Whether it is over.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        matches!(self, Self::Finished { .. })
    }
}

/// A failure: what happened, and the family that alone decides about a retry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Decides what is done about it.
    pub family: ErrorFamily,
    /// What happened.
    pub cause: Cause,
    /// More, for people: the last line of the error output, the message of the system. May be empty.
    pub detail: String,
}

/// Error families; fixed words that status and filters use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorFamily {
    /// A service outside had a bad moment.
    TransientUpstream,
    /// The place where it should have run could not be made.
    SandboxInfrastructure,
    /// A wall was reached.
    BudgetExceeded,
    /// Its process or machine is gone and nobody knows its exit status.
    ProcessLost,
    /// It said nothing for longer than it may.
    SilentRun,
    /// A rule forbade what it wanted.
    PolicyDenied,
    /// Anything else; the step's own `retry:` decides.
    Unknown,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The program ended with this code.
    Exit(i32),
    /// A signal that we did not send ended it.
    Signal(i32),
    /// It took longer than `timeout` and was ended.
    Timeout(Millis),
    /// It could not be started: no such program, no such directory, no permission.
    Start,
    /// It ended well but its outputs cannot be read.
    Output,
    /// It ended well and a file that was to be kept is not there, or cannot be kept.
    Artifact,
    /// What it starts from, or what its elements made, contradicts itself, and nobody brought it together.
    Conflict(Conflict),
    /// Its private copy cannot be made, or what is in it cannot be kept.
    Worktree,
    /// An expression of the step has no value.
    Expression,
    /// Its instance ended while it ran.
    Lost,
    /// The same, so often that it is not tried again.
    Quarantined {
        /// How often it was lost.
        losses: u32,
    },
    /// The same, and it is `idempotent: false`: a person must decide.
    LostNotIdempotent,
    /// `foreach:` gave something that cannot be expanded.
    Expansion,
    /// Elements of the fan-out failed.
    Elements {
        /// How many.
        failed: u32,
        /// Of how many.
        total: u32,
    },
    /// A step of this round of a `repeat` failed.
    Round {
        /// 1 for the first.
        number: u32,
    },
    /// `until:` did not hold, and the last round changed nothing that the one before had not.
    NoProgress {
        /// How many were made.
        made: u32,
    },
    /// `until:` did not hold after the last round.
    Rounds {
        /// How many were made.
        made: u32,
    },
    /// The child flow did not succeed.
    Child {
        /// How it ended.
        outcome: crate::flow::FlowOutcome,
    },
    /// People answered no, or nobody did in time.
    Answer {
        /// Who; `system` at the deadline.
        by: Principal,
        /// What.
        answer: Answer,
    },
    /// The event did not come within this time.
    NoEvent(Millis),
    /// The agent ended and owes something.
    Missing,
    /// The agent says that it cannot go on.
    Blocked,
    /// The agent says that it failed.
    Reported,
    /// The agent said nothing for longer than it may.
    Silent(Millis),
    /// The agent did the same again and again.
    Looping,
    /// A wall was reached.
    Wall(Wall),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Timeout(after) => write!(f, "took longer than its timeout of {after}"),
            Self::Start => f.write_str("could not be started"),
            Self::Output => f.write_str("its outputs cannot be read"),
            Self::Artifact => f.write_str("an artifact cannot be kept"),
            Self::Conflict(conflict) => write!(f, "conflict: {conflict}"),
            Self::Worktree => f.write_str("its private copy cannot be made or kept"),
            Self::Expression => f.write_str("an expression has no value"),
            Self::Lost => f.write_str("its process was lost"),
            Self::Quarantined { losses } => {
                write!(f, "quarantined: its process was lost {losses} times in a row while nothing else got done")
            }
            Self::LostNotIdempotent => {
                f.write_str("its process was lost while it ran, and it is `idempotent: false`: a person must decide")
            }
            Self::Expansion => f.write_str("its list cannot be expanded"),
            Self::Elements { failed, total } => write!(f, "{failed} of {total} elements failed"),
            Self::Round { number } => write!(f, "round {number} failed"),
            Self::Rounds { made } => write!(f, "`until` did not hold after {made} rounds"),
            Self::NoProgress { made } => {
                write!(f, "`until` did not hold after round {made}, which changed nothing that the one before had not")
            }
            Self::Child { outcome } => write!(f, "the child flow ended {}", outcome.word()),
            Self::Answer { by: Principal::System, answer } => write!(f, "{} at its deadline", answer.word()),
            Self::Answer { by, answer } => write!(f, "{} by {by}", answer.word()),
            Self::NoEvent(after) => write!(f, "the event did not come within {after}"),
            Self::Missing => f.write_str("it ended without what it owes"),
            Self::Blocked => f.write_str("it says that it cannot go on"),
            Self::Reported => f.write_str("it says that it failed"),
            Self::Silent(after) => write!(f, "it said nothing for {after} and was ended"),
            Self::Looping => f.write_str("it did the same again and again and was ended"),
            Self::Wall(wall) => write!(f, "its budget of `{}` was reached", wall.word()),
        }
    }
}

impl Failure {
    /// Whether a person should look at it, whatever the pipeline says about failures: the installation or an agent is in
    /// trouble, a limit was reached, results contradict each other, or something was decided because nobody answered.
    #[must_use]
    pub const fn is_incident(&self) -> bool {
        match &self.cause {
            Cause::Quarantined { .. }
            | Cause::LostNotIdempotent
            | Cause::Silent(_)
            | Cause::Looping
            | Cause::Conflict(_)
            | Cause::Wall(_) => true,
            Cause::Answer { by, .. } => matches!(by, Principal::System),
            _ => matches!(self.family, ErrorFamily::SandboxInfrastructure | ErrorFamily::PolicyDenied),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() { write!(f, "{}", self.cause) } else { write!(f, "{}: {}", self.cause, self.detail) }
    }
}

/// Why a run was woken, with the ids that belong to it; in its environment as `ORC_WAKE_REASON`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WakeReason {
    /// The pipeline reached the step, or its `retry:` did.
    PipelineStep,
    /// The run before was lost.
    Recovery {
        /// The lost run.
        lost: RunId,
    },
    /// What it starts from contradicts itself, and it is to bring that together.
    Conflict,
    /// Somebody wrote to it.
    UserMessage {
        /// The message that woke it; all of them are in its inbox.
        message: MessageId,
    },
}

impl WakeReason {
    /// The word in `ORC_WAKE_REASON`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::PipelineStep => "pipelineStep",
            Self::Recovery { .. } => "recovery",
            Self::Conflict => "conflict",
            Self::UserMessage { .. } => "userMessage",
        }
    }
}
