//! The keys of a file of prices.

use super::Shape::{Date, Price, Table as Sub, Tally};
use super::{Key, Shape, Table, key};

/// The most that a million tokens or one use of a tool may cost, in whole dollars: more is a slip of the pen.
pub const MAX_PRICE: i64 = 1_000_000;

/// `prices.yaml`.
pub static PRICES: Table = Table {
    name: "a file of prices",
    keys: &[key(
        "models",
        Shape::Patterns(&PRICE),
        "What models cost, by name; `*` stands for any characters, and the name with the most other characters counts.",
    )],
    required: &["models"],
    foreign: &[("prices", "write `models:`")],
};

const INPUT: Key = key("input", Price, "Input that came from no cache.");
const OUTPUT: Key = key("output", Price, "Output, reasoning included.");
const CACHE_READ: Key =
    key("cache_read", Price, "Input that was read from a cache; as `input` where nothing is known.");
const CACHE_WRITE: Key =
    key("cache_write", Price, "Input that was written to a cache for minutes; as `input` where nothing is known.");
const CACHE_WRITE_LONG: Key = key(
    "cache_write_long",
    Price,
    "Input that was written to a cache for an hour or more; as `cache_write` where nothing is known.",
);

/// One of `models:`. What a price leaves out is taken from the known one with the same name.
pub static PRICE: Table = Table {
    name: "a price",
    keys: &[
        key("from", Date, "The day from which it counts, in UTC; without it always."),
        INPUT,
        OUTPUT,
        CACHE_READ,
        CACHE_WRITE,
        CACHE_WRITE_LONG,
        key(
            "server_tool",
            Price,
            "One use of a tool of the provider, such as a search, in dollars; 0 where nothing is known.",
        ),
        key("long", Sub(&LONG), "Prices of a whole call whose input is large."),
        key("most_output", Tally, "Tokens that the model says at most; a limit that is inserted is not above it."),
        key("window", Tally, "Tokens that the model reads at most."),
    ],
    required: &[],
    foreign: &[
        ("prompt", "write `input:`"),
        ("completion", "write `output:`"),
        ("cached_input", "write `cache_read:`"),
        ("cache_hit", "write `cache_read:`"),
        ("max_output", "write `most_output:`"),
        ("max_tokens", "write `most_output:`"),
        ("context", "write `window:`"),
        ("currency", "prices are in US dollars; remove this key"),
    ],
};

/// `long:`.
pub static LONG: Table = Table {
    name: "`long`",
    keys: &[
        key("above", Tally, "Tokens of input of all classes above which these prices count."),
        INPUT,
        OUTPUT,
        CACHE_READ,
        CACHE_WRITE,
        CACHE_WRITE_LONG,
    ],
    required: &[],
    foreign: &[("threshold", "write `above:`"), ("size", "write `above:`")],
};
