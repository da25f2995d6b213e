//! The keys of a scripted model.

use super::Shape::{
    Count, CountOrZero, Duration, Either, Integer, ListOf, Literal, NameOrNames, Named, Table as Sub, Text, Words,
};
use super::{Table, key};

/// The words of `repeat:`.
pub const BEYOND: &[&str] = &["error", "last"];
/// The words of `stop:`.
pub const STOPS: &[&str] = &["end_turn", "tool_use", "max_tokens", "refusal"];
/// The largest figure of usage.
pub const MAX_FIGURE: u32 = 1_000_000_000;
/// Most events before a cut, and most failures before an answer.
pub const MAX_EVENTS: u32 = 1_000_000;

/// A scripted model: `models/NAME.yaml`.
pub static SCRIPT: Table = Table {
    name: "a scripted model",
    keys: &[
        key("description", Text, "What it is for, in a sentence."),
        key("tracks", Named(&TRACK), "Conversations that it knows, by name; the first one that fits counts."),
    ],
    required: &["tracks"],
    foreign: &[
        ("turns", "write them into a track: `tracks: { main: { turns: [...] } }`"),
        ("model", "the names of models stand in `match:` of a track"),
        ("name", "the name of the file is its name; remove this key"),
    ],
};

/// One of `tracks:`.
pub static TRACK: Table = Table {
    name: "a track",
    keys: &[
        key("match", Sub(&MATCH), "Which conversation it is; without it any, so such a track stands last."),
        key(
            "turns",
            ListOf(&Sub(&TURN)),
            "What it says: the first one to a request that holds no answer yet, the second one to a request that holds one, and so on.",
        ),
        key(
            "repeat",
            Words(BEYOND),
            "What requests beyond the last turn get: an `error`, as without it, or the `last` turn again.",
        ),
    ],
    required: &["turns"],
    foreign: &[
        ("when", "write `match:`"),
        ("if", "write `match:`"),
        ("model", "write `match: { model: ... }`"),
        ("prompt", "write `match: { prompt: ... }`"),
        ("system", "write `match: { system: ... }`"),
        ("tools", "write `match: { tools: [...] }`"),
        ("answers", "write `turns:`"),
        ("responses", "write `turns:`"),
    ],
};

/// `match:` of a track; all that is written must fit.
pub static MATCH: Table = Table {
    name: "`match`",
    keys: &[
        key("model", Text, "Names of models, with `*` for any characters."),
        key("system", NameOrNames, "Texts that stand in the system text."),
        key("prompt", NameOrNames, "Texts that stand in the first message of the user."),
        key("tools", NameOrNames, "Tools that are offered."),
    ],
    required: &[],
    foreign: &[("user", "write `prompt:`"), ("contains", "write `prompt:` or `system:`"), ("tool", "write `tools:`")],
};

/// One of `turns:`.
pub static TURN: Table = Table {
    name: "a turn",
    keys: &[
        key("thinking", Text, "What it thinks aloud, before it speaks."),
        key("text", Text, "What it says; an empty text is an answer without content."),
        key("tool_calls", ListOf(&Sub(&TOOL_CALL)), "Tools that it calls, after it spoke."),
        key("stop", Words(STOPS), "Why the answer ends; without it `tool_use` after calls of tools, else `end_turn`."),
        key(
            "usage",
            Either(&[Words(&["none"]), Sub(&FIGURES)]),
            "What it says that it used; without it a token for every four bytes; `none`: it does not tell.",
        ),
        key("error", Sub(&FAILURE), "The request fails with it."),
        key("delay", Duration, "How long nothing comes at all."),
        key("delay_between", Duration, "How long nothing comes between two events of a stream."),
        key(
            "cut_after",
            CountOrZero(MAX_EVENTS),
            "The connection is cut after so many events; that of an answer without a stream in its middle.",
        ),
    ],
    required: &[],
    foreign: &[
        ("content", "write `text:`, `thinking:` and `tool_calls:`"),
        ("role", "every turn is one of the model; remove this key"),
        ("tools", "write `tool_calls: [{ name: ..., input: { ... } }]`"),
        ("tool_use", "write `tool_calls: [{ name: ..., input: { ... } }]`"),
        ("stop_reason", "write `stop:`"),
        ("finish_reason", "write `stop:`"),
        ("reasoning", "write `thinking:`"),
        ("tokens", "write `usage: { input: 100, output: 20 }`"),
    ],
};

/// One of `tool_calls:`.
pub static TOOL_CALL: Table = Table {
    name: "a call of a tool",
    keys: &[
        key("name", Text, "The name of the tool."),
        key(
            "input",
            Literal,
            "Its input: a map, or a text that is passed on as it stands, for tools that take text and for input that is not JSON; without it an empty map.",
        ),
    ],
    required: &["name"],
    foreign: &[
        ("tool", "write `name:`"),
        ("arguments", "write `input:`"),
        ("args", "write `input:`"),
        ("id", "ids are made from the track and the turn; remove this key"),
    ],
};

/// `usage:`: classes that no token shares, as the ledger has them.
pub static FIGURES: Table = Table {
    name: "`usage`",
    keys: &[
        key(
            "input",
            CountOrZero(MAX_FIGURE),
            "Input that came from no cache; without it a token for every four bytes of the request.",
        ),
        key(
            "output",
            CountOrZero(MAX_FIGURE),
            "Output without reasoning; without it a token for every four bytes that are said.",
        ),
        key("reasoning", CountOrZero(MAX_FIGURE), "Reasoning; without it a token for every four bytes of `thinking:`."),
        key("cache_read", CountOrZero(MAX_FIGURE), "Input read from a cache; without it 0."),
        key("cache_write", CountOrZero(MAX_FIGURE), "Input written to a cache for minutes; without it 0."),
        key(
            "cache_write_long",
            CountOrZero(MAX_FIGURE),
            "Input written to a cache for an hour; without it 0. Anthropic's protocol only.",
        ),
        key(
            "server_tools",
            CountOrZero(MAX_FIGURE),
            "Searches of the web by the provider; without it 0. Anthropic's protocol only.",
        ),
    ],
    required: &[],
    foreign: &[
        ("input_tokens", "write `input:`"),
        ("output_tokens", "write `output:`"),
        ("prompt_tokens", "write `input:`"),
        ("completion_tokens", "write `output:`"),
    ],
};

/// `error:` of a turn.
pub static FAILURE: Table = Table {
    name: "`error` of a turn",
    keys: &[
        key("status", Integer(400, 599), "The status of HTTP."),
        key("type", Text, "The provider's word for it; without it the usual one of the status."),
        key("message", Text, "What it says; without it that a script wants it so."),
        key("retry_after", Duration, "When to try again, rounded up to seconds."),
        key(
            "times",
            Count(MAX_EVENTS),
            "So many requests fail, then the turn's answer comes; without it all fail, and the turn has no answer.",
        ),
    ],
    required: &["status"],
    foreign: &[("code", "write `status:` or `type:`"), ("retry", "write `retry_after:`"), ("count", "write `times:`")],
};
