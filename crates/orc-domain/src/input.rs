//! All that a flow can hear. An input is a fact or a wish from outside; `decide` turns it into changes and effects.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::action::WaitEvent;
use crate::agent::{Statistics, Usage};
use crate::budget::Wall;
use crate::confine::Violation;
use crate::flow::{Artifact, FlowOutcome};
use crate::hold::HoldReason;
use crate::ids::{ContentHash, FlowId, MessageId, RequestId, RunId};
use crate::meter::{Owner, Shortfall};
use crate::path::StepPath;
use crate::permission::{AskedCall, Scope};
use crate::principal::Principal;
use crate::request::{Answer, Standing};
use crate::run::{AgentStop, Failure, Process};
use crate::time::Timestamp;
use crate::tree::{Tip, Tree};
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
    /// What a run made was kept, because it is about to be told that it delivered.
    RunKept {
        /// Which run.
        run: RunId,
        /// Its artifacts, by name.
        artifacts: BTreeMap<String, Artifact>,
        /// The commits that its private copy ended with.
        tree: Option<Tree>,
    },
    /// The box of a run refused something.
    RunViolated {
        /// Which run.
        run: RunId,
        /// What; each kind of try once, with its count.
        violations: Vec<Violation>,
    },
    /// A run's process and everything it started is gone, and we know how it ended.
    RunEnded {
        /// Which run.
        run: RunId,
        /// How.
        ending: Ending,
        /// What is known of an agent at its end.
        told: Option<Told>,
    },
    /// A run of an agent said something. Told now and then, not each time.
    RunHeard {
        /// Which run.
        run: RunId,
        /// What is known of its output.
        statistics: Statistics,
        /// What it used so far.
        usage: Usage,
        /// It does the same again and again.
        looping: bool,
    },
    /// A call of a model was refused at a wall above a run.
    CallRefused {
        /// Which run.
        run: RunId,
        /// Whose wall.
        whose: Owner,
        /// Which.
        wall: Wall,
        /// By how much.
        short: Shortfall,
    },
    /// The provider of a run's model takes no calls for now: the run gives its place up until then.
    RunParked {
        /// Which run.
        run: RunId,
        /// The provider.
        provider: String,
        /// Until when.
        until: Timestamp,
        /// What it said, one line; text from outside.
        why: String,
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
    /// Another flow wants it to end: the one it is a child of, or a newer one of its concurrency group. Other than a cancel
    /// it means the same however often it is heard.
    End {
        /// At once.
        force: bool,
    },
    /// A child flow is over.
    ChildEnded {
        /// Which.
        flow: FlowId,
        /// How.
        outcome: FlowOutcome,
        /// What it hands over.
        output: Option<Value>,
        /// What its last steps made.
        tips: Vec<Tip>,
        /// Why, where that is known.
        detail: String,
    },
    /// Somebody answers a request.
    Answer {
        /// Which.
        request: RequestId,
        /// Yes or no.
        answer: Answer,
        /// For how long, where it is about a call.
        scope: Scope,
        /// What they saw; none: whatever it is now.
        subject: Option<ContentHash>,
        /// What they are.
        standing: Standing,
        /// In their words; may be empty.
        reason: String,
    },
    /// Somebody wants nothing more to start, in all of it or in one step.
    Hold {
        /// The step; none: the flow.
        step: Option<StepPath>,
        /// Why.
        reason: HoldReason,
        /// In their words; may be empty.
        note: String,
        /// When it ends by itself, if it does.
        until: Option<Timestamp>,
    },
    /// Somebody wants it to go on.
    Lift {
        /// The step; none: the flow.
        step: Option<StepPath>,
        /// Which kind of hold.
        reason: HoldReason,
    },
    /// Somebody writes to the agent of a step.
    Message {
        /// The step.
        path: StepPath,
        /// The message's id, made where it came in: a message that comes twice is heard once.
        id: MessageId,
        /// The text.
        text: String,
    },
    /// Something happened in another flow.
    Happened {
        /// What.
        event: WaitEvent,
        /// In which flow.
        flow: FlowId,
        /// The name of its pipeline.
        pipeline: String,
        /// When.
        at: Timestamp,
        /// How it ended, for expressions.
        outcome: String,
    },
}

/// What is known of an agent when its run is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Told {
    /// Its last message.
    pub answer: Option<String>,
    /// What it used.
    pub usage: Usage,
    /// Why it stopped, where that is known.
    pub stop: Option<AgentStop>,
    /// What is known of its output.
    pub statistics: Statistics,
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
    /// An agent ended well and owes something.
    NoDeliverable {
        /// What.
        missing: String,
    },
    /// An agent says that it cannot go on without an answer.
    Blocked {
        /// What it asks, or why.
        why: String,
        /// The call that it asks about, when it asks whether that may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<AskedCall>,
    },
    /// It did not.
    Failed(Failure),
}
