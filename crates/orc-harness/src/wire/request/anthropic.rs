//! A question as `POST /v1/messages` of Anthropic.
//!
//! Four places are marked for the cache, as many as there may be: the system text, the last tool, and the ends of the last two
//! turns of the user. The older one of these is where the request before this one ended, so that it is found however many
//! blocks came since.

use serde::Serialize;
use serde_json::Value;

use super::{Outgoing, outgoing};
use crate::talk::{Block, Effort, Form, Offer, Question, Speaker};
use crate::wire::model;
use crate::wire::turns::{Turn, object, plain_id, plain_name, turns};

/// The least that a budget of thoughts may be.
const LEAST_BUDGET: u32 = 1_024;
/// A failure without words is refused.
const NO_WORDS: &str = "It failed, and said nothing.";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Marked<Piece<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Marked<Tool<'a>>>,
    messages: Vec<Said<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Enabled {
        budget_tokens: u32,
    },
    Adaptive {
        /// Newer models show nothing of their thoughts where it is not asked for.
        display: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        block_binding: Option<Binding>,
    },
}

#[derive(Serialize)]
struct Binding {
    prefix_mismatch_behavior: &'static str,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Vec<Marked<Piece<'a>>>,
}

/// Something at whose end the cache may be cut.
#[derive(Serialize)]
struct Marked<T> {
    #[serde(flatten)]
    what: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Mark {
    Ephemeral,
}

impl<T> From<T> for Marked<T> {
    fn from(what: T) -> Self {
        Self { what, cache_control: None }
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

impl Piece<'_> {
    /// Whether it is a result without a text: those take no mark.
    const fn is_empty(&self) -> bool {
        matches!(self, Self::ToolResult { content, .. } if content.is_empty())
    }
}

pub(super) fn request(question: &Question) -> Outgoing {
    let claude = model::claude(&question.model);
    let max_tokens = question.max_output.unwrap_or_else(|| model::most_output(claude));
    // Anthropic refuses words without a signature (they were cut); servers that only talk like it may have none at all.
    let wants = |block: &Block| match block {
        Block::Thought { text, seal, form: Form::Signed, .. } => {
            !seal.is_empty() || (claude.is_none() && !text.is_empty())
        }
        Block::Thought { seal, form: Form::Sealed, .. } => !seal.is_empty(),
        _ => false,
    };
    let turns = turns(&question.messages, wants);
    let (thinking, output_config) = thinking(question, claude, max_tokens, &turns);
    let mut headers = vec![("anthropic-version", "2023-06-01")];
    if matches!(thinking, Some(Thinking::Adaptive { block_binding: Some(_), .. })) {
        headers.push(("anthropic-beta", "thinking-binding-controls-2026-08-01"));
    }
    let is_blank = question.system.trim().is_empty();
    let mut system: Vec<_> = if is_blank { vec![] } else { vec![Piece::Text { text: &question.system }.into()] };
    let mut tools: Vec<_> = question.tools.iter().map(tool).collect();
    mark(system.last_mut());
    mark(tools.last_mut());
    let mut messages: Vec<_> = turns.iter().map(said).collect();
    for message in messages.iter_mut().rev().filter(|message| message.role == "user").take(2) {
        mark(message.content.iter_mut().rev().find(|piece| !piece.what.is_empty()));
    }
    let stream = question.stream;
    outgoing(
        &Body { model: &question.model, max_tokens, stream, thinking, output_config, system, tools, messages },
        &headers,
    )
}

fn mark<T>(what: Option<&mut Marked<T>>) {
    if let Some(marked) = what {
        marked.cache_control = Some(Mark::Ephemeral);
    }
}

/// How it is told to think. What a model that binds its thoughts cannot take back, because a conversation was shortened
/// before them, it is to drop: otherwise the request is refused.
fn thinking(
    question: &Question,
    claude: Option<(u32, u32)>,
    max_tokens: u32,
    turns: &[Turn<'_>],
) -> (Option<Thinking>, Option<OutputConfig>) {
    let effort = question.effort;
    if model::thinks_by_effort(claude) {
        let binds = model::binds_thoughts(claude);
        let block_binding = binds.then_some(Binding { prefix_mismatch_behavior: "drop_block" });
        let adaptive = Thinking::Adaptive { display: "summarized", block_binding };
        let output_config = effort.map(|effort| OutputConfig { effort: effort.word() });
        return ((binds || effort.is_some()).then_some(adaptive), output_config);
    }
    let budget = effort.filter(|_| !goes_on_without_a_thought(turns)).and_then(|effort| budget(effort, max_tokens));
    (budget.map(|budget_tokens| Thinking::Enabled { budget_tokens }), None)
}

/// With a budget, an answer that goes on behind results has to begin with a thought; one that does not (another model gave
/// it, or it was shortened) is gone on with without thinking.
fn goes_on_without_a_thought(turns: &[Turn<'_>]) -> bool {
    match turns {
        [.., answer, results] if answer.by == Speaker::Model => {
            matches!(results.blocks.first(), Some(Block::Result { .. }))
                && !matches!(answer.blocks.first(), Some(Block::Thought { .. }))
        }
        _ => false,
    }
}

/// Tokens for thoughts: a part of the output limit, so that an answer has room as well. More than 32,768 are said to bring
/// little.
fn budget(effort: Effort, max_tokens: u32) -> Option<u32> {
    let budget = match effort {
        Effort::Low => (max_tokens / 4).min(4_096),
        Effort::Medium => (max_tokens / 2).min(16_384),
        Effort::High => (max_tokens / 4).saturating_mul(3).min(32_768),
    };
    (max_tokens > 2 * LEAST_BUDGET).then_some(budget.max(LEAST_BUDGET))
}

fn tool(offer: &Offer) -> Marked<Tool<'_>> {
    Tool { name: &offer.name, description: &offer.description, input_schema: &offer.schema }.into()
}

fn said<'a>(turn: &Turn<'a>) -> Said<'a> {
    let role = match turn.by {
        Speaker::User => "user",
        Speaker::Model => "assistant",
    };
    Said { role, content: turn.blocks.iter().map(|block| piece(block).into()).collect() }
}

fn piece(block: &Block) -> Piece<'_> {
    match block {
        Block::Text { text } => Piece::Text { text },
        Block::Thought { seal, form: Form::Sealed, .. } => Piece::RedactedThinking { data: seal },
        Block::Thought { text, seal, .. } => Piece::Thinking { thinking: text, signature: seal },
        Block::Call(call) => {
            Piece::ToolUse { id: plain_id(&call.id), name: plain_name(&call.name), input: object(&call.input) }
        }
        Block::Result { call, text, failed } => {
            let content = if *failed && text.trim().is_empty() { NO_WORDS } else { text };
            Piece::ToolResult { tool_use_id: plain_id(call), content, is_error: *failed }
        }
    }
}
