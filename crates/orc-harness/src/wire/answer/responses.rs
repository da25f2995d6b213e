//! Answers of OpenAI's Responses: items with their deltas. An item counts when it is done, with what it then says; deltas are
//! for who watches, and for servers whose items say less when they are done.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::voice::{Voice, text_of};
use super::{Follow, failure_within};
use crate::talk::{Block, CallFailure, Ended, Form};

/// The state of an answer.
#[derive(Default)]
pub(super) struct Answer {
    /// Items by their place.
    items: BTreeMap<u64, Item>,
    done: BTreeSet<u64>,
    /// The place of the last item that began.
    last: u64,
    refused: bool,
}

/// What came of an item before it was done.
#[derive(Default)]
struct Item {
    has_text: bool,
    has_thought: bool,
    begun: bool,
    parts: u64,
    arguments: String,
}

impl Follow for Answer {
    fn event(&mut self, name: &str, event: &Value, voice: &mut Voice) -> Result<(), CallFailure> {
        let place = event["output_index"].as_u64().unwrap_or(self.last);
        match name {
            "response.output_item.added" => self.begin(place, &event["item"], voice),
            "response.output_text.delta" => self.text(place, event, voice),
            "response.refusal.delta" => {
                self.refused = true;
                self.text(place, event, voice);
            }
            "response.reasoning_summary_part.added" => {
                let item = self.items.entry(place).or_default();
                item.parts += 1;
                if item.parts > 1 {
                    voice.thinking("\n\n");
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.items.entry(place).or_default().has_thought = true;
                voice.thinking(text_of(&event["delta"]));
            }
            "response.function_call_arguments.delta" => {
                self.items.entry(place).or_default().arguments.push_str(text_of(&event["delta"]));
            }
            "response.function_call_arguments.done" => {
                if let Some(arguments) = event["arguments"].as_str() {
                    arguments.clone_into(&mut self.items.entry(place).or_default().arguments);
                }
            }
            "response.output_item.done" => self.take(place, &event["item"], voice),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let status =
                    event["response"]["status"].as_str().or(name.strip_prefix("response.")).unwrap_or_default();
                return self.finish(status, &event["response"], voice);
            }
            "error" => {
                let error = if event["error"].is_null() { without_type(event) } else { event["error"].clone() };
                return Err(failure_within(voice.protocol(), &error));
            }
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, answer: &Value, voice: &mut Voice) -> Result<(), CallFailure> {
        if answer["output"].is_array() {
            self.finish(answer["status"].as_str().unwrap_or("completed"), answer, voice)
        } else {
            Ok(())
        }
    }

    /// Only its last event ends it.
    fn over(&mut self, _marked: bool, _voice: &mut Voice) {}
}

/// An event that is an error itself: `type` says only that it is one.
fn without_type(event: &Value) -> Value {
    let mut error = event.clone();
    error["type"] = Value::Null;
    error
}

impl Answer {
    fn begin(&mut self, place: u64, item: &Value, voice: &mut Voice) {
        self.last = place;
        let known = self.items.entry(place).or_default();
        if item["type"] == "function_call" && !std::mem::replace(&mut known.begun, true) {
            voice.call_begins(text_of(&item["name"]));
        }
    }

    fn text(&mut self, place: u64, event: &Value, voice: &mut Voice) {
        self.items.entry(place).or_default().has_text = true;
        voice.text((place, event["content_index"].as_u64().unwrap_or(0)), text_of(&event["delta"]));
    }

    /// An item is done.
    fn take(&mut self, place: u64, item: &Value, voice: &mut Voice) {
        if !self.done.insert(place) {
            return;
        }
        self.begin(place, item, voice);
        let known = self.items.remove(&place).unwrap_or_default();
        match item["type"].as_str() {
            Some("message") => {
                for (part, index) in item["content"].as_array().into_iter().flatten().zip(0..) {
                    self.refused |= part["type"] == "refusal";
                    if !known.has_text {
                        let text = part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default();
                        voice.text((place, index), text);
                    }
                }
            }
            Some("reasoning") => {
                let texts = |key: &str| -> Vec<&str> {
                    item[key].as_array().into_iter().flatten().map(|part| text_of(&part["text"])).collect()
                };
                let [summary, content] = ["summary", "content"].map(texts);
                let text = if summary.is_empty() { content } else { summary }.join("\n\n");
                if !known.has_thought {
                    voice.thinking(&text);
                }
                let word = |key: &str| text_of(&item[key]).to_owned();
                voice.thought(Block::Thought {
                    text,
                    seal: word("encrypted_content"),
                    id: word("id"),
                    form: Form::Item,
                });
            }
            Some("function_call") => {
                let told = text_of(&item["arguments"]);
                let arguments = if told.is_empty() { &known.arguments } else { told };
                voice.call(text_of(&item["call_id"]), text_of(&item["name"]), arguments);
            }
            _ => {}
        }
    }

    /// The response as it is at its end. Items of which nothing was told are taken from it.
    fn finish(&mut self, status: &str, response: &Value, voice: &mut Voice) -> Result<(), CallFailure> {
        if matches!(status, "failed" | "cancelled") {
            voice.learn(&response["usage"], false);
            let error = if response["error"].is_null() { &response["status"] } else { &response["error"] };
            return Err(failure_within(voice.protocol(), error));
        }
        for (item, place) in response["output"].as_array().into_iter().flatten().zip(0..) {
            self.take(place, item, voice);
        }
        voice.learn(&response["usage"], false);
        let reason = response["incomplete_details"]["reason"].as_str();
        voice.end(match (status, reason) {
            ("incomplete", Some("content_filter")) => Ended::Refused,
            ("incomplete", _) => Ended::OutputLimit,
            _ if self.refused => Ended::Refused,
            _ => Ended::Said,
        });
        Ok(())
    }
}
