//! The keys of `permissions:`.

use super::Shape::{Bool, ListOf, NameOrNames, Table as Sub, Text, WordList, Words};
use super::{Table, key};

/// The words of `ceiling:`, from the least.
pub const CEILINGS: &[&str] = &["read", "edit", "run", "network", "push"];
/// The words of `permissionMode:` that are available.
pub const PERMISSION_MODES: &[&str] = &["plan", "default", "acceptEdits", "dontAsk", "bypassPermissions"];

const DELEGATED: &str = "Questions of agents further down that are answered with yes, unless a rule asked for them; without it they reach people.";
const ASK: &str = "Calls that somebody is asked about, each time.";
const DENY: &str = "Calls that never run, whoever makes them from here down; no rule, mode or person overrides one.";
const CEILING: &str = "What calls may do at most, from here down.";

/// `permissions:` of a profile.
pub static PERMISSIONS: Table = Table {
    name: "`permissions`",
    keys: &[
        key("allow", NameOrNames, "Calls that run without a question: rules like `Bash(npm test *)`."),
        key("ask", NameOrNames, ASK),
        key("deny", NameOrNames, DENY),
        key("ceiling", Words(CEILINGS), CEILING),
        key("delegate", ListOf(&Sub(&DELEGATE)), DELEGATED),
    ],
    required: &[],
    foreign: &[
        ("allowed", "write `allow:`"),
        ("denied", "write `deny:`"),
        ("defaultMode", "write `permissionMode:` beside `permissions:`"),
        ("mode", "write `permissionMode:` beside `permissions:`"),
    ],
};

/// `permissions:` of a pipeline and of a step.
pub static PERMISSIONS_ABOVE: Table = Table {
    name: "`permissions`",
    keys: &[
        key("ask", NameOrNames, ASK),
        key("deny", NameOrNames, DENY),
        key("ceiling", Words(CEILINGS), CEILING),
        key("delegate", ListOf(&Sub(&DELEGATE)), DELEGATED),
    ],
    required: &[],
    foreign: &[("allow", "an agent's rights come from its own profile, and nothing is inherited: write it there")],
};

/// The words of `files:`.
pub const RULE_FILES: &[&str] = &["project", "local", "user"];

/// `permissions:` of a settings file.
pub static PERMISSIONS_OF_ALL: Table = Table {
    name: "`permissions`",
    keys: &[
        key(
            "allow",
            NameOrNames,
            "Calls of agents of steps that run without a question; agents that others start inherit none.",
        ),
        key("ask", NameOrNames, ASK),
        key("deny", NameOrNames, "Calls that never run, whoever makes them."),
        key("ceiling", Words(CEILINGS), "What calls may do at most, whoever makes them."),
        key("delegate", ListOf(&Sub(&DELEGATE)), DELEGATED),
        key(
            "files",
            WordList(RULE_FILES),
            "Files of others whose rules hold too: `.claude/settings.json` and `.claude/settings.local.json` of the workspace, which are read unless something else is said, and `~/.claude/settings.json`.",
        ),
        key(
            "trusted",
            Bool,
            "Whether files of the workspace may grant; otherwise only their denies and questions count.",
        ),
    ],
    required: &[],
    foreign: &[
        ("allowed", "write `allow:`"),
        ("denied", "write `deny:`"),
        ("defaultMode", "it is a matter of each agent: `permissionMode:` in its profile"),
    ],
};

/// One of `delegate:`.
pub static DELEGATE: Table = Table {
    name: "one of `delegate`",
    keys: &[
        key("to", Text, "The agent that asks, by its name."),
        key("allow", NameOrNames, "Calls that run when it asks: rules like those of `allow`."),
    ],
    required: &["to", "allow"],
    foreign: &[("agent", "write `to:`")],
};
