//! A flow and its step instances: what the orchestrator remembers between two decisions.
//!
//! This is the state itself; rows are its projection. It holds what `decide` needs and nothing else: of runs only the
//! live ones (the store keeps the others). Changes are made by applying a [`crate::effect::Change`], never in place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::graph::SpecIndex;
use crate::ids::{ContentHash, FlowId, RunId, WorkspaceId};
use crate::path::StepPath;
use crate::principal::Principal;
use crate::run::{Failure, Run};
use crate::time::Timestamp;
use crate::value::Value;

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
    /// The checkout it works in (`worktree: in_place`), an absolute path.
    pub directory: String,
    /// Who started it.
    pub requested_by: Principal,
    /// When.
    pub created_at: Timestamp,
    /// The flow that this one carries on after `retry`.
    pub retry_of: Option<FlowId>,
    /// Results of that flow that stay true, by path; empty unless `retry_of` is set.
    pub taken_over: BTreeMap<StepPath, TakenOver>,
}

/// A result that a retry takes over instead of making it again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TakenOver {
    /// `Succeeded` or `NoChange`; nothing else counts as done.
    pub outcome: StepOutcome,
    /// What the step put out.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::value::deserialize_present")]
    pub output: Option<Value>,
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
}

/// Where a flow stands. Waiting and paused are derived from its steps, runs and holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
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
    /// For the element of a fan-out: the group it belongs to, its index and its value.
    pub element: Option<Element>,
    /// Where it stands.
    pub state: StepState,
    /// Since when it stands there.
    pub since: Timestamp,
    /// Runs made so far.
    pub attempts: u32,
    /// Of these, those whose failure used up the step's `retry:`.
    pub failures: u32,
    /// Of these, those whose process was lost.
    pub losses: Losses,
    /// What it put out, once it succeeded. The results of a fan-out are those of its elements.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::value::deserialize_present")]
    pub output: Option<Value>,
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
    /// A fan-out whose elements are not all finished.
    Waiting(FanOut),
    /// Over.
    Finished {
        /// How.
        outcome: StepOutcome,
    },
}

/// Why a ready step does not start although its time has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// No slot is free in this instance.
    Slot,
    /// As many elements of its fan-out hold a slot as `limit:` allows.
    Limit,
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
    /// The position of element 0; elements follow without gaps.
    pub first: StepNo,
    /// Elements that were not written were given up, by a cancel or `fail_fast`.
    pub cut: bool,
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
}

impl std::fmt::Display for SkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Condition => f.write_str("its `if` is false"),
            Self::Parent { path, outcome } => write!(f, "`{path}` {outcome}"),
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
