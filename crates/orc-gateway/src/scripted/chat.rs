//! Answers in the words of OpenAI's Chat Completions: chunks with deltas, one with the reason of the end, one with the usage
//! where that was asked for, `[DONE]`. Thoughts come as `reasoning_content`, as compatible servers have them.

use bytes::Bytes;
use orc_domain::model::Tokens;
use orc_domain::script::{Call, Stop};
use serde_json::{Value, json};

use super::said::{Said, input_text, pieces};

pub(super) fn events(said: &Said<'_>) -> Vec<Bytes> {
    let answer = said.answer;
    let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
    let thinking = answer.thinking.as_deref().unwrap_or_default();
    deltas.extend(pieces(thinking).map(|piece| json!({ "reasoning_content": piece })));
    let is_refusal = answer.stop == Stop::Refusal;
    let text = answer.text.as_deref().unwrap_or_default();
    deltas.extend(pieces(text).map(|piece| match is_refusal {
        true => json!({ "refusal": piece }),
        false => json!({ "content": piece }),
    }));
    for (nth, call) in answer.calls.iter().enumerate() {
        let mut begun = tool_call(said, nth, call, "");
        begun["index"] = nth.into();
        deltas.push(json!({ "tool_calls": [begun] }));
        let (kind, key) = inside(said, call);
        let input = input_text(&call.input);
        deltas.extend(pieces(&input).map(|piece| {
            let mut more = json!({ "index": nth });
            more[kind][key] = piece.into();
            json!({ "tool_calls": [more] })
        }));
    }
    let mut chunks: Vec<_> = deltas.into_iter().map(|delta| chunk(said, &[choice(&delta, None)], None)).collect();
    chunks.push(chunk(said, &[choice(&json!({}), Some(reason(answer.stop)))], None));
    if let Some(tokens) = said.tokens.filter(|_| said.asked.usage) {
        chunks.push(chunk(said, &[], Some(usage(tokens))));
    }
    let mut events: Vec<_> = chunks.iter().map(|chunk| Bytes::from(format!("data: {chunk}\n\n"))).collect();
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

pub(super) fn whole(said: &Said<'_>) -> Value {
    let answer = said.answer;
    let calls = answer.calls.iter().enumerate();
    let calls: Vec<_> = calls.map(|(nth, call)| tool_call(said, nth, call, &input_text(&call.input))).collect();
    let (content, refusal) = match answer.stop {
        Stop::Refusal => (None, answer.text.as_deref()),
        _ => (answer.text.as_deref(), None),
    };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": refusal });
    if let Some(thinking) = &answer.thinking {
        message["reasoning_content"] = thinking.as_str().into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let mut whole = chunk(said, &[], said.tokens.map(usage));
    whole["object"] = "chat.completion".into();
    whole["choices"] =
        json!([{ "index": 0, "message": message, "logprobs": null, "finish_reason": reason(answer.stop) }]);
    whole
}

fn chunk(said: &Said<'_>, choices: &[Value], usage: Option<Value>) -> Value {
    let mut chunk = json!({
        "id": said.id("chatcmpl-"), "object": "chat.completion.chunk", "created": 0, "model": said.model,
        "choices": choices,
    });
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    } else if said.asked.usage {
        chunk["usage"] = Value::Null;
    }
    chunk
}

fn choice(delta: &Value, reason: Option<&str>) -> Value {
    json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": reason })
}

/// Where the input of a call stands.
fn inside(said: &Said<'_>, call: &Call) -> (&'static str, &'static str) {
    if said.takes_text(&call.name) { ("custom", "input") } else { ("function", "arguments") }
}

fn tool_call(said: &Said<'_>, nth: usize, call: &Call, input: &str) -> Value {
    let (kind, key) = inside(said, call);
    let mut made = json!({ "id": said.nth_id("call_", nth), "type": kind });
    made[kind]["name"] = call.name.as_str().into();
    made[kind][key] = input.into();
    made
}

const fn reason(stop: Stop) -> &'static str {
    match stop {
        Stop::EndTurn | Stop::Refusal => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens => "length",
    }
}

fn usage(tokens: Tokens) -> Value {
    let (input, output) = (tokens.context(), tokens.output.saturating_add(tokens.reasoning));
    json!({
        "prompt_tokens": input,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write.saturating_add(tokens.cache_write_long),
        },
        "completion_tokens": output,
        "completion_tokens_details": { "reasoning_tokens": tokens.reasoning },
        "total_tokens": input.saturating_add(output),
    })
}
