//! What a loop works with: resolved once before it begins, and the same through a run.

use serde::{Deserialize, Serialize};

use crate::talk::{Effort, Offer};
use crate::wire::longest_output;

/// Output that is asked for at first, in tokens: enough for most turns, and little to set aside below a wall.
const FIRST_OUTPUT: u32 = 16_384;
/// How often that is doubled for an answer that was cut (design: three times a turn).
pub(super) const MOST_RAISES: u32 = 3;

/// Everything that is decided before a conversation goes on. What stands in it is written to the record, so that a
/// conversation goes on with the bytes that its provider has in its cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Which model.
    pub model: String,
    /// Those that take its place when it does not answer, in order.
    #[serde(default)]
    pub fallbacks: Vec<String>,
    /// How hard it thinks.
    #[serde(default)]
    pub effort: Option<Effort>,
    /// Answers in one run at most; none: no bound.
    #[serde(default)]
    pub max_turns: Option<u32>,
    /// Tokens of output that somebody pinned; never raised.
    #[serde(default)]
    pub max_output: Option<u32>,
    /// The system text.
    pub system: String,
    /// Tools that are there, in the order in which they are offered.
    pub tools: Vec<Tool>,
}

/// A tool that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// What the model is told of it.
    pub offer: Offer,
    /// Who does it.
    pub kind: Kind,
}

/// Who does a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The hands; it changes nothing, and others may run beside it.
    Reads,
    /// The hands; alone.
    Changes,
    /// The hands; alone, and what comes behind it in the same answer is not done when it fails.
    Shell,
    /// The list of what is to be done, which the brain keeps itself.
    Todo,
    /// The output, which the brain checks itself. The run ends with it.
    Submit {
        /// Whether it stands in the member `output` of the input, because its schema asks for no object.
        wrapped: bool,
    },
    /// Its word that it cannot go on. The run ends with it.
    Blocked,
    /// Another agent.
    Agent,
}

impl Kind {
    /// Whether others may run beside it.
    pub(super) const fn is_shared(self) -> bool {
        matches!(self, Self::Reads | Self::Agent | Self::Todo | Self::Submit { .. } | Self::Blocked)
    }
}

impl Settings {
    /// The model in use: 0 is the first.
    pub(super) fn model_at(&self, number: usize) -> &str {
        number.checked_sub(1).and_then(|at| self.fallbacks.get(at)).unwrap_or(&self.model)
    }

    /// Whether there is one more behind it.
    pub(super) const fn has_fallback(&self, number: usize) -> bool {
        number < self.fallbacks.len()
    }

    /// Tokens of output to ask for after it was raised so often.
    pub(super) fn output_limit(&self, model: usize, raises: u32) -> u32 {
        let raised = FIRST_OUTPUT << raises.min(MOST_RAISES);
        self.max_output.unwrap_or_else(|| raised.min(longest_output(self.model_at(model))))
    }

    /// Whether an answer that was cut may be asked for again with more room.
    pub(super) fn may_raise(&self, model: usize, raises: u32) -> bool {
        raises < MOST_RAISES && self.output_limit(model, raises) < self.output_limit(model, raises + 1)
    }

    /// A tool by its name, or the name that it has besides.
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        let name = if name == "Task" { "Agent" } else { name };
        self.tools.iter().find(|tool| tool.offer.name == name)
    }
}
