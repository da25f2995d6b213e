//! Answers in the words of Anthropic's Messages: `message_start`, blocks with their deltas, `message_delta`, `message_stop`.

use bytes::Bytes;
use orc_domain::model::Tokens;
use orc_domain::script::{Call, Stop};
use serde_json::{Value, json};

use super::said::{Said, event, input_text, pieces};

/// What stands under a thought; whoever gets it sends it back and cannot read it.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

pub(super) fn events(said: &Said<'_>) -> Vec<Bytes> {
    let answer = said.answer;
    let mut events = vec![json!({ "type": "message_start", "message": message(said, &[], true) })];
    let mut blocks = Vec::new();
    if let Some(thinking) = &answer.thinking {
        let start = json!({ "type": "thinking", "thinking": "", "signature": "" });
        let mut deltas: Vec<_> =
            pieces(thinking).map(|piece| json!({ "type": "thinking_delta", "thinking": piece })).collect();
        deltas.push(json!({ "type": "signature_delta", "signature": SIGNATURE }));
        blocks.push((start, deltas));
    }
    if let Some(text) = answer.text.as_ref().filter(|text| !text.is_empty()) {
        let deltas = pieces(text).map(|piece| json!({ "type": "text_delta", "text": piece })).collect();
        blocks.push((json!({ "type": "text", "text": "" }), deltas));
    }
    for (nth, call) in answer.calls.iter().enumerate() {
        let text = input_text(&call.input);
        let first = json!({ "type": "input_json_delta", "partial_json": "" });
        let deltas = pieces(&text).map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
        blocks.push((tool_use(said, nth, call, &json!({})), std::iter::once(first).chain(deltas).collect()));
    }
    for (index, (start, deltas)) in blocks.into_iter().enumerate() {
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        if index == 0 {
            events.push(json!({ "type": "ping" }));
        }
        let delta = |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let mut end = json!({
        "type": "message_delta", "delta": { "stop_reason": answer.stop.word(), "stop_sequence": null },
    });
    if let Some(tokens) = said.tokens {
        end["usage"] = usage(tokens, tokens.output.saturating_add(tokens.reasoning));
    }
    events.push(end);
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(event).collect()
}

/// The answer without a stream. Input that is no JSON cannot be in one.
pub(super) fn whole(said: &Said<'_>) -> Result<Value, String> {
    let answer = said.answer;
    let mut blocks = Vec::new();
    if let Some(thinking) = &answer.thinking {
        blocks.push(json!({ "type": "thinking", "thinking": thinking, "signature": SIGNATURE }));
    }
    if let Some(text) = answer.text.as_ref().filter(|text| !text.is_empty()) {
        blocks.push(json!({ "type": "text", "text": text }));
    }
    for (nth, call) in answer.calls.iter().enumerate() {
        let input = match &call.input {
            Value::String(text) => serde_json::from_str(text).map_err(|error| {
                format!("the input of `{}` is not JSON, which only a stream can say: {error}", call.name)
            })?,
            value => value.clone(),
        };
        blocks.push(tool_use(said, nth, call, &input));
    }
    Ok(message(said, &blocks, false))
}

fn message(said: &Said<'_>, blocks: &[Value], is_start: bool) -> Value {
    let stop = if is_start { None } else { Some(said.answer.stop) };
    let mut message = json!({
        "id": said.id("msg_"), "type": "message", "role": "assistant", "model": said.model, "content": blocks,
        "stop_reason": stop.map(Stop::word), "stop_sequence": null,
    });
    if let Some(tokens) = said.tokens {
        let all = tokens.output.saturating_add(tokens.reasoning);
        // A stream begins with the first token of the answer counted.
        message["usage"] = usage(tokens, if is_start { all.min(1) } else { all });
    }
    message
}

fn tool_use(said: &Said<'_>, nth: usize, call: &Call, input: &Value) -> Value {
    json!({ "type": "tool_use", "id": said.nth_id("toolu_", nth), "name": call.name, "input": input })
}

fn usage(tokens: Tokens, output: u64) -> Value {
    let mut usage = json!({
        "input_tokens": tokens.input,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write.saturating_add(tokens.cache_write_long),
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": tokens.cache_write_long,
        },
        "output_tokens": output,
        "service_tier": "standard",
    });
    if tokens.reasoning > 0 {
        usage["output_tokens_details"] = json!({ "thinking_tokens": tokens.reasoning.min(output) });
    }
    if tokens.server_tools > 0 {
        usage["server_tool_use"] = json!({ "web_search_requests": tokens.server_tools });
    }
    usage
}
