//! The keys of `providers:` in the settings file.

use super::Shape::{Bool, Count, ListOf, Table as Sub, Tally, Text, WordList};
use super::{SECRET, Table, key};

/// The words of `protocols:`.
pub const PROTOCOLS: &[&str] = &["anthropic-messages", "openai-responses", "openai-chat"];
/// The words of `unpriced:`.
pub const UNPRICED: &[&str] = &["tokens_only", "refuse"];
/// Largest number of calls at once or in a minute.
pub const MAX_CALLS: u32 = 1_000_000;

/// One of `providers:`.
pub static PROVIDER: Table = Table {
    name: "a provider",
    keys: &[
        key("protocols", WordList(PROTOCOLS), "How it talks; `anthropic` and `openai` know it themselves."),
        key("base_url", Text, "Where it is: `https://...`, or `http://...` on this machine."),
        key(
            "key",
            Sub(&SECRET),
            "Where its key is found; without it the usual variable of `anthropic` and `openai`, and none elsewhere.",
        ),
        key(
            "models",
            ListOf(&Text),
            "Models that it has, `*` for any characters; without it all, of `anthropic` at its own address `claude-*`.",
        ),
        key(
            "script",
            Text,
            "A file with answers instead of a provider; they are counted and priced by the model that is asked for.",
        ),
        key("cassette", Text, "A file with recorded answers instead of a provider."),
        key(
            "strict",
            Bool,
            "With `cassette`: a request that differs from the recorded one is an error; without it a warning.",
        ),
        key(
            "record",
            Text,
            "A folder in which everything that goes through this provider is recorded, a file for each run.",
        ),
        key("concurrency", Count(MAX_CALLS), "Calls at once."),
        key("requests_per_minute", Count(MAX_CALLS), "Calls in a minute."),
        key("tokens_per_minute", Tally, "Tokens of all classes in a minute."),
    ],
    required: &[],
    foreign: &[
        ("protocol", "write `protocols: [NAME]`"),
        ("kind", "write `protocols: [NAME]`"),
        ("type", "write `protocols: [NAME]`"),
        ("url", "write `base_url:`"),
        ("endpoint", "write `base_url:`"),
        ("api_key", "a key does not stand in a file of settings; write `key: { env: NAME }` or `key: { file: PATH }`"),
        ("token", "a key does not stand in a file of settings; write `key: { env: NAME }` or `key: { file: PATH }`"),
        ("model", "write `models: [NAME]`"),
        ("rpm", "write `requests_per_minute:`"),
        ("tpm", "write `tokens_per_minute:`"),
        ("max_concurrent", "write `concurrency:`"),
    ],
};
