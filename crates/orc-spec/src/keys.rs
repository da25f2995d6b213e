//! The one table of keys: what may be written, what it takes, what it means, and whether it is built yet.
//!
//! The readers look names up here, the JSON Schema and the reference are made from here, and tests write every key with
//! right and wrong values; so documentation, schema and compiler cannot drift apart.

mod confine;
mod limits;
mod permissions;
mod prices;
mod profile;
mod providers;
mod script;
mod settings;
mod shape;
mod step;

pub use self::confine::{
    BOX, BOX_LIMITS, BOX_SETTINGS, MAX_ID, MAX_MEBIBYTES, MAX_OPEN_FILES, MAX_PROCESSES, ON_CONFLICT, REPOSITORY,
    SANDBOXES, SECRET, STEP_WORKTREE, STRATEGIES, WORKTREE, WORKTREE_SETTINGS, WORKTREES,
};
pub use self::limits::{BUDGET, CONCURRENCY, EXHAUSTED, ON_EXHAUSTED, ON_LIMIT};
pub use self::permissions::{
    CEILINGS, DELEGATE, PERMISSION_MODES, PERMISSIONS, PERMISSIONS_ABOVE, PERMISSIONS_OF_ALL, RULE_FILES,
};
pub use self::prices::{LONG, MAX_PRICE, PRICE, PRICES};
pub(crate) use self::profile::unhonoured;
pub use self::profile::{ADAPTERS, EFFORTS, MAX_MESSAGES, MAX_TURNS, MODES, OUTPUT, PROFILE, TOOLS};
pub use self::providers::{MAX_CALLS, PROTOCOLS, PROVIDER, UNPRICED};
pub use self::script::{
    BEYOND, FAILURE, FIGURES, MATCH, MAX_EVENTS, MAX_FIGURE, SCRIPT, STOPS, TOOL_CALL, TRACK, TURN,
};
pub use self::settings::{MOMENTS, NOTIFICATION, PERSON, RETENTION, ROLES, SETTINGS};
pub use self::shape::Shape;
use self::shape::Shape::{
    Bool, Count, Duration, Either, Env, Expressions, Later, Named, Steps, Table as Sub, Template, Text, Value, Words,
};
pub(crate) use self::step::misplaced;
pub use self::step::{
    APPROVAL, LATER_EVENTS, MAX_PRIORITY, ON_TIMEOUT, REPEAT, STEP, STEP_KINDS, TIER, WAIT, WAIT_EVENTS,
};

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As written.
    pub name: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// What it means, one sentence.
    pub doc: &'static str,
}

impl Key {
    /// False for what is not available yet.
    #[must_use]
    pub const fn is_available(&self) -> bool {
        !matches!(self.shape, Later)
    }
}

/// The keys of one kind of map.
#[derive(Debug)]
pub struct Table {
    /// What the map is, with its article: `a step`.
    pub name: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// Keys that must be there.
    pub required: &'static [&'static str],
    /// Words of other tools, and what to write here instead.
    pub foreign: &'static [(&'static str, &'static str)],
}

impl Table {
    /// The key of that name.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

const fn key(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, shape, doc }
}

/// The types of inputs.
pub const INPUT_TYPES: &[&str] = &["string", "number", "boolean", "list", "map"];
/// Largest number of attempts.
pub const MAX_ATTEMPTS: u32 = 100;
/// Largest `limit:` and number of slots.
pub const MAX_SLOTS: u32 = 10_000;
/// A pipeline file.
pub static PIPELINE: Table = Table {
    name: "a pipeline",
    keys: &[
        key("name", Text, "The pipeline's name; without it, the name of the file."),
        key("description", Text, "What it is for, in a sentence."),
        key("on", Sub(&ON), "What may start it."),
        key("inputs", Named(&INPUT), "Values that are given when it starts."),
        key("env", Env, "Environment variables of all steps."),
        key("defaults", Sub(&DEFAULTS), "What steps use that do not say otherwise."),
        key(
            "worktree",
            Either(&[Words(WORKTREES), Sub(&WORKTREE)]),
            "Where steps work; without it each in a private copy of what its parents made.",
        ),
        key("steps", Steps, "The steps, by name."),
        key("finally", Steps, "Steps that run when all others are over, whatever the outcome."),
        key("outputs", Expressions, "What it hands to the pipeline that calls it; read when all steps are over."),
        key(
            "concurrency",
            Either(&[Template, Sub(&CONCURRENCY)]),
            "The group that its flows are in, of which only so many may be under way at once; it may read inputs.",
        ),
        key("budget", Sub(&BUDGET), "What one flow may use."),
        key("permissions", Sub(&PERMISSIONS_ABOVE), "What holds for all its agents, and those that they start."),
        key("box", Sub(&BOX), "What the boxes of its steps let through."),
    ],
    required: &["steps"],
    foreign: &[
        ("jobs", "write the steps under `steps:`, each with a name; there is no level above them"),
        ("runs-on", "steps run on the machine that runs the orchestrator; remove this key"),
        ("shell", "write `shell:` on the steps that need it"),
        ("timeout", "write `defaults: { timeout: 1h }`"),
        ("timeout-minutes", "write `defaults: { timeout: 30m }`"),
        ("retry", "write `defaults: { retry: { attempts: 2 } }`"),
        ("run-name", "write `name:`"),
        ("stages", "order comes from `needs:` on each step"),
        ("triggers", "write `on:`"),
        ("variables", "write `env:` for variables of the steps, `inputs:` for values given at the start"),
    ],
};

/// `on:`.
pub static ON: Table = Table {
    name: "`on`",
    keys: &[
        key("manual", Bool, "A person may start it."),
        key("ticket", Later, "A ticket starts it."),
        key("schedule", Later, "A time starts it."),
        key("github", Later, "An event on GitHub starts it."),
        key("event", Later, "An event of the orchestrator starts it."),
    ],
    required: &[],
    foreign: &[
        ("workflow_dispatch", "write `manual: true`"),
        ("push", "triggers from GitHub are not available yet; write `manual: true`"),
        ("pull_request", "triggers from GitHub are not available yet; write `manual: true`"),
        ("cron", "schedules are not available yet; write `manual: true`"),
    ],
};

/// One of `inputs:`.
pub static INPUT: Table = Table {
    name: "an input",
    keys: &[
        key("type", Words(INPUT_TYPES), "What values it takes; `string` if not said."),
        key("default", Value, "The value when none is given; an input without it must be given."),
        key("description", Text, "What it is for."),
    ],
    required: &[],
    foreign: &[
        ("required", "an input without `default:` is required; remove this key"),
        ("options", "a list of allowed values is not supported; check the value in a step"),
    ],
};

/// `defaults:`.
pub static DEFAULTS: Table = Table {
    name: "`defaults`",
    keys: &[
        key("timeout", Duration, "Longest time of one attempt; without it 6h."),
        key("retry", Sub(&RETRY), "What happens after a failed attempt."),
    ],
    required: &[],
    foreign: &[("run", "write `shell:` on the steps that need it")],
};

/// `retry:`.
pub static RETRY: Table = Table {
    name: "`retry`",
    keys: &[
        key("attempts", Count(MAX_ATTEMPTS), "Attempts in all, the first included; without it 1."),
        key("backoff", Duration, "Wait before the second attempt, doubled for each further one; without it 10s."),
        key("max_backoff", Duration, "Longest wait; without it 1h."),
    ],
    required: &[],
    foreign: &[
        ("max_attempts", "write `attempts:`"),
        ("max", "write `attempts:`"),
        ("delay", "write `backoff:`"),
        ("limit", "write `attempts:`, which counts the first attempt too"),
    ],
};

/// Every table, for the reference: where its map stands, and its keys.
#[must_use]
pub fn tables() -> [(&'static str, &'static Table); 39] {
    [
        ("pipeline", &PIPELINE),
        ("on", &ON),
        ("inputs.NAME", &INPUT),
        ("defaults", &DEFAULTS),
        ("retry", &RETRY),
        ("steps.NAME, finally.NAME", &STEP),
        ("repeat", &REPEAT),
        ("approval", &APPROVAL),
        ("approval.tiers", &TIER),
        ("wait", &WAIT),
        ("concurrency", &CONCURRENCY),
        ("budget", &BUDGET),
        ("budget.on_exhausted", &EXHAUSTED),
        ("worktree", &WORKTREE),
        ("worktree.repositories", &REPOSITORY),
        ("steps.NAME.worktree", &STEP_WORKTREE),
        ("box", &BOX),
        ("on_conflict", &ON_CONFLICT),
        ("profile", &PROFILE),
        ("output", &OUTPUT),
        ("model", &SCRIPT),
        ("model: tracks.NAME", &TRACK),
        ("model: match", &MATCH),
        ("model: turns", &TURN),
        ("model: tool_calls", &TOOL_CALL),
        ("model: usage", &FIGURES),
        ("model: error", &FAILURE),
        ("prices", &PRICES),
        ("prices: models.NAME", &PRICE),
        ("prices: long", &LONG),
        ("orchestrator.yaml", &SETTINGS),
        ("providers.NAME", &PROVIDER),
        ("people.NAME", &PERSON),
        ("notifications", &NOTIFICATION),
        ("retention", &RETENTION),
        ("orchestrator.yaml: box", &BOX_SETTINGS),
        ("orchestrator.yaml: box.limits", &BOX_LIMITS),
        ("orchestrator.yaml: worktree", &WORKTREE_SETTINGS),
        ("secrets.NAME", &SECRET),
    ]
}
