//! Figures of usage of the three protocols, in classes that share no token. The gateway's meter reads them in the same way;
//! a test compares the two.
//!
//! Figures come once, or several times while they grow: of each the largest counts. What cannot be a count of tokens
//! ([`BELIEVED`]) counts as not told.

use orc_domain::model::{Protocol, Tokens};
use serde_json::Value;

/// More than this nobody used in one call.
const BELIEVED: u64 = 1_000_000_000;

/// What a `usage` says: figures as they are told, with reasoning in `output` as well.
pub(super) fn told(protocol: Protocol, usage: &Value) -> Tokens {
    match protocol {
        Protocol::AnthropicMessages => of_anthropic(usage),
        Protocol::OpenaiResponses => of_openai(usage, ["input_tokens", "output_tokens"]),
        Protocol::OpenaiChat => of_openai(usage, ["prompt_tokens", "completion_tokens"]),
    }
}

/// The larger one of each figure.
pub(super) fn most(one: Tokens, other: Tokens) -> Tokens {
    Tokens {
        input: one.input.max(other.input),
        cache_read: one.cache_read.max(other.cache_read),
        cache_write: one.cache_write.max(other.cache_write),
        cache_write_long: one.cache_write_long.max(other.cache_write_long),
        output: one.output.max(other.output),
        reasoning: one.reasoning.max(other.reasoning),
        server_tools: one.server_tools.max(other.server_tools),
    }
}

/// In classes that share no token.
pub(super) fn classes(told: Tokens) -> Tokens {
    let reasoning = told.reasoning.min(told.output);
    Tokens { output: told.output - reasoning, reasoning, ..told }
}

/// A count: a number, which some servers write as a text or with decimals.
fn figure(value: &Value) -> Option<u64> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let is_figure = whole.bytes().all(|byte| byte.is_ascii_digit()) && decimals.bytes().all(|byte| byte == b'0');
    whole.parse().ok().filter(|figure| is_figure && *figure <= BELIEVED)
}

fn count(value: &Value) -> u64 {
    figure(value).unwrap_or(0)
}

/// Classes are told apart. `iterations` are the rounds of an answer that took several; the figures beside them may leave some
/// out.
fn of_anthropic(usage: &Value) -> Tokens {
    let rounds = usage["iterations"].as_array().into_iter().flatten().take(1_000);
    most(of_anthropic_round(usage), rounds.map(of_anthropic_round).fold(Tokens::default(), Tokens::plus))
}

fn of_anthropic_round(usage: &Value) -> Tokens {
    let kinds = &usage["cache_creation"];
    let (short, long) = (count(&kinds["ephemeral_5m_input_tokens"]), count(&kinds["ephemeral_1h_input_tokens"]));
    Tokens {
        input: count(&usage["input_tokens"]),
        cache_read: count(&usage["cache_read_input_tokens"]),
        cache_write: short.max(count(&usage["cache_creation_input_tokens"]).saturating_sub(long)),
        cache_write_long: long,
        output: count(&usage["output_tokens"]),
        reasoning: count(&usage["output_tokens_details"]["thinking_tokens"]),
        server_tools: count(&usage["server_tool_use"]["web_search_requests"]),
    }
}

/// What caches gave is inside input, and reasoning is inside output; of servers that count reasoning beside it, the total
/// tells.
fn of_openai(usage: &Value, [input, output]: [&str; 2]) -> Tokens {
    let details = |of: &str, what: &str| count(&usage[format!("{of}_details")][what]);
    let (input_told, said) = (figure(&usage[input]), figure(&usage[output]));
    let all = input_told.unwrap_or(0);
    let of_input = |figure: u64, room: u64| if input_told.is_some() { figure.min(room) } else { figure };
    let cache_read = of_input(details(input, "cached_tokens"), all);
    let cache_write = of_input(details(input, "cache_write_tokens"), all.saturating_sub(cache_read));
    let reasoning = details(output, "reasoning_tokens");
    let output = said.map_or(0, |said| {
        let rest = count(&usage["total_tokens"]).saturating_sub(all);
        let is_apart = reasoning > said || rest == said + reasoning;
        if is_apart { said + reasoning } else { said }
    });
    Tokens {
        input: all.saturating_sub(cache_read).saturating_sub(cache_write),
        cache_read,
        cache_write,
        cache_write_long: 0,
        output,
        reasoning,
        server_tools: 0,
    }
}
