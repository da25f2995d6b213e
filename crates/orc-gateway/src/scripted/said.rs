//! One answer of a script, with what of its request shows in it; each protocol puts it into its own words.

use std::collections::BTreeMap;

use bytes::Bytes;
use orc_domain::ids::ContentHash;
use orc_domain::meter::MOST_OUTPUT;
use orc_domain::model::{Protocol, Tokens};
use orc_domain::script::Answer;
use serde_json::Value;

use super::{anthropic, chat, responses};
use crate::provider::Outgoing;
use crate::wire::Request;

/// Characters of one piece of a text that streams.
const PIECE: usize = 24;
/// Hexadecimal characters of an id.
const ID: usize = 24;

/// An answer.
pub(super) struct Said<'a> {
    pub(super) answer: &'a Answer,
    pub(super) model: &'a str,
    /// What it used; none: it does not tell.
    pub(super) tokens: Option<Tokens>,
    /// What only the request knows.
    pub(super) asked: Asked,
    protocol: Protocol,
    id: String,
}

/// What a request asked for beside an answer.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// A stream of Chat Completions tells its usage only where that is asked for.
    pub(super) usage: bool,
    /// Reasoning comes sealed, to be sent back.
    pub(super) sealed: bool,
    /// Tools that take text, not JSON.
    texts: Vec<String>,
    /// Tools that stand in a namespace, with its name.
    namespaces: BTreeMap<String, String>,
}

impl Asked {
    fn of(body: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut asked = Self {
            usage: body["stream_options"]["include_usage"] == true,
            sealed: list(&body["include"]).iter().any(|what| what == "reasoning.encrypted_content"),
            ..Self::default()
        };
        for tool in list(&body["tools"]) {
            let space = if tool["type"] == "namespace" { tool["name"].as_str() } else { None };
            let inside = if space.is_some() { list(&tool["tools"]) } else { vec![tool.clone()] };
            for tool in inside {
                // Chat Completions has the name one level deeper.
                let name = tool["name"].as_str().or(tool["custom"]["name"].as_str());
                let name = name.unwrap_or_default().to_owned();
                if let Some(space) = space {
                    asked.namespaces.insert(name.clone(), space.to_owned());
                }
                if tool["type"] == "custom" {
                    asked.texts.push(name);
                }
            }
        }
        asked
    }

    pub(super) fn namespace(&self, tool: &str) -> Option<&str> {
        self.namespaces.get(tool).map(String::as_str)
    }
}

impl<'a> Said<'a> {
    pub(super) fn new(answer: &'a Answer, request: &'a Request, outgoing: &Outgoing, seed: &str) -> Self {
        // It was read before, so it is JSON.
        let body: Value = serde_json::from_slice(&outgoing.body).unwrap_or_default();
        Self {
            answer,
            model: &request.model,
            tokens: answer.tokens(outgoing.body.len()).map(|tokens| possible(tokens, request)),
            asked: Asked::of(&body),
            protocol: request.protocol,
            id: ContentHash::of(seed.as_bytes()).as_str()[..ID].to_owned(),
        }
    }

    /// An id of one kind; equal for equal answers.
    pub(super) fn id(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.id)
    }

    /// The id of one of several things of a kind.
    pub(super) fn nth_id(&self, prefix: &str, nth: usize) -> String {
        format!("{prefix}{}{nth:02}", &self.id[..ID - 2])
    }

    /// Whether a tool takes text.
    pub(super) fn takes_text(&self, tool: &str) -> bool {
        self.asked.texts.iter().any(|name| name == tool)
    }

    /// The events of the stream.
    pub(super) fn events(&self) -> Vec<Bytes> {
        match self.protocol {
            Protocol::AnthropicMessages => anthropic::events(self),
            Protocol::OpenaiResponses => responses::events(self),
            Protocol::OpenaiChat => chat::events(self),
        }
    }

    /// The answer without a stream, or why its protocol cannot say it so.
    pub(super) fn whole(&self) -> Result<Value, String> {
        match self.protocol {
            Protocol::AnthropicMessages => anthropic::whole(self),
            Protocol::OpenaiResponses => Ok(responses::whole(self)),
            Protocol::OpenaiChat => Ok(chat::whole(self)),
        }
    }
}

/// What a script says that it used, as far as a model could for this request. A real one is held to the output that was asked
/// for and cannot read more than it was sent; one that did would cross every wall.
fn possible(said: Tokens, request: &Request) -> Tokens {
    let ask = &request.ask;
    let output = ask.output.unwrap_or(MOST_OUTPUT).saturating_mul(ask.answers.max(1));
    let tokens = said.capped(ask.input(), output, ask.server_tools);
    if tokens != said {
        tracing::error!(?said, counted = ?tokens, "a scripted model says that it used more than its request allows");
    }
    tokens
}

/// An event of a stream whose data say its name.
pub(super) fn event(data: &Value) -> Bytes {
    let name = data["type"].as_str().unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// A text in pieces, none for an empty one.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(PIECE).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        if piece.is_empty() { None } else { Some(piece) }
    })
}

/// The input of a call as a text.
pub(super) fn input_text(input: &Value) -> String {
    match input {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
