//! A flow and its step instances: what the orchestrator remembers between two decisions.
//!
//! This is the state itself; rows are its projection. It holds what `decide` needs and nothing else: of runs only the
//! live ones (the store keeps the others). Changes are made by applying a [`crate::effect::Change`], never in place.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::budget::{Usage, Wall};
use crate::claim::Holder;
use crate::graph::SpecIndex;
use crate::hold::Hold;
use crate::ids::{ContentHash, FlowId, MessageId, RequestId, RunId, WorkspaceId};
use crate::meter::{Limits, Owner};
use crate::path::StepPath;
use crate::permission::Above;
use crate::principal::Principal;
use crate::request::Request;
use crate::run::{Failure, Message, Run};
use crate::time::Timestamp;
use crate::tree::{Repository, Tip, Tree};
use crate::value::Value;
use crate::wait::Wait;

/// What never changes about a flow, fixed when it starts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Its id.
    pub id: FlowId,
    /// The tenant.
    pub workspace: WorkspaceId,
    /// The definition it pinned.
    pub pipeline: ContentHash,
    /// The pipeline's name, for people.
    pub name: String,
    /// Checked inputs.
    pub inputs: BTreeMap<String, Value>,
    /// The checkout that it was started in, an absolute path; where steps with `worktree: in_place` work.
    pub directory: String,
    /// Repositories that its steps get private copies of, pinned; the first is the one they work in. Empty when no step
    /// gets a copy.
    #[serde(default)]
    pub repositories: Vec<Repository>,
    /// What its first steps start from, merged in this order; none: the commits of [`Self::repositories`].
    #[serde(default)]
    pub from: Vec<Tip>,
    /// Who started it.
    pub requested_by: Principal,
    /// When.
    pub created_at: Timestamp,
    /// The flow that this one carries on after `retry`.
    pub retry_of: Option<FlowId>,
    /// Results of that flow that stay true, by path; empty unless `retry_of` is set.
    pub taken_over: BTreeMap<StepPath, TakenOver>,
    /// Child flows of that flow that are carried on instead of begun anew, by the path of their step.
    #[serde(default)]
    pub carried: BTreeMap<StepPath, FlowId>,
    /// The step that this flow is a child of.
    #[serde(default)]
    pub parent: Option<Parent>,
    /// Concurrency groups that the flows above it are in: it is in them with them.
    #[serde(default)]
    pub groups_above: BTreeSet<String>,
    /// Added to the priority of each of its steps.
    #[serde(default)]
    pub priority: i16,
    /// Walls of the flows above it, the nearest first: what its agents use counts below them too.
    #[serde(default)]
    pub walls_above: Vec<(Owner, Limits)>,
    /// What the flows above it let anybody below them do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<Above>,
}

/// The step whose child a flow is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Parent {
    /// Its flow.
    pub flow: FlowId,
    /// Its position there.
    pub no: StepNo,
    /// Its name there.
    pub path: StepPath,
}

/// A result that a retry takes over instead of making it again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TakenOver {
    /// `Succeeded` or `NoChange`; nothing else counts as done.
    pub outcome: StepOutcome,
    /// What the step put out.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::value::deserialize_present")]
    pub output: Option<Value>,
    /// Files that were kept of it; they stay those of the flow that is carried on.
    #[serde(default)]
    pub artifacts: BTreeMap<String, Artifact>,
    /// What it hands on.
    #[serde(default)]
    pub tips: Vec<Tip>,
}

/// A file that was kept of a step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Artifact {
    /// Where it lies, an absolute path.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// The hash of its content.
    pub hash: ContentHash,
}

/// The changing part of a flow that is not in its steps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FlowHead {
    /// Where it stands.
    pub state: FlowState,
    /// Counts decisions; guards every write.
    pub version: u64,
    /// When the flow wants to be looked at again; `None` only when it is finished.
    pub wake_at: Option<Timestamp>,
    /// The latest point in time that a decision saw: a clock that jumps back does not turn the flow's time back.
    pub seen: Timestamp,
    /// Main steps that are not finished.
    pub open_main: u32,
    /// `finally` steps that are not finished.
    pub open_finally: u32,
    /// A main step failed without `continue_on_fail`.
    pub main_failed: bool,
    /// The same in `finally`.
    pub finally_failed: bool,
    /// Why nothing of it, or of one of its steps, may start.
    #[serde(default)]
    pub holds: Vec<Hold>,
    /// The concurrency group that it is in.
    #[serde(default)]
    pub group: Option<String>,
    /// What its agents used.
    #[serde(default)]
    pub usage: Usage,
    /// How often its walls count: 1, and one more each time somebody raised them.
    #[serde(default = "one")]
    pub raised: u32,
    /// When its time is over, if its budget has one.
    #[serde(default)]
    pub time_over: Option<Timestamp>,
    /// What it hands to its parent, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::value::deserialize_present")]
    pub output: Option<Value>,
    /// Why it ended as it did, where that is no step's doing.
    #[serde(default)]
    pub detail: String,
    /// What it hands on, once it is over: the tips of its last steps.
    #[serde(default)]
    pub tips: Vec<Tip>,
}

const fn one() -> u32 {
    1
}

/// Where a flow stands. Waiting and paused are derived from its steps, runs and holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// Its concurrency group is full; nothing of it has begun.
    Queued {
        /// Since when.
        since: Timestamp,
        /// The group.
        group: String,
        /// Who was in it when it was tried last.
        behind: Vec<Holder>,
    },
    /// Its steps are being carried out.
    Live {
        /// Which part.
        phase: Phase,
        /// Whether it was asked to end.
        stop: Stop,
    },
    /// Over.
    Finished {
        /// When.
        at: Timestamp,
        /// How.
        outcome: FlowOutcome,
    },
}

/// Which part of a live flow is being carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// `steps:`
    Main,
    /// `finally:`
    Finally {
        /// When what is left of it is ended.
        deadline: Timestamp,
    },
}

/// Whether a live flow was asked to end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// No.
    None,
    /// Nothing new starts, runs are ended, `finally` still runs.
    Cancel {
        /// Who asked.
        by: Principal,
        /// When.
        at: Timestamp,
    },
    /// Everything is ended at once.
    Force {
        /// Who asked.
        by: Principal,
        /// When.
        at: Timestamp,
    },
    /// A wall was reached and nobody raised it: as after a cancel, but for the outcome.
    Exhausted {
        /// Which wall.
        wall: Wall,
        /// When.
        at: Timestamp,
    },
}

/// How a flow ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowOutcome {
    /// Every step that had to succeed did.
    Succeeded,
    /// A step failed.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// A wall was reached and nobody raised it.
    BudgetExhausted,
}

impl FlowOutcome {
    /// The word in rows, status and exit hints.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::BudgetExhausted => "budget_exhausted",
        }
    }
}

/// Position of a step instance in its flow, in order of creation; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepNo(pub u32);

/// A step instance.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its position.
    pub no: StepNo,
    /// Its name.
    pub path: StepPath,
    /// Its definition.
    pub spec: SpecIndex,
    /// What made it.
    pub origin: Origin,
    /// Where it stands.
    pub state: StepState,
    /// Since when it stands there.
    pub since: Timestamp,
    /// Runs made so far.
    pub attempts: u32,
    /// Of these, those whose failure used up the step's `retry:`. Whoever resolves a conflict has one of his own.
    pub failures: u32,
    /// Of these, those whose process was lost.
    pub losses: Losses,
    /// Of these, those that fell silent.
    #[serde(default)]
    pub silences: u32,
    /// Of these, those that failed because a service outside had a bad moment.
    #[serde(default)]
    pub upstream: u32,
    /// Concurrency groups that it is in while it is under way.
    #[serde(default)]
    pub places: Vec<String>,
    /// Files that were kept of it, by name.
    #[serde(default)]
    pub artifacts: BTreeMap<String, Artifact>,
    /// How often its agent was told that it owes something.
    #[serde(default)]
    pub reminders: u32,
    /// What its agent has been told and no run has taken yet.
    #[serde(default)]
    pub inbox: Vec<Message>,
    /// Messages that people ever sent it: one that comes twice is heard once.
    #[serde(default)]
    pub heard: BTreeSet<MessageId>,
    /// Whether what it starts from, or what its elements made, can be merged.
    #[serde(default)]
    pub merging: Merging,
    /// What it hands on, once it is over; none: the flow's base.
    #[serde(default)]
    pub tips: Vec<Tip>,
    /// What it put out, once it succeeded. The results of a fan-out are those of its elements.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::value::deserialize_present")]
    pub output: Option<Value>,
}

/// How the tips that a step brings together get along.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Merging {
    /// A merge does it, as far as is known.
    #[default]
    Plain,
    /// They contradict each other, and its `on_conflict` agent is to bring them together; with what was brought together
    /// before, when several contradict one another.
    Contradicting(Option<Tree>),
    /// Somebody brought some of them together to this; the others are merged with it.
    Resolved(Tree),
}

impl Merging {
    /// Whether somebody is to bring tips together.
    #[must_use]
    pub const fn is_contradicting(&self) -> bool {
        matches!(self, Self::Contradicting(_))
    }

    /// What was brought together so far.
    #[must_use]
    pub const fn so_far(&self) -> Option<&Tree> {
        match self {
            Self::Plain | Self::Contradicting(None) => None,
            Self::Contradicting(Some(tree)) | Self::Resolved(tree) => Some(tree),
        }
    }
}

/// How often the process of a step was lost with its instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Losses {
    /// In all.
    pub total: u32,
    /// In a row without anything else of the flow getting done in between: the sign of a step that takes its instance
    /// with it. Whoever only ran beside such a step, or when somebody pulled the plug, gets on between two losses.
    pub in_vain: u32,
    /// Steps of the flow that were finished at the last one.
    pub finished_then: u32,
}

/// What made a step instance.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The start of the flow: its position is that of its definition.
    Root,
    /// A fan-out.
    Element(Element),
    /// A `repeat`.
    Round {
        /// The step that repeats.
        of: StepNo,
        /// 1 for the first round.
        number: u32,
        /// The position of the first step of the body in this round.
        first: StepNo,
    },
}

impl Origin {
    /// The element, if it is one.
    #[must_use]
    pub const fn element(&self) -> Option<&Element> {
        match self {
            Self::Element(element) => Some(element),
            Self::Root | Self::Round { .. } => None,
        }
    }

    /// The step that made it: the fan-out, or the step that repeats.
    #[must_use]
    pub const fn above(&self) -> Option<StepNo> {
        match self {
            Self::Root => None,
            Self::Element(element) => Some(element.group),
            Self::Round { of, .. } => Some(*of),
        }
    }
}

/// The element of a fan-out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Element {
    /// The fan-out.
    pub group: StepNo,
    /// Its index in the list.
    pub index: u32,
    /// Its value.
    pub value: Value,
}

/// Where a step instance stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// A direct parent is not finished, or `finally` has not begun.
    Blocked,
    /// It may start.
    Ready {
        /// Not before then (back-off).
        not_before: Timestamp,
        /// What it waits for apart from time.
        held_by: Option<Held>,
        /// Why the next run is woken.
        wake: crate::run::WakeReason,
    },
    /// A run tries it.
    Active {
        /// Which.
        run: RunId,
    },
    /// It has no run and waits: for its elements or rounds, a child flow, people, a time, an event.
    Waiting(Wait),
    /// Over.
    Finished {
        /// How.
        outcome: StepOutcome,
    },
}

/// Why a ready step does not start although its time has come.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// No slot is free in this instance.
    Slot,
    /// As many elements of its fan-out are under way as `limit:` allows.
    Limit,
    /// Its concurrency group is full.
    Group {
        /// Which.
        name: String,
        /// Who was in it when it was tried last.
        behind: Vec<Holder>,
    },
}

/// How a step instance ended. Skipped, succeeded and failed are never mixed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// It did what it should.
    Succeeded,
    /// It ended well and there was nothing to do.
    NoChange,
    /// It failed.
    Failed(Failure),
    /// It did not run.
    Skipped(SkipReason),
    /// It was ended because it was no longer wanted.
    Cancelled,
}

impl StepOutcome {
    /// The word in rows, status and expressions.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::NoChange => "no_change",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why a step did not run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Its `if:` was false.
    Condition,
    /// A direct parent did not end in a way that it accepts.
    Parent {
        /// Which.
        path: StepPath,
        /// How it ended.
        outcome: String,
    },
    /// Its concurrency group was full, and it does not wait.
    Group {
        /// Which.
        name: String,
    },
}

impl std::fmt::Display for SkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Condition => f.write_str("its `if` is false"),
            Self::Parent { path, outcome } => write!(f, "`{path}` {outcome}"),
            Self::Group { name } => write!(f, "the concurrency group `{name}` was full"),
        }
    }
}

/// A flow as `decide` sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Flow {
    /// What never changes.
    pub spec: FlowSpec,
    /// What changes.
    pub head: FlowHead,
    /// Step instances; [`StepNo`] is the index.
    pub steps: Vec<Step>,
    /// Runs that are not finished.
    pub runs: BTreeMap<RunId, Run>,
    /// Requests that are not answered.
    pub requests: BTreeMap<RequestId, Request>,
}

impl Flow {
    /// A step instance. `None` for a number that this flow does not have.
    #[must_use]
    pub fn step(&self, no: StepNo) -> Option<&Step> {
        self.steps.get(no.0 as usize)
    }

    /// A step instance by its path.
    #[must_use]
    pub fn step_at(&self, path: &StepPath) -> Option<&Step> {
        self.steps.iter().find(|step| step.path == *path)
    }

    /// Whether it is over.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        matches!(self.head.state, FlowState::Finished { .. })
    }
}
