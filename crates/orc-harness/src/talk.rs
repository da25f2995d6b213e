//! What a brain and a model say to each other, in no protocol's words.
//!
//! A conversation is a list of messages that only grows; a [`Question`] is all of it with what surrounds it. An answer
//! comes as [`Said`], in the order in which the model says it. Nothing here knows how any of it is sent (`wire` does).

use serde::{Deserialize, Serialize};

use orc_domain::model::Tokens;
pub use orc_domain::profile::Effort;

/// Whose words these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// Whoever asks, and tools that answer.
    User,
    /// The model.
    Model,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Whose.
    pub by: Speaker,
    /// Its pieces, in order; never none.
    pub blocks: Vec<Block>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "block", rename_all = "snake_case")]
pub enum Block {
    /// Words.
    Text {
        /// They.
        text: String,
    },
    /// What a model thought. Goes back to the model that thought it as it came.
    Thought {
        /// In words; empty where it does not show them.
        text: String,
        /// What its provider wants back with it, unread: a signature, an encrypted text; empty where there is none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        seal: String,
        /// The provider's own id of it, or its name for it; empty where there is none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        id: String,
        /// In which form its provider wants it back; only `wire` reads this.
        #[serde(default)]
        form: Form,
    },
    /// A tool that a model wants used.
    Call(ToolCall),
    /// What came of a call. In a user's message, before any text.
    Result {
        /// Of which call.
        call: String,
        /// What the model is told.
        text: String,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        failed: bool,
    },
}

/// In which form a thought goes back to the model that thought it. Those of one protocol are left out of requests of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// In none: nobody wants it back.
    #[default]
    Told,
    /// Words with a signature: `thinking` of Anthropic.
    Signed,
    /// Sealed as a whole: `redacted_thinking` of Anthropic.
    Sealed,
    /// An item of its own with an encrypted text: `reasoning` of Responses.
    Item,
    /// Words beside the text of a message of Chat Completions, under the name that `id` has.
    Beside,
    /// What stands beside the call that follows (`extra_content` of Chat Completions), as JSON in `seal`.
    OfCall,
}

/// A call of a tool, as a model made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Its id: the provider's, or one that `wire` made because there was none. Unique within the conversation once the brain
    /// has taken it in.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// Its input.
    pub input: ToolInput,
}

/// The input of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolInput {
    /// JSON; an empty text of a model is an empty object.
    Json(serde_json::Value),
    /// What is no JSON, as it came.
    Broken(String),
}

/// A tool that is offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// When to use it and when not.
    pub description: String,
    /// The JSON Schema of its input.
    pub schema: serde_json::Value,
}

/// Everything that a model is asked at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Which model.
    pub model: String,
    /// The system text; the same bytes through a whole conversation.
    pub system: String,
    /// Tools, in an order that does not change.
    pub tools: Vec<Offer>,
    /// The conversation. Speakers may follow themselves; `wire` joins what a protocol wants joined.
    pub messages: Vec<Message>,
    /// Most tokens of output; none: what the protocol or the model has by itself.
    pub max_output: Option<u32>,
    /// How hard it is to think; none: its own default, which may be not at all.
    pub effort: Option<Effort>,
    /// Whether the answer comes in pieces.
    pub stream: bool,
}

/// What a model says, in pieces. The pieces of one block follow each other; an answer without a stream is the same pieces at
/// once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// More of a text.
    Text {
        /// What.
        text: String,
        /// Whether this begins another text.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        begins: bool,
    },
    /// More of a thought, for who watches; the whole of it comes as [`Said::Block`].
    Thinking {
        /// What.
        text: String,
    },
    /// A call begins; its input is on its way.
    CallBegins {
        /// Which tool.
        name: String,
    },
    /// A whole thought or a whole call; of texts only their pieces come.
    Block(Block),
    /// What the answer used: all of it so far, not what came since.
    Used(Tokens),
    /// The end. Nothing follows.
    Ended(Ended),
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Everything is said.
    Said,
    /// Tools are called.
    Calls,
    /// The limit of the output is reached: the last block may be cut, and a call that was cut is not there.
    OutputLimit,
    /// It will not.
    Refused,
    /// The conversation is longer than what the model can read.
    Overflow,
}

/// Why there is no whole answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "failure", rename_all = "snake_case")]
pub enum CallFailure {
    /// The conversation is longer than what the model can read; the same again is refused again.
    #[error("the conversation is too long for the model: {why}")]
    Overflow {
        /// In the provider's words.
        why: String,
    },
    /// A wall, or whoever decides about the run, refuses it.
    #[error("refused: {why}")]
    Denied {
        /// In words.
        why: String,
    },
    /// The provider takes nothing for now; the gateway has waited already.
    #[error("the provider takes nothing for now: {why}")]
    Busy {
        /// In its words.
        why: String,
    },
    /// The request itself is wrong, or the model is not there: the same again is refused again.
    #[error("the provider refuses the request ({status}): {why}")]
    Refused {
        /// Its status.
        status: u16,
        /// In its words.
        why: String,
    },
    /// The answer broke off, or cannot be read.
    #[error("the answer broke off: {why}")]
    Broken {
        /// How.
        why: String,
    },
}
