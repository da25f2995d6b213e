//! The keys of `permissions:`.

use super::Shape::{Later, NameOrNames, Words};
use super::{Table, key};

/// The words of `ceiling:`, from the least.
pub const CEILINGS: &[&str] = &["read", "edit", "run", "network", "push"];
/// The words of `permissionMode:` that are available.
pub const PERMISSION_MODES: &[&str] = &["plan", "default", "acceptEdits", "dontAsk", "bypassPermissions"];

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
        key("delegate", Later, "Calls of agents that it starts which its rules answer."),
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
    keys: &[key("ask", NameOrNames, ASK), key("deny", NameOrNames, DENY), key("ceiling", Words(CEILINGS), CEILING)],
    required: &[],
    foreign: &[
        ("allow", "an agent's rights come from its own profile, and nothing is inherited: write it there"),
        ("delegate", "it belongs into the profile of an agent"),
    ],
};
