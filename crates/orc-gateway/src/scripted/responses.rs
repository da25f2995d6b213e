//! Answers in the words of OpenAI's Responses: `response.created`, items with their parts and deltas, `response.completed`.

use bytes::Bytes;
use orc_domain::model::Tokens;
use orc_domain::script::{Call, Stop};
use serde_json::{Value, json};

use super::said::{Said, event, input_text, pieces};

/// Sealed reasoning; whoever gets it sends it back and cannot read it.
const SEALED: &str = "c2NyaXB0ZWQ=";

/// Events in their order, numbered.
struct Stream<'a> {
    said: &'a Said<'a>,
    events: Vec<Value>,
    items: Vec<Value>,
}

pub(super) fn events(said: &Said<'_>) -> Vec<Bytes> {
    stream(said).iter().map(event).collect()
}

pub(super) fn whole(said: &Said<'_>) -> Value {
    stream(said).pop().map(|mut end| end["response"].take()).unwrap_or_default()
}

fn stream(said: &Said<'_>) -> Vec<Value> {
    let mut stream = Stream { said, events: Vec::new(), items: Vec::new() };
    let answer = said.answer;
    for kind in ["response.created", "response.in_progress"] {
        let response = stream.response("in_progress");
        stream.push(json!({ "type": kind, "response": response }));
    }
    if let Some(thinking) = &answer.thinking {
        stream.reasoning(thinking);
    }
    if let Some(text) = answer.text.as_ref().filter(|text| !text.is_empty()) {
        stream.message(text);
    }
    for (nth, call) in answer.calls.iter().enumerate() {
        stream.call(nth, call);
    }
    let status = if answer.stop == Stop::MaxTokens { "incomplete" } else { "completed" };
    let response = stream.response(status);
    stream.push(json!({ "type": format!("response.{status}"), "response": response }));
    stream.events
}

impl Stream<'_> {
    fn push(&mut self, mut event: Value) {
        event["sequence_number"] = self.events.len().into();
        self.events.push(event);
    }

    /// The response as it is now.
    fn response(&self, status: &str) -> Value {
        let usage = self.said.tokens.filter(|_| status != "in_progress").map(usage);
        json!({
            "id": self.said.id("resp_"), "object": "response", "created_at": 0, "status": status,
            "background": false, "error": null,
            "incomplete_details": if status == "incomplete" { json!({ "reason": "max_output_tokens" }) } else { Value::Null },
            "instructions": null, "metadata": {}, "model": self.said.model, "output": self.items,
            "parallel_tool_calls": true, "previous_response_id": null, "service_tier": "default", "store": false,
            "tool_choice": "auto", "tools": [], "truncation": "disabled", "usage": usage,
        })
    }

    /// An item that begins so, has these events, and is then so.
    fn item(&mut self, begun: &Value, within: Vec<Value>, done: Value) {
        let index = self.items.len();
        self.push(json!({ "type": "response.output_item.added", "output_index": index, "item": begun }));
        for mut event in within {
            event["output_index"] = index.into();
            event["item_id"] = done["id"].clone();
            self.push(event);
        }
        self.push(json!({ "type": "response.output_item.done", "output_index": index, "item": done }));
        self.items.push(done);
    }

    fn reasoning(&mut self, thinking: &str) {
        let id = self.said.id("rs_");
        let part = |text: &str| json!({ "type": "summary_text", "text": text });
        let mut within = vec![json!({
            "type": "response.reasoning_summary_part.added", "summary_index": 0, "part": part(""),
        })];
        within.extend(pieces(thinking).map(
            |piece| json!({ "type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": piece }),
        ));
        within.push(json!({ "type": "response.reasoning_summary_text.done", "summary_index": 0, "text": thinking }));
        within.push(json!({
            "type": "response.reasoning_summary_part.done", "summary_index": 0, "part": part(thinking),
        }));
        let mut done = json!({ "id": id, "type": "reasoning", "summary": [part(thinking)] });
        if self.said.asked.sealed {
            done["encrypted_content"] = SEALED.into();
        }
        self.item(&json!({ "id": id, "type": "reasoning", "summary": [] }), within, done);
    }

    fn message(&mut self, text: &str) {
        let is_refusal = self.said.answer.stop == Stop::Refusal;
        let part = |text: &str| match is_refusal {
            true => json!({ "type": "refusal", "refusal": text }),
            false => json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }),
        };
        let (name, key) = if is_refusal { ("refusal", "refusal") } else { ("output_text", "text") };
        let item = |status: &str, content: Vec<Value>| {
            json!({
                "id": self.said.id("msg_"), "type": "message", "status": status, "role": "assistant", "content": content,
            })
        };
        let mut within = vec![json!({ "type": "response.content_part.added", "content_index": 0, "part": part("") })];
        within.extend(
            pieces(text)
                .map(|piece| json!({ "type": format!("response.{name}.delta"), "content_index": 0, "delta": piece })),
        );
        let mut end = json!({ "type": format!("response.{name}.done"), "content_index": 0 });
        end[key] = text.into();
        within.push(end);
        within.push(json!({ "type": "response.content_part.done", "content_index": 0, "part": part(text) }));
        let (begun, done) = (item("in_progress", Vec::new()), item("completed", vec![part(text)]));
        self.item(&begun, within, done);
    }

    fn call(&mut self, nth: usize, call: &Call) {
        let is_text = self.said.takes_text(&call.name);
        let (prefix, kind, key, name) = match is_text {
            true => ("ctc_", "custom_tool_call", "input", "custom_tool_call_input"),
            false => ("fc_", "function_call", "arguments", "function_call_arguments"),
        };
        let input = input_text(&call.input);
        let item = |status: &str, input: &str| {
            let mut item = json!({
                "id": self.said.nth_id(prefix, nth), "type": kind, "status": status,
                "call_id": self.said.nth_id("call_", nth), "name": call.name,
            });
            item[key] = input.into();
            if let Some(space) = self.said.asked.namespace(&call.name) {
                item["namespace"] = space.into();
            }
            item
        };
        let delta = |piece| json!({ "type": format!("response.{name}.delta"), "delta": piece });
        let mut within: Vec<_> = pieces(&input).map(delta).collect();
        let mut end = json!({ "type": format!("response.{name}.done") });
        end[key] = input.as_str().into();
        within.push(end);
        let (begun, done) = (item("in_progress", ""), item("completed", &input));
        self.item(&begun, within, done);
    }
}

fn usage(tokens: Tokens) -> Value {
    let (input, output) = (tokens.context(), tokens.output.saturating_add(tokens.reasoning));
    json!({
        "input_tokens": input,
        "input_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write.saturating_add(tokens.cache_write_long),
        },
        "output_tokens": output,
        "output_tokens_details": { "reasoning_tokens": tokens.reasoning },
        "total_tokens": input.saturating_add(output),
    })
}
