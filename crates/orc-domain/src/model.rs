//! A call of a model as the meter sees it: which protocol it speaks, and what its provider says that it used.
//!
//! Figures are the provider's own, brought into disjoint classes; nothing here reads a protocol (`orc-gateway` does).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::agent::Usage;
use crate::money::UsdMicros;

/// How programs and providers talk. A program is served by a provider of the same protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// `POST /v1/messages` of Anthropic.
    AnthropicMessages,
    /// `POST /v1/responses` of OpenAI.
    OpenaiResponses,
    /// `POST /v1/chat/completions` of OpenAI and of everything compatible.
    OpenaiChat,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 3] = [Self::AnthropicMessages, Self::OpenaiResponses, Self::OpenaiChat];

    /// The word of `protocol:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenaiResponses => "openai-responses",
            Self::OpenaiChat => "openai-chat",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a program wants of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// An answer; costs.
    Answer,
    /// How many tokens a request has; free.
    Count,
    /// Which models there are; free.
    Models,
}

/// Tokens of one call or of many, by the class that is priced; no token is in two of them. Sums stay at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    /// Input that came from no cache.
    pub input: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache that is kept for minutes.
    pub cache_write: u64,
    /// Input written to a cache that is kept for an hour or more.
    pub cache_write_long: u64,
    /// Output without reasoning.
    pub output: u64,
    /// Reasoning, priced as output.
    pub reasoning: u64,
    /// Uses of tools that run at the provider and are priced by use (web searches); no tokens.
    pub server_tools: u64,
}

impl Tokens {
    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cache_write_long: self.cache_write_long.saturating_add(other.cache_write_long),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            server_tools: self.server_tools.saturating_add(other.server_tools),
        }
    }

    /// Input of all classes: what decides about the prices of long contexts.
    #[must_use]
    pub const fn context(self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_write_long)
    }

    /// Tokens of all classes.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.context().saturating_add(self.output).saturating_add(self.reasoning)
    }

    /// The same with no more than so much input, output (reasoning included) and uses of tools; what is cheapest to read goes
    /// first into what there is.
    #[must_use]
    pub fn capped(self, input: u64, output: u64, server_tools: u64) -> Self {
        let take = |left: &mut u64, wanted: u64| {
            let taken = wanted.min(*left);
            *left -= taken;
            taken
        };
        let (input, output) = (&mut { input }, &mut { output });
        Self {
            cache_read: take(input, self.cache_read),
            cache_write: take(input, self.cache_write),
            cache_write_long: take(input, self.cache_write_long),
            input: take(input, self.input),
            reasoning: take(output, self.reasoning),
            output: take(output, self.output),
            server_tools: self.server_tools.min(server_tools),
        }
    }

    /// The same as what an agent used, for so many calls that cost so much.
    #[must_use]
    pub const fn as_usage(self, calls: u64, cost: UsdMicros) -> Usage {
        Usage {
            input: self.input,
            output: self.output,
            reasoning: self.reasoning,
            cache_read: self.cache_read,
            cache_write: self.cache_write.saturating_add(self.cache_write_long),
            calls,
            tool_calls: 0,
            cost,
        }
    }
}
