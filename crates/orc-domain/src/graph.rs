//! A compiled pipeline: what a flow pins when it starts, immutable and named by the hash of its canonical JSON.
//!
//! [`Pipeline`] is the stored form. [`Graph`] is built from it once per flow in memory (petgraph) and answers who waits
//! for whom. `orc-spec` guarantees before a `Pipeline` exists: unique keys, needs that exist and have no cycle, `finally`
//! steps that need only `finally` steps.

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use serde::{Deserialize, Serialize};

pub use crate::action::{Action, AgentAction, ApprovalAction, PipelineAction, RepeatAction, RunAction, WaitAction};
use crate::budget::Budget;
use crate::confine::BoxRules;
use crate::expr::{Expr, Template};
use crate::ids::ContentHash;
use crate::permission::Permissions;
use crate::profile::Profile;
use crate::time::Millis;
use crate::value::Value;

/// What one point of `priority:` is worth, as time waited.
pub const PRIORITY_AGE: Millis = Millis::from_secs(300);
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
/// Bytes that one artifact may have.
pub const MAX_ARTIFACT_BYTES: u64 = 1024 * 1024 * 1024;
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
    /// All steps: those of `steps:` in file order, those of `finally:` in file order, then the bodies of `repeat`, each
    /// without gaps.
    pub steps: Vec<StepSpec>,
    /// `outputs:`; what a flow hands to the flow that it is a child of.
    #[serde(default)]
    pub outputs: BTreeMap<String, Expr>,
    /// `worktree: { repositories }`; the first is the one it works in. Without the key: what it was started in.
    #[serde(default)]
    pub repositories: Vec<RepositorySpec>,
    /// `concurrency:`; how many flows may be live at once.
    #[serde(default)]
    pub concurrency: Option<Concurrency>,
    /// `budget:` of one flow.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// `permissions:`; what holds for all its agents.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// Profiles of its agents, by name.
    #[serde(default)]
    pub agents: BTreeMap<String, Profile>,
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

    /// Values for the inputs, defaults filled in.
    ///
    /// # Errors
    /// What is missing, not known or of another type, one line each.
    pub fn take_inputs(&self, mut given: BTreeMap<String, Value>) -> Result<BTreeMap<String, Value>, Vec<String>> {
        let (mut taken, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, spec) in &self.inputs {
            match given.remove(name).or_else(|| spec.default.clone()) {
                Some(value) if spec.kind.takes(&value) => drop(taken.insert(name.clone(), value)),
                Some(value) => {
                    problems.push(format!("`{name}` needs a {}, and this is {}", spec.kind.word(), value.type_name()));
                }
                None => problems.push(format!("`{name}` is missing")),
            }
        }
        problems.extend(given.keys().map(|name| format!("there is no input `{name}`")));
        if problems.is_empty() { Ok(taken) } else { Err(problems) }
    }

    /// Steps that every flow has from its start: those of no body. They come first.
    #[must_use]
    pub fn roots(&self) -> usize {
        self.steps.iter().take_while(|step| step.within.is_none()).count()
    }
}

/// `concurrency:`: a group of which only so many may be under way at once, whichever flows they belong to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Concurrency {
    /// Its name.
    pub group: Template,
    /// How many; at least 1.
    pub limit: u32,
    /// What one does that finds it full.
    pub on_limit: OnLimit,
}

/// What is done when a group is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// Wait for its turn.
    Queue,
    /// Do not run.
    Skip,
    /// Ask those to end that are in it, then take their place. For flows only.
    CancelRunning,
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

impl InputKind {
    /// The word of `type:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::List => "list",
            Self::Map => "map",
        }
    }

    /// Whether it takes a value.
    #[must_use]
    pub const fn takes(self, value: &Value) -> bool {
        match self {
            Self::String => matches!(value, Value::Text(_)),
            Self::Number => matches!(value, Value::Int(_) | Value::Float(_)),
            Self::Boolean => matches!(value, Value::Bool(_)),
            Self::List => matches!(value, Value::List(_)),
            Self::Map => matches!(value, Value::Map(_)),
        }
    }
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
    /// The `repeat` whose body it belongs to.
    #[serde(default)]
    pub within: Option<SpecIndex>,
    /// `foreach:` or `matrix:`.
    pub fan: Option<Fan>,
    /// `concurrency:`; what of it may be under way at once, over all flows.
    #[serde(default)]
    pub concurrency: Option<Concurrency>,
    /// `priority:`; 0 unless it says so. A step waits for a slot as if it had been ready [`PRIORITY_AGE`] longer for each.
    #[serde(default)]
    pub priority: i16,
    /// `budget:` of one attempt.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// `artifacts:`; files that are kept once it succeeded, by name, relative to where it works.
    #[serde(default)]
    pub artifacts: BTreeMap<String, Template>,
    /// `retry:`.
    pub retry: Retry,
    /// `timeout:` of one attempt.
    pub timeout: Millis,
    /// A failure of this step does not fail the flow and is accepted by what needs it.
    pub continue_on_fail: bool,
    /// False: an attempt that was in flight when its process was lost is never made again without a person.
    pub idempotent: bool,
    /// Where it works.
    pub worktree: Worktree,
    /// `box:` of pipeline and step together; a profile's is added when it starts.
    #[serde(default)]
    pub rules: BoxRules,
    /// `on_conflict:`; who brings together what its parents, or its elements, changed in ways that no merge can.
    #[serde(default)]
    pub on_conflict: Option<AgentAction>,
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

/// Where the elements of a fan-out come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elements {
    /// `foreach:`, a list that is evaluated once.
    List {
        /// Gives it.
        list: Expr,
        /// `as:`, default `item`.
        binding: String,
    },
    /// `matrix:`, combinations that are known when the pipeline is compiled; an expression reads one as `matrix`.
    Matrix(Vec<BTreeMap<String, Value>>),
}

/// Fan-out: the step once for each element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fan {
    /// Over what.
    pub elements: Elements,
    /// Elements that may be under way at the same time.
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

/// `worktree:` of a step: where it works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// What it starts from.
    pub from: StartFrom,
    /// The repositories of the pipeline that it gets, by path; none: all of them.
    #[serde(default)]
    pub repositories: Option<Vec<String>>,
}

/// What a step starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFrom {
    /// No copy: an empty directory in a box. Its parents' results go on to those who need it.
    None,
    /// A private copy of the flow's base.
    Fresh,
    /// A private copy of the merge of its direct parents' results.
    #[default]
    Parents,
    /// The user's own checkout: no copy, no box. Must be written down, and status shows it.
    InPlace,
}

impl StartFrom {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Fresh, Self::Parents, Self::InPlace];

    /// The word of `worktree:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fresh => "fresh",
            Self::Parents => "parents",
            Self::InPlace => "in_place",
        }
    }
}

/// A repository of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositorySpec {
    /// `path:`, relative to the repository that the pipeline was started in; `.` is that one.
    pub path: String,
    /// `base:`, a branch, tag or commit; none: what is checked out.
    pub base: Option<String>,
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
