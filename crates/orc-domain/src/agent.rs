//! What agents tell while they run, and what came of one: the vocabulary that every adapter translates into.
//!
//! An adapter turns the bytes of its program into [`AgentEvent`]s and folds them, with the end of the process, into one
//! [`AgentResult`]. Nothing here believes an agent: an exit status is no delivery, and the outcome is made of evidence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::money::UsdMicros;
use crate::permission::AskedCall;
use crate::run::ErrorFamily;
use crate::time::Timestamp;
use crate::value::Value;

/// Something that an agent told. All of it is text from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentEvent {
    /// It says something; the last one is its final message.
    Message {
        /// What.
        text: String,
    },
    /// A line that is no event: the output of a program that knows nothing of events.
    Text {
        /// The line without its end.
        line: String,
    },
    /// It is alive and works.
    Progress {
        /// On what.
        text: Option<String>,
    },
    /// It uses a tool.
    Tool {
        /// Which.
        name: String,
        /// How far it is.
        state: ToolState,
    },
    /// What it has used since the last such event.
    Usage(Usage),
    /// It submits its output; the last one counts.
    Output {
        /// What, unchecked.
        value: serde_json::Value,
    },
    /// It cannot go on without an answer.
    Ask {
        /// What it wants to know.
        text: String,
        /// The call that it asks about, when it asks whether that may run.
        call: Option<AskedCall>,
    },
    /// It cannot go on.
    Blocked {
        /// Why.
        why: String,
    },
    /// Something failed.
    Error {
        /// What is to be done about it.
        family: ErrorFamily,
        /// What.
        message: String,
    },
    /// It is done: what follows is leave-taking.
    Stop {
        /// Why.
        reason: AgentStop,
    },
    /// An event that this version does not know, or one that is not as it should be; shown, never an error.
    Unknown {
        /// Its `type`.
        kind: String,
        /// What is wrong with it; empty when only its type is unknown.
        why: String,
    },
}

/// How far a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    /// It begins.
    Started,
    /// It goes on.
    Progress,
    /// It is through.
    Finished,
    /// It is through and failed.
    Failed,
}

/// Tokens by class, calls and money; sums never overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that came from no cache.
    pub input: u64,
    /// Output tokens without reasoning.
    pub output: u64,
    /// Reasoning tokens.
    pub reasoning: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Calls of a model.
    pub calls: u64,
    /// Calls of tools.
    #[serde(default)]
    pub tool_calls: u64,
    /// What it says that it cost; never believed for a wall.
    pub cost: UsdMicros,
}

impl Usage {
    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            calls: self.calls.saturating_add(other.calls),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
            cost: UsdMicros::from_micros(self.cost.as_micros().saturating_add(other.cost.as_micros())),
        }
    }

    /// Tokens of all classes.
    #[must_use]
    pub const fn tokens(self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.reasoning)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

/// Why an agent's work ended; the words of the run log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStop {
    /// It had nothing more to do.
    NoToolUse,
    /// It took as many turns as it may.
    MaxTurns,
    /// Its prompt no longer fits.
    PromptTooLong,
    /// A program that looks on ended it.
    Hook,
    /// It was no longer wanted.
    Abort,
    /// It said nothing for longer than it may.
    Silence,
    /// It spent what it may.
    Spend,
    /// It repeated itself.
    Looping,
    /// A person took over.
    Takeover,
    /// It ended without what it owes, however often it was told.
    Contract,
    /// A person paused it.
    Paused,
    /// Somebody has to say whether a call may run.
    Permission,
}

impl AgentStop {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::NoToolUse,
        Self::MaxTurns,
        Self::PromptTooLong,
        Self::Hook,
        Self::Abort,
        Self::Silence,
        Self::Spend,
        Self::Looping,
        Self::Takeover,
        Self::Contract,
        Self::Paused,
        Self::Permission,
    ];

    /// The word in the run log.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoToolUse => "no_tool_use",
            Self::MaxTurns => "max_turns",
            Self::PromptTooLong => "prompt_too_long",
            Self::Hook => "hook",
            Self::Abort => "abort",
            Self::Silence => "silence",
            Self::Spend => "spend",
            Self::Looping => "looping",
            Self::Takeover => "takeover",
            Self::Contract => "contract",
            Self::Paused => "paused",
            Self::Permission => "permission",
        }
    }

    /// The reason of that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }
}

/// What is known of the output of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Bytes of output and error output.
    pub bytes: u64,
    /// Lines of both.
    pub lines: u64,
    /// Events among them.
    pub events: u64,
    /// Events that were not understood.
    pub unknown: u64,
    /// Lines that were too long to be read.
    pub overlong: u64,
    /// How often the end of the output says the same, one line or a few in turn; 1 when it does not.
    pub repeats: u32,
    /// When the last byte came.
    pub last_output_at: Option<Timestamp>,
    /// When it last did something: a tool came through, or an output was submitted.
    pub last_progress_at: Option<Timestamp>,
}

/// How the work of an agent ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentOutcome {
    /// Everything it owed is there.
    Delivered,
    /// It ended well and something it owed is missing.
    NoDeliverable {
        /// What, so that it can be told to the agent.
        missing: String,
    },
    /// It says that it cannot go on.
    Blocked {
        /// Why.
        why: String,
        /// It waits for an answer: a message to it may wake it again.
        asks: bool,
        /// The call that it asks about, when it asks whether that may run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<AskedCall>,
    },
    /// It failed.
    Failed {
        /// What is to be done about it.
        family: ErrorFamily,
        /// What happened, for people.
        why: String,
    },
    /// It was stopped because it was no longer wanted.
    Cancelled,
}

/// What came of a run of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentResult {
    /// How it ended.
    pub outcome: AgentOutcome,
    /// Why it ended; `None` when it failed by itself.
    pub stop: Option<AgentStop>,
    /// Its final message; text from outside.
    pub message: Option<String>,
    /// What it submitted, when it fits what was asked for; text from outside.
    pub output: Option<Value>,
    /// What it says that it used.
    pub usage: Usage,
    /// What is known of its output.
    pub statistics: Statistics,
}

impl fmt::Display for AgentOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered => f.write_str("delivered"),
            Self::NoDeliverable { missing } => write!(f, "not delivered: {missing}"),
            Self::Blocked { why, asks: false, .. } => write!(f, "blocked: {why}"),
            Self::Blocked { why, asks: true, .. } => write!(f, "asks: {why}"),
            Self::Failed { why, .. } => write!(f, "failed: {why}"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_stops_are_those_of_the_stored_form() {
        for stop in AgentStop::ALL {
            assert_eq!(AgentStop::parse(stop.word()), Some(stop));
            assert_eq!(serde_json::to_value(stop).unwrap(), stop.word());
        }
        assert_eq!(AgentStop::parse("end_turn"), None);
    }

    #[test]
    fn sums_of_usage_stay_at_the_largest_number() {
        let most = Usage { input: u64::MAX, cost: UsdMicros::from_micros(i64::MAX), calls: 1, ..Usage::default() };
        let sum = most.plus(Usage { input: 1, output: 2, cost: UsdMicros::from_micros(1), ..most });
        assert_eq!((sum.input, sum.output, sum.calls, sum.cost.as_micros()), (u64::MAX, 2, 2, i64::MAX));
        assert_eq!(sum.tokens(), u64::MAX);
    }
}
