//! A question as `POST /v1/responses` of OpenAI. Nothing is kept there (`store: false`): every request brings the whole
//! conversation, reasoning in its encrypted form with it.

use serde::Serialize;
use serde_json::Value;

use super::{Outgoing, outgoing};
use crate::talk::{Block, Form, Offer, Question, Speaker};
use crate::wire::model;
use crate::wire::turns::{Turn, object, plain_id, plain_name, turns};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    input: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Otherwise a schema is changed to what strict ones may say.
    strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    Reasoning {
        #[serde(skip_serializing_if = "str::is_empty")]
        id: &'a str,
        summary: Vec<Part<'a>>,
        encrypted_content: &'a str,
    },
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: String,
        output: &'a str,
    },
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Part<'a> {
    #[serde(rename = "input_text")]
    Input { text: &'a str },
    #[serde(rename = "output_text")]
    Output { text: &'a str },
    #[serde(rename = "summary_text")]
    Summary { text: &'a str },
}

pub(super) fn request(question: &Question) -> Outgoing {
    // Without its encrypted text it would be looked for at the provider, and not be there.
    let wants = |block: &Block| matches!(block, Block::Thought { seal, form: Form::Item, .. } if !seal.is_empty());
    let thinks = !model::never_thinks(&question.model);
    let body = Body {
        model: &question.model,
        stream: question.stream,
        store: false,
        include: if thinks { &["reasoning.encrypted_content"] } else { &[] },
        reasoning: question.effort.map(|effort| Reasoning { effort: effort.word() }),
        max_output_tokens: question.max_output,
        instructions: &question.system,
        tools: question.tools.iter().map(tool).collect(),
        input: turns(&question.messages, wants).iter().flat_map(items).collect(),
    };
    outgoing(&body, &[])
}

fn tool(offer: &Offer) -> Tool<'_> {
    let Offer { name, description, schema } = offer;
    Tool { kind: "function", name, description, parameters: schema, strict: false }
}

fn items<'a>(turn: &Turn<'a>) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    for block in &turn.blocks {
        let item = match block {
            Block::Text { text } => {
                let (role, part) = match turn.by {
                    Speaker::User => ("user", Part::Input { text }),
                    Speaker::Model => ("assistant", Part::Output { text }),
                };
                if let Some(Item::Message { content, .. }) = items.last_mut() {
                    content.push(part);
                    continue;
                }
                Item::Message { role, content: vec![part] }
            }
            Block::Thought { text, seal, id, .. } => {
                let summary = if text.is_empty() { vec![] } else { vec![Part::Summary { text }] };
                Item::Reasoning { id, summary, encrypted_content: seal }
            }
            Block::Call(call) => {
                let (call_id, arguments) = (plain_id(&call.id), object(&call.input).to_string());
                Item::FunctionCall { call_id, name: plain_name(&call.name), arguments }
            }
            Block::Result { call, text, .. } => Item::FunctionCallOutput { call_id: plain_id(call), output: text },
        };
        items.push(item);
    }
    items
}
