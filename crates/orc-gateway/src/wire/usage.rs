//! Figures of usage, brought out of the words of the three protocols into classes that share no token.
//!
//! A provider tells figures once, several times while they grow, or piece by piece; per figure the largest one counts,
//! which is the last one of a counter. What cannot be a count of tokens ([`BELIEVED`]) counts as not told.

use orc_domain::model::{Protocol, Tokens};
use serde_json::Value;

/// More than this nobody used in one call: a thousand times the largest window.
const BELIEVED: u64 = 1_000_000_000;

/// What was told so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// Input, without what the classes of caches count.
    pub(super) input: Option<u64>,
    cache_read: u64,
    cache_write: u64,
    cache_write_long: u64,
    /// Output, with reasoning.
    pub(super) output: Option<u64>,
    reasoning: u64,
    pub(super) server_tools: u64,
}

impl Figures {
    /// Learns what a `usage` says.
    pub(super) fn learn(&mut self, protocol: Protocol, usage: &Value) {
        let told = match protocol {
            Protocol::AnthropicMessages => of_anthropic(usage),
            Protocol::OpenaiResponses => {
                of_openai(usage, ["input_tokens", "output_tokens"], ["input_tokens_details", "output_tokens_details"])
            }
            Protocol::OpenaiChat => of_openai(
                usage,
                ["prompt_tokens", "completion_tokens"],
                ["prompt_tokens_details", "completion_tokens_details"],
            ),
        };
        *self = self.most(told);
    }

    fn most(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
            cache_write_long: self.cache_write_long.max(other.cache_write_long),
            output: self.output.max(other.output),
            reasoning: self.reasoning.max(other.reasoning),
            server_tools: self.server_tools.max(other.server_tools),
        }
    }

    fn plus(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            (one, other) => Some(one.unwrap_or(0) + other.unwrap_or(0)),
        };
        Self {
            input: sum(self.input, other.input),
            cache_read: self.cache_read + other.cache_read,
            cache_write: self.cache_write + other.cache_write,
            cache_write_long: self.cache_write_long + other.cache_write_long,
            output: sum(self.output, other.output),
            reasoning: self.reasoning + other.reasoning,
            server_tools: self.server_tools + other.server_tools,
        }
    }

    /// Whether input and output are known.
    pub(super) fn is_whole(self) -> bool {
        self.input.is_some() && self.output.is_some()
    }

    /// In classes; what was not told is 0.
    pub(super) fn tokens(self) -> Tokens {
        let output = self.output.unwrap_or(0);
        let reasoning = self.reasoning.min(output);
        Tokens {
            input: self.input.unwrap_or(0),
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            cache_write_long: self.cache_write_long,
            output: output - reasoning,
            reasoning,
            server_tools: self.server_tools,
        }
    }
}

/// A count of tokens. Some servers write them as text or with decimals; what cannot be one is none.
fn figure(value: &Value) -> Option<u64> {
    let figure = match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(&number.to_string())),
        Value::String(text) => whole(text),
        _ => None,
    };
    figure.filter(|figure| *figure <= BELIEVED)
}

fn whole(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_whole = decimals.bytes().all(|byte| byte == b'0') && whole.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole { whole.parse().ok() } else { None }
}

/// Input, what is written to caches, and what is read from them are told apart. `iterations` are the rounds of an answer
/// that took several; the figures beside it may leave some of them out.
fn of_anthropic(usage: &Value) -> Figures {
    let mut told = of_anthropic_round(usage);
    if let Some(rounds) = usage["iterations"].as_array() {
        let all = rounds.iter().take(1_000).map(of_anthropic_round).fold(Figures::default(), Figures::plus);
        told = told.most(all);
    }
    told
}

fn of_anthropic_round(usage: &Value) -> Figures {
    let of = |value: &Value| figure(value).unwrap_or(0);
    let written = of(&usage["cache_creation_input_tokens"]);
    let long = of(&usage["cache_creation"]["ephemeral_1h_input_tokens"]);
    let short = of(&usage["cache_creation"]["ephemeral_5m_input_tokens"]);
    Figures {
        input: figure(&usage["input_tokens"]),
        cache_read: of(&usage["cache_read_input_tokens"]),
        cache_write: short.max(written.saturating_sub(long)),
        cache_write_long: long,
        output: figure(&usage["output_tokens"]),
        reasoning: of(&usage["output_tokens_details"]["thinking_tokens"]),
        server_tools: of(&usage["server_tool_use"]["web_search_requests"]),
    }
}

/// What caches gave is inside input, and reasoning is inside output; of servers that count reasoning apart, the total tells.
fn of_openai(usage: &Value, [input, output]: [&str; 2], [input_details, output_details]: [&str; 2]) -> Figures {
    let of = |value: &Value| figure(value).unwrap_or(0);
    let (all_input, said) = (figure(&usage[input]), figure(&usage[output]));
    let cache_read = of(&usage[input_details]["cached_tokens"]).min(all_input.unwrap_or(u64::MAX));
    let fresh = all_input.map(|all| all - cache_read.min(all));
    let cache_write = of(&usage[input_details]["cache_write_tokens"]).min(fresh.unwrap_or(u64::MAX));
    let reasoning = of(&usage[output_details]["reasoning_tokens"]);
    let output = said.map(|said| {
        let rest = of(&usage["total_tokens"]).saturating_sub(all_input.unwrap_or(0));
        let is_apart = reasoning > said || rest == said + reasoning;
        if is_apart { said + reasoning } else { said }
    });
    Figures {
        input: fresh.map(|fresh| fresh - cache_write),
        cache_read,
        cache_write,
        cache_write_long: 0,
        output,
        reasoning,
        server_tools: 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(protocol: Protocol, usages: &[Value]) -> (Tokens, bool) {
        let mut figures = Figures::default();
        for usage in usages {
            figures.learn(protocol, usage);
        }
        (figures.tokens(), figures.is_whole())
    }

    #[test]
    fn figures_of_anthropic_by_class() {
        let usage = json!({
            "input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 33,
            "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 3},
            "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 8},
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 7}
        });
        let wanted = Tokens {
            input: 10,
            cache_read: 20,
            cache_write: 30,
            cache_write_long: 3,
            output: 42,
            reasoning: 8,
            server_tools: 2,
        };
        assert_eq!(tokens(Protocol::AnthropicMessages, &[usage]), (wanted, true));
    }

    #[test]
    fn writes_to_caches_with_and_without_their_kinds() {
        for (usage, wanted) in [
            (json!({"cache_creation_input_tokens": 5}), (5, 0)),
            (json!({"cache_creation_input_tokens": 5, "cache_creation": null}), (5, 0)),
            (json!({"cache_creation_input_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 2}}), (3, 2)),
            (json!({"cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2}}), (1, 2)),
            (json!({"cache_creation_input_tokens": null, "cache_creation": "none"}), (0, 0)),
        ] {
            let (told, _) = tokens(Protocol::AnthropicMessages, std::slice::from_ref(&usage));
            assert_eq!((told.cache_write, told.cache_write_long), wanted, "{usage}");
        }
    }

    #[test]
    fn counters_grow_and_zeros_that_follow_take_nothing_back() {
        let usages = [
            json!({"input_tokens": 10, "output_tokens": 1}),
            json!({"output_tokens": 20}),
            json!({"input_tokens": 0, "output_tokens": 30}),
        ];
        let wanted = Tokens { input: 10, output: 30, ..Tokens::default() };
        assert_eq!(tokens(Protocol::AnthropicMessages, &usages), (wanted, true));
    }

    #[test]
    fn rounds_count_where_the_sum_leaves_them_out() {
        let usage = json!({
            "input_tokens": 10, "output_tokens": 5,
            "iterations": [
                {"type": "compaction", "input_tokens": 100, "output_tokens": 20},
                {"type": "message", "input_tokens": 10, "output_tokens": 5}
            ]
        });
        let wanted = Tokens { input: 110, output: 25, ..Tokens::default() };
        assert_eq!(tokens(Protocol::AnthropicMessages, &[usage]), (wanted, true));
        let empty = json!({"input_tokens": 10, "output_tokens": 5, "iterations": []});
        assert_eq!(tokens(Protocol::AnthropicMessages, &[empty]).0.total(), 15);
    }

    #[test]
    fn figures_of_openai_by_class() {
        let responses = json!({
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 150
        });
        let wanted = Tokens { input: 40, cache_read: 60, output: 20, reasoning: 30, ..Tokens::default() };
        assert_eq!(tokens(Protocol::OpenaiResponses, &[responses]), (wanted, true));
        let chat = |usage| tokens(Protocol::OpenaiChat, &[usage]).0;
        assert_eq!(
            chat(json!({
                "prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 15},
                "completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 30}
            })),
            Tokens { input: 25, cache_read: 60, cache_write: 15, output: 20, reasoning: 30, ..Tokens::default() }
        );
        // More from the cache than there was: never below zero.
        let odd = json!({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}, "completion_tokens": 0});
        assert_eq!(chat(odd), Tokens { cache_read: 5, ..Tokens::default() });
    }

    #[test]
    fn reasoning_beside_the_output_is_seen_by_the_total() {
        let usage = |total: u64| {
            json!({
                "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": total,
                "completion_tokens_details": {"reasoning_tokens": 5}
            })
        };
        let output = |usage| {
            let (told, _) = tokens(Protocol::OpenaiChat, &[usage]);
            (told.output, told.reasoning)
        };
        assert_eq!(output(usage(15)), (0, 5));
        assert_eq!(output(usage(20)), (5, 5));
        let more = json!({"prompt_tokens": 1, "completion_tokens": 5,
                          "completion_tokens_details": {"reasoning_tokens": 8}});
        assert_eq!(output(more), (5, 8));
    }

    #[test]
    fn what_cannot_be_a_count_is_not_told() {
        for (text, wanted) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("\"7\"", Some(7)),
            ("0", Some(0)),
            ("null", None),
            ("1e3", Some(1000)),
            ("-1", None),
            ("1.5", None),
            ("1000000001", None),
            ("99999999999999999999999", None),
            ("\"many\"", None),
            ("\"\"", None),
            ("true", None),
            ("[7]", None),
            ("{}", None),
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(figure(&value), wanted, "{text}");
        }
        assert!(!tokens(Protocol::AnthropicMessages, &[json!({"input_tokens": 5})]).1);
        assert!(!tokens(Protocol::AnthropicMessages, &[json!(null), json!("usage"), json!([1])]).1);
    }
}
