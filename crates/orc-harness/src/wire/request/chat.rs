//! A question as `POST /v1/chat/completions` of OpenAI and of everything compatible: whatever only some servers take is left
//! out, or sent to those alone.
//!
//! The output limit is `max_completion_tokens` for OpenAI's own models that think, which refuse the older name, and
//! `max_tokens` for all others: several servers know only that one, and some refuse what they do not know. A message that only
//! calls has `content: null`, as the protocol says; some servers refuse an empty text there, others a missing one.

use serde::Serialize;
use serde_json::Value;

use super::{Outgoing, outgoing};
use crate::talk::{Block, Effort, Form, Offer, Question, Speaker};
use crate::wire::model;
use crate::wire::turns::{Turn, object, plain_name, turns};

/// The names under which servers tell thoughts beside a text. They want them back under the same one.
pub(in crate::wire) const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Said<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Said<'a> {
    System {
        content: &'a str,
    },
    User {
        content: String,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning_content: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Called,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Serialize)]
struct Called {
    name: String,
    arguments: String,
}

pub(super) fn request(question: &Question) -> Outgoing {
    // OpenAI itself tells no thoughts here, and refuses what it does not know.
    let is_openai = model::thinks_at_openai(&question.model) || model::never_thinks(&question.model);
    let wants = |block: &Block| match block {
        Block::Thought { .. } if is_openai => false,
        Block::Thought { text, id, form: Form::Beside, .. } => !text.is_empty() && THOUGHTS.contains(&id.as_str()),
        Block::Thought { seal, form: Form::OfCall, .. } => !seal.is_empty(),
        _ => false,
    };
    let mut messages = Vec::new();
    if !question.system.trim().is_empty() {
        messages.push(Said::System { content: &question.system });
    }
    let mut told = None;
    for turn in turns(&question.messages, wants) {
        match turn.by {
            Speaker::User => user(&turn, &mut messages),
            Speaker::Model => messages.push(assistant(&turn, &mut told)),
        }
    }
    let (newer, limit) = (model::thinks_at_openai(&question.model), question.max_output);
    let body = Body {
        model: &question.model,
        stream: question.stream,
        stream_options: question.stream.then_some(StreamOptions { include_usage: true }),
        max_tokens: limit.filter(|_| !newer),
        max_completion_tokens: limit.filter(|_| newer),
        reasoning_effort: question.effort.map(Effort::word),
        tools: question.tools.iter().map(tool).collect(),
        messages,
    };
    outgoing(&body, &[])
}

fn tool(offer: &Offer) -> Tool<'_> {
    let Offer { name, description, schema } = offer;
    Tool { kind: "function", function: Function { name, description, parameters: schema } }
}

/// Each result is a message of its own; what is said besides comes behind them.
fn user<'a>(turn: &Turn<'a>, messages: &mut Vec<Said<'a>>) {
    for block in &turn.blocks {
        if let Block::Result { call, text, .. } = block {
            messages.push(Said::Tool { tool_call_id: call, content: text });
        }
    }
    let content = turn.text();
    if !content.is_empty() {
        messages.push(Said::User { content });
    }
}

/// `told` is the name under which thoughts were told so far. From then on, servers that call them `reasoning_content` want some
/// with every answer, be they empty.
fn assistant<'a>(turn: &Turn<'a>, told: &mut Option<&'a str>) -> Said<'a> {
    let mut thoughts = Vec::new();
    let mut tool_calls = Vec::new();
    let mut extra_content = None;
    for block in &turn.blocks {
        match block {
            Block::Thought { seal, form: Form::OfCall, .. } => extra_content = serde_json::from_str(seal).ok(),
            Block::Thought { text, id, .. } => {
                *told = Some(id);
                thoughts.push(text.as_str());
            }
            Block::Call(call) => {
                let function = Called { name: plain_name(&call.name), arguments: object(&call.input).to_string() };
                tool_calls.push(Call { id: &call.id, kind: "function", function, extra_content: extra_content.take() });
            }
            Block::Text { .. } | Block::Result { .. } => {}
        }
    }
    let thoughts = |name| (*told == Some(name)).then(|| thoughts.join("\n"));
    let [reasoning_content, reasoning] = THOUGHTS.map(thoughts);
    let reasoning = reasoning.filter(|text| !text.is_empty());
    let text = turn.text();
    let content = if text.is_empty() && !tool_calls.is_empty() { None } else { Some(text) };
    Said::Assistant { content, reasoning_content, reasoning, tool_calls }
}
