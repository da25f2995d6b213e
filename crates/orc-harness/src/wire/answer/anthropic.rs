//! Answers of Anthropic's Messages: blocks with their deltas. What kind a block is, its start says; kinds that nobody asked
//! for are left out.

use std::collections::BTreeMap;

use serde_json::Value;

use super::voice::{Voice, text_of};
use super::{Follow, failure_within};
use crate::talk::{Block, CallFailure, Ended, Form};

/// The state of an answer.
#[derive(Default)]
pub(super) struct Answer {
    open: BTreeMap<u64, Open>,
    stop: Option<String>,
}

/// A block that is not whole.
enum Open {
    Text,
    Thought {
        text: String,
        seal: String,
    },
    Sealed {
        data: String,
    },
    Call {
        id: String,
        name: String,
        input: String,
        /// An input that came with the start.
        given: String,
    },
    Other,
}

impl Follow for Answer {
    fn event(&mut self, name: &str, event: &Value, voice: &mut Voice) -> Result<(), CallFailure> {
        let index = event["index"].as_u64().unwrap_or(0);
        match name {
            "message_start" => voice.learn(&event["message"]["usage"], true),
            "content_block_start" => self.start(index, &event["content_block"], voice),
            "content_block_delta" => self.delta(index, &event["delta"], voice),
            "content_block_stop" => self.stop(index, voice),
            "message_delta" => {
                voice.learn(&event["usage"], false);
                if let Some(stop) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop.to_owned());
                }
            }
            "message_stop" => self.finish(voice),
            "error" => return Err(failure_within(voice.protocol(), &event["error"])),
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, answer: &Value, voice: &mut Voice) -> Result<(), CallFailure> {
        let Some(blocks) = answer["content"].as_array() else { return Ok(()) };
        self.stop = answer["stop_reason"].as_str().map(str::to_owned);
        voice.learn(&answer["usage"], false);
        for (index, block) in (0..).zip(blocks) {
            // A call that was cut has some input here, and nothing says that it is not all of it.
            let is_cut = index + 1 == blocks.len() as u64 && is_cut(self.ended()) && block["type"] == "tool_use";
            if !is_cut {
                self.start(index, block, voice);
                self.stop(index, voice);
            }
        }
        self.finish(voice);
        Ok(())
    }

    /// Servers leave the last event away; the reason to stop is enough.
    fn over(&mut self, _marked: bool, voice: &mut Voice) {
        if self.stop.is_some() {
            self.finish(voice);
        }
    }
}

impl Answer {
    fn start(&mut self, index: u64, block: &Value, voice: &mut Voice) {
        let word = |key: &str| text_of(&block[key]).to_owned();
        let open = match block["type"].as_str() {
            Some("text") => {
                voice.text((index, 0), text_of(&block["text"]));
                Open::Text
            }
            Some("thinking") => {
                voice.thinking(text_of(&block["thinking"]));
                Open::Thought { text: word("thinking"), seal: word("signature") }
            }
            Some("redacted_thinking") => Open::Sealed { data: word("data") },
            Some("tool_use") => {
                voice.call_begins(text_of(&block["name"]));
                let is_given = block["input"].as_object().is_some_and(|input| !input.is_empty());
                let given = if is_given { block["input"].to_string() } else { String::new() };
                Open::Call { id: word("id"), name: word("name"), input: String::new(), given }
            }
            _ => Open::Other,
        };
        self.open.insert(index, open);
    }

    fn delta(&mut self, index: u64, delta: &Value, voice: &mut Voice) {
        // Some servers begin no blocks.
        let open = self.open.entry(index).or_insert_with(|| match delta["type"].as_str() {
            Some("text_delta") => Open::Text,
            Some("thinking_delta") => Open::Thought { text: String::new(), seal: String::new() },
            _ => Open::Other,
        });
        match open {
            Open::Text => voice.text((index, 0), text_of(&delta["text"])),
            Open::Thought { text, seal } => {
                voice.thinking(text_of(&delta["thinking"]));
                text.push_str(text_of(&delta["thinking"]));
                seal.push_str(text_of(&delta["signature"]));
            }
            Open::Call { input, .. } => input.push_str(text_of(&delta["partial_json"])),
            Open::Sealed { .. } | Open::Other => {}
        }
    }

    fn stop(&mut self, index: u64, voice: &mut Voice) {
        let thought = |text, seal, form| Block::Thought { text, seal, id: String::new(), form };
        match self.open.remove(&index) {
            Some(Open::Thought { text, seal }) => voice.thought(thought(text, seal, Form::Signed)),
            Some(Open::Sealed { data }) => voice.thought(thought(String::new(), data, Form::Sealed)),
            Some(Open::Call { id, name, input, given }) => {
                voice.call(&id, &name, if input.is_empty() { &given } else { &input });
            }
            Some(Open::Text | Open::Other) | None => {}
        }
    }

    fn finish(&mut self, voice: &mut Voice) {
        while let Some((&index, _)) = self.open.first_key_value() {
            self.stop(index, voice);
        }
        voice.end(self.ended());
    }

    fn ended(&self) -> Ended {
        match self.stop.as_deref() {
            // A pause is no end either: it is to go on.
            Some("max_tokens" | "pause_turn") => Ended::OutputLimit,
            Some("refusal") => Ended::Refused,
            Some("model_context_window_exceeded") => Ended::Overflow,
            _ => Ended::Said,
        }
    }
}

const fn is_cut(ended: Ended) -> bool {
    matches!(ended, Ended::OutputLimit | Ended::Refused | Ended::Overflow)
}
