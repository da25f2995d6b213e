//! The keys of `concurrency:` and `budget:`, which pipelines and steps have alike.

use super::Shape::{Count, Duration, Either, Money, Table as Sub, Tally, Template, Words};
use super::{MAX_SLOTS, Table, key};

/// The words of `on_limit:`.
pub const ON_LIMIT: &[&str] = &["queue", "skip", "cancel_running"];
/// The words of `on_exhausted:`.
pub const ON_EXHAUSTED: &[&str] = &["fail"];

/// `concurrency:`.
pub static CONCURRENCY: Table = Table {
    name: "`concurrency`",
    keys: &[
        key("group", Template, "The name of the group; equal names are one group, in whatever pipeline they stand."),
        key("limit", Count(MAX_SLOTS), "How many may be under way at once; without it 1."),
        key(
            "on_limit",
            Words(ON_LIMIT),
            "What one does that finds it full: wait for its turn (the default), not run, or, for flows only, end those that run.",
        ),
    ],
    required: &["group"],
    foreign: &[
        ("cancel-in-progress", "write `on_limit: cancel_running`"),
        ("max", "write `limit:`"),
        ("name", "write `group:`"),
        ("key", "write `group:`"),
    ],
};

/// `budget:`.
pub static BUDGET: Table = Table {
    name: "`budget`",
    keys: &[
        key("time", Duration, "Wall time since the flow or the attempt began."),
        key("model_calls", Tally, "Calls of models."),
        key("tool_calls", Tally, "Calls of tools."),
        key("tokens", Tally, "Tokens of all classes."),
        key("usd", Money, "Money, in US dollars."),
        key(
            "on_exhausted",
            Either(&[Words(ON_EXHAUSTED), Sub(&EXHAUSTED)]),
            "Of a pipeline: whether its flow ends at a wall (the default), or waits for somebody who raises it.",
        ),
    ],
    required: &[],
    foreign: &[
        ("dollars", "write `usd:`"),
        ("cost", "write `usd:`"),
        ("money", "write `usd:`"),
        ("timeout", "write `time:`"),
        ("calls", "write `model_calls:` or `tool_calls:`"),
    ],
};

/// `on_exhausted:` with a time.
pub static EXHAUSTED: Table = Table {
    name: "`on_exhausted`",
    keys: &[key("wait", Duration, "How long somebody may raise the wall before the flow ends.")],
    required: &["wait"],
    foreign: &[("timeout", "write `wait:`")],
};
