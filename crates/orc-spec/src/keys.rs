//! The one table of keys: what may be written, what it takes, what it means, and whether it is built yet.
//!
//! The readers look names up here, the JSON Schema and the reference are made from here, and tests write every key with
//! right and wrong values; so documentation, schema and compiler cannot drift apart.

mod profile;

pub(crate) use self::profile::unhonoured;
pub use self::profile::{ADAPTERS, MAX_MESSAGES, MODES, OUTPUT, PROFILE};
use Shape::{
    Bool, Condition, Count, Duration, Env, EnvNames, Later, List, NameOrNames, Named, Script, Shell, Size,
    Table as Sub, Text, Value, Words, Worktree,
};

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Text as it is.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number from 1 to the given one; `_` between digits is allowed.
    Count(u32),
    /// A length of time with its unit: `30s`, `1h30m`.
    Duration,
    /// A number of bytes, alone or with a unit: `64MiB`.
    Size,
    /// One of some words.
    Words(&'static [&'static str]),
    /// `in_place`; [`WORKTREES`] has the words that are not available yet.
    Worktree,
    /// A name, or a list of names.
    NameOrNames,
    /// An expression that gives true or false, with or without `${{ }}`.
    Condition,
    /// An expression that gives a list, with or without `${{ }}`, or the list itself.
    List,
    /// A map of environment variables; values are texts with expressions.
    Env,
    /// A list of names of environment variables.
    EnvNames,
    /// A shell script with expressions.
    Script,
    /// `sh`, `bash`, `python`, or a program with its arguments.
    Shell,
    /// Any value without expressions.
    Value,
    /// A map with the keys of a table.
    Table(&'static Table),
    /// A map of names of the user's choice to maps with the keys of a table.
    Named(&'static Table),
    /// The program with its arguments as a list, or a script.
    Command,
    /// A whole number from 0 to the given one.
    CountOrZero(u32),
    /// A map of environment variables; values are texts without expressions.
    Variables,
    /// A JSON Schema, or the path of one.
    Schema,
    /// Any value, because the adapters that are built cannot honour it; with what to do instead.
    OtherAdapter(&'static str),
    /// Any value, because the part of the program that reads it is not built yet.
    Later,
}

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
    /// False for what is refused: not available yet, or not with the adapters that are built.
    #[must_use]
    pub const fn is_available(&self) -> bool {
        !matches!(self.shape, Later | Shape::OtherAdapter(_))
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

/// The words of `worktree:`; those after the first are not available yet.
pub const WORKTREES: &[&str] = &["in_place", "parents", "fresh", "none"];
/// The types of inputs.
pub const INPUT_TYPES: &[&str] = &["string", "number", "boolean", "list", "map"];
/// Largest number of attempts.
pub const MAX_ATTEMPTS: u32 = 100;
/// Largest `limit:` and number of slots.
pub const MAX_SLOTS: u32 = 10_000;
/// The keys that say what a step does; a step has exactly one.
pub const STEP_KINDS: &[&str] = &[
    "run",
    "agent",
    "orchestrate",
    "goal",
    "loop",
    "pipeline",
    "repeat",
    "approval",
    "wait",
    "ticket",
    "comment",
    "publish",
];

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
        key("worktree", Worktree, "Where steps work: `in_place` is the user's own checkout, without a copy."),
        key("steps", Named(&STEP), "The steps, by name."),
        key("finally", Named(&STEP), "Steps that run when all others are over, whatever the outcome."),
        key("concurrency", Later, "How many flows of this pipeline may run at once."),
        key("budget", Later, "What one flow may spend."),
        key("permissions", Later, "What its agents may do."),
        key("box", Later, "What its sandbox lets through."),
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

/// A step.
pub static STEP: Table = Table {
    name: "a step",
    keys: &[
        key("run", Script, "A script; its expressions reach it as environment variables."),
        key("shell", Shell, "What reads the script; without it `sh`."),
        key("needs", NameOrNames, "Steps that must be finished before."),
        key("if", Condition, "Whether it runs; without a status function, all needed steps must also have succeeded."),
        key("env", Env, "Environment variables, over those of the pipeline."),
        key("foreach", List, "Runs the step once for each element of a list."),
        key("as", Text, "Name of the element in expressions; without it `item`."),
        key("limit", Count(MAX_SLOTS), "Elements that may run at the same time."),
        key("fail_fast", Bool, "The first element that fails cancels the others."),
        key("retry", Sub(&RETRY), "What happens after a failed attempt."),
        key("timeout", Duration, "Longest time of one attempt."),
        key("continue_on_fail", Bool, "Its failure does not fail the flow, and steps that need it go on."),
        key("idempotent", Bool, "`false`: an attempt that was lost in flight is not repeated without a person."),
        key("worktree", Worktree, "Where it works, instead of the pipeline's."),
        key("agent", Later, "Runs an agent."),
        key("prompt", Later, "What the agent is asked."),
        key("orchestrate", Later, "A lead agent plans and workers carry out."),
        key("goal", Later, "A supervised objective with a budget."),
        key("loop", Later, "A supervised repetition with a budget."),
        key("pipeline", Later, "Runs another pipeline."),
        key("with", Later, "Inputs of the other pipeline."),
        key("repeat", Later, "Runs steps in rounds."),
        key("approval", Later, "Asks people."),
        key("wait", Later, "Waits for a time or an event."),
        key("ticket", Later, "Creates or changes a ticket."),
        key("comment", Later, "Writes a comment."),
        key("publish", Later, "Publishes the result."),
        key("matrix", Later, "Runs the step for each combination of values."),
        key("output", Later, "The form of its output."),
        key("artifacts", Later, "Files that it hands on."),
        key("permissions", Later, "What its agent may do."),
        key("budget", Later, "What it may spend."),
        key("box", Later, "What its sandbox lets through."),
        key("on_conflict", Later, "What happens when results cannot be merged."),
        key("concurrency", Later, "How many of its kind may run at once."),
        key("priority", Later, "What runs first when slots are short."),
    ],
    required: &[],
    foreign: &[
        ("uses", "there are no prepared actions; write the commands under `run:`"),
        ("runs-on", "steps run on the machine that runs the orchestrator; remove this key"),
        ("timeout-minutes", "write `timeout: 30m`"),
        ("continue-on-error", "write `continue_on_fail: true`"),
        ("strategy", "write `foreach:` with a list; `limit:` and `fail_fast:` stand beside it"),
        ("max-parallel", "write `limit:`"),
        ("fail-fast", "write `fail_fast:`"),
        ("working-directory", "begin the script with `cd DIRECTORY`"),
        ("depends_on", "write `needs:`"),
        ("when", "write `if:`"),
        ("name", "the key of the step is its name"),
        ("id", "the key of the step is its name"),
        ("outputs", "a script writes `key=value` lines to the file `$ORC_OUTPUT`"),
        ("script", "write `run:`"),
        ("command", "write `run:`"),
        ("cmd", "write `run:`"),
        ("for_each", "write `foreach:`"),
        ("steps", "steps within steps are not available yet; write them one after another with `needs:`"),
    ],
};

/// The settings file.
pub static SETTINGS: Table = Table {
    name: "the settings file",
    keys: &[
        key("slots", Count(MAX_SLOTS), "Commands that may run at the same time."),
        key("cancel_grace", Duration, "Time between asking a command to end and killing it."),
        key(
            "pass_env",
            EnvNames,
            "Environment variables of the host that steps see, beside those that every step sees (PATH, HOME, LANG ...).",
        ),
        key("log_limit", Size, "Bytes of output kept of one run."),
        key("people", Later, "People and their accounts."),
        key("groups", Later, "Groups of people."),
        key("database", Later, "Where the state is kept."),
        key("budgets", Later, "What may be spent."),
        key("retention", Sub(&RETENTION), "How long what is over is kept; without it for ever."),
        key("secrets", Later, "References to secrets."),
        key("permissions", Later, "Rules for all agents."),
        key("github", Later, "The connection to GitHub."),
        key("server", Later, "Address and access of the server."),
        key("schedules", Later, "Settings of schedules."),
        key("providers", Later, "Providers of models."),
        key("telemetry", Later, "Traces and metrics."),
        key("notifications", Later, "Where people are told."),
        key("workspace", Later, "The workspace of this repository."),
    ],
    required: &[],
    foreign: &[
        ("concurrency", "write `slots:`"),
        ("parallelism", "write `slots:`"),
        ("env", "write `pass_env:` with the names to pass from the host, or `env:` in a pipeline"),
    ],
};

/// `retention:`.
pub static RETENTION: Table = Table {
    name: "`retention`",
    keys: &[
        key("runs", Duration, "How long a flow that is over is kept, with its steps, runs and logs."),
        key("logs", Duration, "How long the logs of a flow that is over are kept."),
        key("events", Duration, "How long events of flows that are over are kept."),
    ],
    required: &[],
    foreign: &[("flows", "write `runs:`, which keeps or removes flows with their runs")],
};

/// Every table, for the reference: where its map stands, and its keys.
#[must_use]
pub fn tables() -> [(&'static str, &'static Table); 10] {
    [
        ("pipeline", &PIPELINE),
        ("on", &ON),
        ("inputs.NAME", &INPUT),
        ("defaults", &DEFAULTS),
        ("retry", &RETRY),
        ("steps.NAME, finally.NAME", &STEP),
        ("profile", &PROFILE),
        ("output", &OUTPUT),
        ("orchestrator.yaml", &SETTINGS),
        ("retention", &RETENTION),
    ]
}
