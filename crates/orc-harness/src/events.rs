//! What a brain tells, as lines of the vocabulary that every agent program speaks (`orc-adapters::vocabulary`): JSON
//! objects with `type`. The run log, the watchdog and whoever follows a run read the same lines, whoever wrote them.
//!
//! The canonical stream, which a replay must give again, is these lines with ids of calls numbered by their first
//! appearance.

use std::collections::BTreeMap;

use orc_domain::agent::AgentStop;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::brain::Event;
use crate::record::hex;
use crate::talk::{ToolCall, ToolInput};

/// Characters of each text of a tool's input, and of its result, that a line shows.
const SHOWN_CHARS: usize = 2_000;

/// The line of an event, without its end.
#[must_use]
pub fn line(event: &Event) -> Value {
    match event {
        Event::Asks { model, turn, again } => {
            let again = again.map(super::brain::Again::word);
            json!({ "type": "request", "model": model, "turn": turn + 1, "again": again })
        }
        Event::Thought { text } => json!({ "type": "thinking", "text": text }),
        Event::Says { text } => json!({ "type": "message", "text": text }),
        Event::Retracted => json!({ "type": "retracted" }),
        Event::Begins { call } => {
            json!({ "type": "tool", "name": call.name, "state": "started", "id": call.id, "input": input(call) })
        }
        Event::Done { call, name, text, failed } => {
            let state = if *failed { "failed" } else { "finished" };
            json!({ "type": "tool", "name": name, "state": state, "id": call, "text": shown(text) })
        }
        Event::Used { tokens } => json!({
            "type": "usage", "input": tokens.input, "output": tokens.output, "reasoning": tokens.reasoning,
            "cache_read": tokens.cache_read,
            "cache_write": tokens.cache_write.saturating_add(tokens.cache_write_long),
        }),
        Event::Output { value } => json!({ "type": "output", "value": value }),
        Event::Permission { asked, text } => json!({ "type": "ask", "text": text, "call": asked }),
        Event::Blocked { why } => json!({ "type": "blocked", "why": why }),
        Event::Steered { why } => json!({ "type": "progress", "text": format!("steered: {why}") }),
        Event::Error { family, message } => json!({ "type": "error", "family": family, "message": message }),
        Event::Stops { stop: AgentStop::NoToolUse } => json!({ "type": "stop" }),
        Event::Stops { stop } => json!({ "type": "stop", "reason": stop.word() }),
    }
}

fn input(call: &ToolCall) -> Value {
    match &call.input {
        ToolInput::Json(value) => shorten(value),
        ToolInput::Broken(text) => Value::String(shown(text)),
    }
}

/// The same with long texts cut.
fn shorten(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(shown(text)),
        Value::Array(items) => items.iter().map(shorten).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shorten(value))).collect(),
        other => other.clone(),
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}[... {} bytes more]", &text[..end], text.len() - end),
    }
}

/// A canonical stream, as it grows.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    names: BTreeMap<String, usize>,
    digests: Vec<String>,
}

impl Stream {
    /// Takes an event in; its canonical line.
    pub fn push(&mut self, event: &Event) -> String {
        let mut value = line(event);
        if let Some(Value::String(id)) = value.get("id") {
            let next = self.names.len() + 1;
            let number = *self.names.entry(id.clone()).or_insert(next);
            value["id"] = json!(number);
        }
        let text = value.to_string();
        self.digests.push(hex(&Sha256::digest(text.as_bytes())));
        text
    }

    /// The digest of each event so far.
    #[must_use]
    pub fn digests(&self) -> &[String] {
        &self.digests
    }
}
