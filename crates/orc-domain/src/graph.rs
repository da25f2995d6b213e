//! A compiled pipeline: what a flow pins when it starts, immutable and named by the hash of its canonical JSON.
//!
//! [`Pipeline`] is the stored form. [`Graph`] is built from it once per flow in memory (petgraph) and answers who waits
//! for whom. `orc-spec` guarantees before a `Pipeline` exists: unique keys, needs that exist and have no cycle, `finally`
//! steps that need only `finally` steps.

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use serde::{Deserialize, Serialize};

use crate::expr::{Expr, Template};
use crate::ids::ContentHash;
use crate::time::Millis;
use crate::value::Value;

/// Retries wait at most this long unless the pipeline says otherwise.
pub const DEFAULT_MAX_BACKOFF: Millis = Millis::from_secs(3600);
/// A step without `timeout:` may run this long, as on GitHub Actions (360 minutes).
pub const DEFAULT_TIMEOUT: Millis = Millis::from_secs(6 * 3600);
/// All `finally` steps together may take this long.
pub const FINALLY_DEADLINE: Millis = Millis::from_secs(15 * 60);
/// Elements of one `foreach`.
pub const MAX_ELEMENTS: usize = 1_000;
/// Elements written in one transaction.
pub const EXPANSION_PAGE: usize = 200;
/// Bytes of JSON that one `foreach` list may have.
pub const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of JSON that one element may have.
pub const MAX_ITEM_BYTES: usize = 256 * 1024;
/// Bytes of JSON that the outputs of one step may have; beyond that it is an artifact.
pub const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// A pipeline, checked and with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// `name:`, or the file's stem.
    pub name: String,
    /// `description:`.
    pub description: Option<String>,
    /// `inputs:`, by name.
    pub inputs: BTreeMap<String, InputSpec>,
    /// `env:` for all steps.
    pub env: BTreeMap<String, Template>,
    /// All steps: those of `steps:` in file order, then those of `finally:` in file order.
    pub steps: Vec<StepSpec>,
}

impl Pipeline {
    /// The hash that names this definition. Struct fields serialize in declared order and maps are ordered, so equal
    /// pipelines have equal bytes.
    ///
    /// # Errors
    /// When a value has no JSON form (a float that is not a number).
    pub fn content_hash(&self) -> Result<ContentHash, serde_json::Error> {
        Ok(ContentHash::of(&serde_json::to_vec(self)?))
    }
}

/// An input of the flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputSpec {
    /// What values it takes.
    pub kind: InputKind,
    /// `description:`.
    pub description: Option<String>,
    /// The value when none is given; an input without one is required.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::value::deserialize_present")]
    pub default: Option<Value>,
}

/// The type of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// Text.
    String,
    /// A whole number or a decimal one.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    List,
    /// A map.
    Map,
}

/// Position of a step in [`Pipeline::steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpecIndex(pub u32);

/// One step of the definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepSpec {
    /// The name under `steps:`; letters, digits, `_` and `-`, beginning with a letter.
    pub key: String,
    /// Whether it stands under `steps:` or `finally:`.
    pub phase: PhaseKind,
    /// Direct parents, in file order, without duplicates.
    pub needs: Vec<SpecIndex>,
    /// `if:`.
    pub condition: Condition,
    /// What it does.
    pub action: Action,
    /// `env:` of the step, over the pipeline's.
    pub env: BTreeMap<String, Template>,
    /// `foreach:`.
    pub foreach: Option<ForEach>,
    /// `retry:`.
    pub retry: Retry,
    /// `timeout:` of one attempt.
    pub timeout: Millis,
    /// A failure of this step does not fail the flow and is accepted by what needs it.
    pub continue_on_fail: bool,
    /// False: an attempt that was in flight when its process was lost is never made again without a person.
    pub idempotent: bool,
    /// Where it works.
    pub worktree: WorktreeMode,
}

/// Which part of the flow a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// `steps:`.
    Main,
    /// `finally:`; starts when every main step is finished, whatever the outcome.
    Finally,
}

/// When a step runs, once all its direct parents are finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// True when the expression names no status function: then every direct parent must also be accepted (succeeded, no
    /// change, or failed under `continue_on_fail`), as on GitHub Actions. In `finally` it asks nothing of the main phase.
    pub implicit_success: bool,
    /// `if:`, if written.
    pub expr: Option<Expr>,
}

/// What a step does. Agents, child pipelines and the rest come with their own variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// `run:`.
    Run(RunAction),
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

/// Fan-out over a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForEach {
    /// Gives the list; evaluated once.
    pub list: Expr,
    /// `as:`, default `item`.
    pub binding: String,
    /// Elements that may hold a slot at the same time.
    pub limit: Option<u32>,
    /// The first failure cancels the other elements.
    pub fail_fast: bool,
}

/// `retry:`; waits `backoff`, then twice as long each time, at most `max_backoff`, plus up to a quarter of jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, at least 1.
    pub attempts: u32,
    /// Wait before the second attempt.
    pub backoff: Millis,
    /// Longest wait.
    pub max_backoff: Millis,
}

/// Where a step works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeMode {
    /// The user's own checkout: no copy, no box. Must be written down, and status shows it.
    InPlace,
}

/// Who waits for whom.
#[derive(Clone, Debug)]
pub struct Graph {
    edges: DiGraph<SpecIndex, ()>,
}

impl Graph {
    /// Edges from each need to the step that needs it.
    #[must_use]
    pub fn of(pipeline: &Pipeline) -> Self {
        let mut edges = DiGraph::with_capacity(pipeline.steps.len(), pipeline.steps.len());
        for index in 0..pipeline.steps.len() {
            edges.add_node(SpecIndex(u32::try_from(index).unwrap_or(u32::MAX)));
        }
        for (index, step) in pipeline.steps.iter().enumerate() {
            for need in &step.needs {
                // update_edge: parallel edges would be counted twice.
                edges.update_edge(NodeIndex::new(need.0 as usize), NodeIndex::new(index), ());
            }
        }
        Self { edges }
    }

    /// Steps that directly need `step`, in file order.
    #[must_use]
    pub fn dependents(&self, step: SpecIndex) -> Vec<SpecIndex> {
        let mut found: Vec<SpecIndex> = self
            .edges
            .edges(NodeIndex::new(step.0 as usize))
            .map(|edge| SpecIndex(u32::try_from(edge.target().index()).unwrap_or(u32::MAX)))
            .collect();
        found.sort_unstable();
        found
    }

    /// Every step that needs `step`, directly or not.
    #[must_use]
    pub fn descendants(&self, step: SpecIndex) -> Vec<SpecIndex> {
        let mut seen = std::collections::BTreeSet::new();
        let mut open = self.dependents(step);
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(self.dependents(next));
            }
        }
        seen.into_iter().collect()
    }
}
