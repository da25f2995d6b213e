//! Answers of Chat Completions, of OpenAI and of everything compatible. The first choice counts. Calls are handed out at the
//! end of the answer: nothing marks the end of one before.

use serde_json::Value;

use super::voice::{Voice, text_of};
use super::{Follow, failure_within};
use crate::talk::{Block, CallFailure, Ended, Form};
use crate::wire::request::THOUGHTS;

/// The state of an answer.
#[derive(Default)]
pub(super) struct Answer {
    thought: String,
    /// The name under which thoughts come.
    told_as: &'static str,
    calls: Vec<Call>,
    finish: Option<String>,
    refused: bool,
}

/// A call as far as it came.
#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// What the provider wants back beside it.
    extra: Option<String>,
}

impl Follow for Answer {
    fn event(&mut self, _name: &str, event: &Value, voice: &mut Voice) -> Result<(), CallFailure> {
        self.read(event, "delta", voice)
    }

    fn whole(&mut self, answer: &Value, voice: &mut Voice) -> Result<(), CallFailure> {
        if answer["choices"][0].is_object() {
            self.read(answer, "message", voice)?;
            self.close(voice);
        }
        Ok(())
    }

    /// Some servers leave the mark away, others the reason.
    fn over(&mut self, marked: bool, voice: &mut Voice) {
        if marked || self.finish.is_some() {
            self.close(voice);
        }
    }
}

impl Answer {
    fn read(&mut self, answer: &Value, key: &str, voice: &mut Voice) -> Result<(), CallFailure> {
        if !answer["error"].is_null() {
            return Err(failure_within(voice.protocol(), &answer["error"]));
        }
        for choice in answer["choices"].as_array().into_iter().flatten() {
            if choice["index"].as_u64().unwrap_or(0) == 0 {
                if !choice["error"].is_null() {
                    return Err(failure_within(voice.protocol(), &choice["error"]));
                }
                self.said(&choice[key], key == "message", voice);
                if let Some(finish) = choice["finish_reason"].as_str().filter(|finish| !finish.is_empty()) {
                    self.finish = Some(finish.to_owned());
                }
            }
        }
        voice.learn(&answer["usage"], false);
        if matches!(self.finish.as_deref(), Some("error" | "insufficient_system_resource")) {
            let finish = self.finish.take().unwrap_or_default();
            return Err(CallFailure::Broken { why: format!("the provider ended it: {finish}") });
        }
        Ok(())
    }

    fn said(&mut self, said: &Value, is_whole: bool, voice: &mut Voice) {
        // Some servers tell the same under both names.
        if let Some(name) = THOUGHTS.into_iter().find(|name| said[name].as_str().is_some_and(|text| !text.is_empty())) {
            self.think(name, text_of(&said[name]), voice);
        }
        match &said["content"] {
            Value::Array(parts) => parts.iter().for_each(|part| self.part(part, voice)),
            content => self.text(text_of(content), voice),
        }
        let refusal = text_of(&said["refusal"]);
        self.refused |= !refusal.is_empty();
        self.text(refusal, voice);
        for (at, call) in said["tool_calls"].as_array().into_iter().flatten().enumerate() {
            self.end_thought(voice);
            // Without an index, each call of a list is one of its own.
            self.call(call, is_whole || at > 0, voice);
        }
    }

    /// A part of a content that is a list; thoughts may stand among them.
    fn part(&mut self, part: &Value, voice: &mut Voice) {
        match &part["thinking"] {
            Value::Array(texts) => {
                for text in texts {
                    voice.thinking(text_of(&text["text"]));
                }
            }
            _ => self.text(text_of(&part["text"]), voice),
        }
    }

    fn think(&mut self, name: &'static str, text: &str, voice: &mut Voice) {
        self.told_as = name;
        self.thought.push_str(text);
        voice.thinking(text);
    }

    fn text(&mut self, text: &str, voice: &mut Voice) {
        if !text.is_empty() {
            self.end_thought(voice);
            voice.text((0, 0), text);
        }
    }

    fn end_thought(&mut self, voice: &mut Voice) {
        let (text, id) = (std::mem::take(&mut self.thought), self.told_as.to_owned());
        voice.thought(Block::Thought { text, seal: String::new(), id, form: Form::Beside });
    }

    fn call(&mut self, said: &Value, is_alone: bool, voice: &mut Voice) {
        let function = &said["function"];
        let (id, name) = (text_of(&said["id"]), text_of(&function["name"]));
        let index = said["index"].as_u64();
        let meant = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None => {
                self.calls.iter().rposition(|call| !id.is_empty() && call.id == id).or(self.calls.len().checked_sub(1))
            }
        };
        let says_more = !text_of(&function["arguments"]).is_empty() || function["arguments"].is_object();
        let is_new = |call: &Call| (index.is_none() && is_alone) || call.is_followed(id, name, says_more);
        let at = meant.filter(|at| !is_new(&self.calls[*at])).unwrap_or_else(|| {
            self.calls.push(Call { index, id: id.to_owned(), ..Call::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.name.is_empty() && !name.is_empty() {
            name.clone_into(&mut call.name);
            voice.call_begins(name);
        }
        match &function["arguments"] {
            Value::String(piece) => call.arguments.push_str(piece),
            Value::Null => {}
            // Some servers send them as what they are.
            whole => call.arguments = whole.to_string(),
        }
        if said["extra_content"].is_object() {
            call.extra = Some(said["extra_content"].to_string());
        }
    }

    fn close(&mut self, voice: &mut Voice) {
        self.end_thought(voice);
        for call in std::mem::take(&mut self.calls) {
            if let Some(seal) = call.extra {
                voice.thought(Block::Thought { text: String::new(), seal, id: String::new(), form: Form::OfCall });
            }
            voice.call(&call.id, &call.name, &call.arguments);
        }
        voice.end(match self.finish.as_deref() {
            Some("length" | "max_tokens") => Ended::OutputLimit,
            Some("model_length") => Ended::Overflow,
            Some("content_filter") => Ended::Refused,
            _ if self.refused => Ended::Refused,
            _ => Ended::Said,
        });
    }
}

impl Call {
    /// Whether a piece that may belong to it begins another call all the same: some servers give all calls the same index, or
    /// neither index nor id. A name begins a call, unless it is repeated for one that is not whole yet.
    fn is_followed(&self, id: &str, name: &str, says_more: bool) -> bool {
        let is_same = !id.is_empty() && id == self.id;
        let is_other = !id.is_empty() && !self.id.is_empty() && id != self.id;
        let is_whole = || says_more && serde_json::from_str::<Value>(&self.arguments).is_ok();
        let is_named = !name.is_empty() && !self.name.is_empty();
        is_named && !is_same && (is_other || name != self.name || is_whole())
    }
}
