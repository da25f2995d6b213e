//! What a step does: one variant of [`Action`] for each kind of step.
//!
//! Everything here is compiled and checked; `decide` evaluates the expressions when the step's time has come. Kinds of
//! steps that run something hold a slot while they do; the others wait, and hold none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::expr::{Expr, Template};
use crate::graph::SpecIndex;
use crate::ids::ContentHash;
use crate::permission::Permissions;
use crate::time::Millis;

/// Rounds of one `repeat` at most.
pub const MAX_ROUNDS: u32 = 100;
/// An approval without `timeout:` waits this long, and is then denied.
pub const DEFAULT_APPROVAL_TIMEOUT: Millis = Millis::from_secs(7 * 24 * 3600);
/// A `wait` for an event without `timeout:` waits this long.
pub const DEFAULT_EVENT_TIMEOUT: Millis = Millis::from_secs(24 * 3600);

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// `run:`.
    Run(RunAction),
    /// `agent:`.
    Agent(AgentAction),
    /// `repeat:`.
    Repeat(RepeatAction),
    /// `pipeline:`.
    Pipeline(PipelineAction),
    /// `approval:`.
    Approval(ApprovalAction),
    /// `wait:`.
    Wait(WaitAction),
}

impl Action {
    /// The key under which it is written.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Agent(_) => "agent",
            Self::Repeat(_) => "repeat",
            Self::Pipeline(_) => "pipeline",
            Self::Approval(_) => "approval",
            Self::Wait(_) => "wait",
        }
    }

    /// Whether it becomes a run, which holds a slot while it lives.
    #[must_use]
    pub const fn is_run(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Agent(_))
    }
}

/// A command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunAction {
    /// The script as given to the shell; each `${{ }}` of the source is a reference to a variable of [`Self::bindings`].
    pub script: String,
    /// The program that reads it, and its arguments before the script: `["sh", "-eu", "-c"]`.
    pub shell: Vec<String>,
    /// Environment variables that carry the values of the expressions of the script, in order: `ORC_EXPR_1` ...
    pub bindings: Vec<(String, Expr)>,
}

/// A run of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentAction {
    /// The profile's name; the profile itself is in [`crate::graph::Pipeline::agents`].
    pub agent: String,
    /// What it is asked.
    pub prompt: Template,
    /// JSON Schema that its output must meet, over the profile's; with one, an end without output is no delivery.
    #[serde(default)]
    pub schema: Option<serde_json::Value>,
    /// `permissions:`; what holds for it beside what its profile says.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
}

/// A body of steps that runs in rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepeatAction {
    /// The first step of the body in [`crate::graph::Pipeline::steps`]; the others follow without gaps.
    pub first: SpecIndex,
    /// Steps of the body.
    pub count: u32,
    /// Rounds at most.
    pub max: u32,
    /// Ends it when true after a round. Without it, all rounds are made.
    pub until: Option<Expr>,
}

/// Another pipeline as a child flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineAction {
    /// Its name, for people.
    pub name: String,
    /// The definition, pinned when the parent was compiled.
    pub pipeline: ContentHash,
    /// Its inputs.
    pub with: BTreeMap<String, Template>,
}

/// A request to people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAction {
    /// Names and groups of the settings that may answer; empty: whoever has the role admin.
    pub by: Vec<String>,
    /// What is asked, for people.
    pub message: Option<Template>,
    /// After this time it is closed by [`Self::on_timeout`].
    pub timeout: Millis,
    /// What the deadline means.
    pub on_timeout: OnTimeout,
    /// People are reminded each time this has passed.
    pub remind: Option<Millis>,
    /// Who else may answer after a while, in order of time.
    pub tiers: Vec<Tier>,
    /// Whoever started the flow may not answer.
    pub four_eyes: bool,
}

/// What a deadline of a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// No.
    Deny,
    /// Yes.
    Approve,
}

/// A further group of people that may answer after a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// Since the request was opened.
    pub after: Millis,
    /// Names and groups of the settings.
    pub by: Vec<String>,
}

/// A time or an event to wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitAction {
    /// As long as this from the moment the step is reached: `10m`.
    For(Template),
    /// Until a time: `2026-12-24T18:00:00Z`.
    Until(Template),
    /// Until an event of another flow.
    Event {
        /// Which.
        event: WaitEvent,
        /// Its pipeline's name; none: any.
        pipeline: Option<Template>,
        /// Not longer than this; then the step fails.
        timeout: Millis,
    },
}

/// Kinds of events that a step can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitEvent {
    /// A flow is over.
    FlowFinished,
    /// A run of an agent is over.
    AgentRunCompleted,
}

impl WaitEvent {
    /// All of them.
    pub const ALL: &[Self] = &[Self::FlowFinished, Self::AgentRunCompleted];

    /// Its name, as written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FlowFinished => "FlowFinished",
            Self::AgentRunCompleted => "AgentRunCompleted",
        }
    }
}
