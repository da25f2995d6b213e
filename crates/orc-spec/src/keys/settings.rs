//! The keys of the settings file.

use super::Shape::{
    Argv, Count, CountOrZero, Duration, EnvNames, Later, ListOf, NameLists, Named, Size, Table as Sub, Tally, Text,
    WordList, Words,
};
use super::{
    BOX_SETTINGS, MAX_SLOTS, PERMISSIONS_OF_ALL, PROVIDER, SANDBOXES, SECRET, Table, UNPRICED, WORKTREE_SETTINGS, key,
};

/// What people may do, the most first.
pub const ROLES: &[&str] = &["admin", "approve", "operate", "read"];
/// What people can be told of.
pub const MOMENTS: &[&str] = &["request", "incident", "flow_failed"];

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
        key("people", Named(&PERSON), "People, by the name that approvals call them."),
        key("groups", NameLists, "Groups of people, by name."),
        key("database", Later, "Where the state is kept."),
        key("budgets", Later, "What may be spent."),
        key("retention", Sub(&RETENTION), "How long what is over is kept; without it for ever."),
        key(
            "sandbox",
            Words(SANDBOXES),
            "Whether steps need a box: they do; one that is to run without says so itself, `worktree: in_place`.",
        ),
        key("box", Sub(&BOX_SETTINGS), "Who works in boxes, what may be asked for at most, and bounds."),
        key("worktree", Sub(&WORKTREE_SETTINGS), "How private copies of repositories are made."),
        key("secrets", Named(&SECRET), "Secrets that pipelines may name, and where they are found; never the values."),
        key("agents_domain", Text, "The domain of the addresses that agents commit with."),
        key("permissions", Sub(&PERMISSIONS_OF_ALL), "Rules for all agents."),
        key("github", Later, "The connection to GitHub."),
        key("server", Later, "Address and access of the server."),
        key("schedules", Later, "Settings of schedules."),
        key(
            "providers",
            Named(&PROVIDER),
            "Who answers calls of models; `anthropic` and `openai` are there in any case.",
        ),
        key("prices", Text, "A file with prices of models over those that are known."),
        key(
            "unpriced",
            Words(UNPRICED),
            "Calls of a model without a price: their tokens are counted, or they are refused. Below a budget in money they are refused.",
        ),
        key("telemetry", Later, "Traces and metrics."),
        key("notifications", ListOf(&Sub(&NOTIFICATION)), "Where people are told of what needs them."),
        key("workspace", Later, "The workspace of this repository."),
    ],
    required: &[],
    foreign: &[
        ("concurrency", "write `slots:`"),
        ("parallelism", "write `slots:`"),
        ("models", "write `providers:`"),
        ("env", "write `pass_env:` with the names to pass from the host, or `env:` in a pipeline"),
    ],
};

/// One of `people:`.
pub static PERSON: Table = Table {
    name: "a person",
    keys: &[
        key("os", CountOrZero(u32::MAX), "Number of the user on this machine; `id -u` shows it."),
        key("github", Tally, "Number of the account on GitHub."),
        key("role", Words(ROLES), "What they may do, each role also what stands after it; without it `read`."),
    ],
    required: &[],
    foreign: &[("uid", "write `os:`"), ("user", "write `os:` with the number of the user"), ("roles", "write `role:`")],
};

/// One of `notifications:`.
pub static NOTIFICATION: Table = Table {
    name: "a notification",
    keys: &[
        key("command", Argv, "A program that is given what happened as JSON on standard input."),
        key(
            "webhook",
            Text,
            "An address that what happened is sent to as JSON, or `env:NAME` of a variable that has it.",
        ),
        key("secret", Text, "`env:NAME` of the variable with the secret that signs what is sent."),
        key("on", WordList(MOMENTS), "What is told; without it requests and incidents."),
    ],
    required: &[],
    foreign: &[
        ("url", "write `webhook:`"),
        ("run", "write `command:`"),
        ("events", "write `on:`"),
        ("slack", "write `webhook:` with the address that Slack gave"),
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
