//! What real servers send beside what is documented: each row is a stream, or a plain answer, and what is understood of it.

use orc_domain::model::{Protocol, Tokens};
use serde_json::{Value, json};

use crate::talk::{Block, CallFailure, Form, Said, ToolCall, ToolInput};
use crate::wire::Reader;

const ANTHROPIC: Protocol = Protocol::AnthropicMessages;
const RESPONSES: Protocol = Protocol::OpenaiResponses;
const CHAT: Protocol = Protocol::OpenaiChat;

fn read(protocol: Protocol, bytes: &[u8]) -> Result<Vec<Said>, CallFailure> {
    let mut reader = Reader::new(protocol);
    let mut said = reader.push(bytes)?;
    said.extend(reader.end()?);
    Ok(said)
}

/// Events by their data alone: what they are, `type` says.
fn stream(events: &[Value]) -> String {
    let data = |event: &Value| event.as_str().map_or_else(|| event.to_string(), str::to_owned);
    events.iter().map(|event| format!("data: {}\n\n", data(event))).collect()
}

/// What is said, in short: `"text`, `+more of it`, `~thinking`, `>call begins`, `call id name input`, `thought text seal id
/// form`, `end why`. Figures are left out.
fn short(said: &[Said]) -> Vec<String> {
    let one = |said: &Said| match said {
        Said::Text { text, begins: true } => Some(format!("\"{text}")),
        Said::Text { text, begins: false } => Some(format!("+{text}")),
        Said::Thinking { text } => Some(format!("~{text}")),
        Said::CallBegins { name } => Some(format!(">{name}")),
        Said::Block(Block::Call(ToolCall { id, name, input: ToolInput::Json(input) })) => {
            Some(format!("call {id} {name} {input}"))
        }
        Said::Block(Block::Call(ToolCall { id, name, input: ToolInput::Broken(text) })) => {
            Some(format!("call {id} {name} broken {text}"))
        }
        Said::Block(Block::Thought { text, seal, id, form }) => Some(format!("thought {text}|{seal}|{id}|{form:?}")),
        Said::Block(block) => panic!("{block:?}"),
        Said::Used(_) => None,
        Said::Ended(ended) => Some(format!("end {ended:?}")),
    };
    said.iter().filter_map(one).collect()
}

fn told(protocol: Protocol, events: &[Value]) -> Vec<String> {
    let text = stream(events);
    let said = read(protocol, text.as_bytes()).unwrap_or_else(|failure| panic!("{failure}\n{text}"));
    short(&said)
}

fn fails(protocol: Protocol, events: &[Value]) -> CallFailure {
    read(protocol, stream(events).as_bytes()).unwrap_err()
}

fn start(index: u64, block: &Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn text_delta(index: u64, text: &str) -> Value {
    delta(index, &json!({ "type": "text_delta", "text": text }))
}

fn input_delta(index: u64, text: &str) -> Value {
    delta(index, &json!({ "type": "input_json_delta", "partial_json": text }))
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 3 } }),
        json!({ "type": "message_stop" }),
    ]
}

#[test]
fn blocks_of_anthropic() {
    let tool = |id: &str| json!({ "type": "tool_use", "id": id, "name": "Read", "input": {} });
    let [reason, over] = end("tool_use");
    let events = [
        json!({ "type": "message_start", "message": { "usage": { "input_tokens": 5, "output_tokens": 1 } } }),
        start(0, &json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, &json!({ "type": "thinking_delta", "thinking": "T" })),
        delta(0, &json!({ "type": "signature_delta", "signature": "s" })),
        delta(0, &json!({ "type": "signature_delta", "signature": "ig" })),
        stop(0),
        start(1, &json!({ "type": "redacted_thinking", "data": "D" })),
        stop(1),
        start(2, &json!({ "type": "thinking", "thinking": "", "signature": "only" })),
        stop(2),
        // Nobody asked for these.
        start(3, &json!({ "type": "server_tool_use", "id": "x", "name": "web_search", "input": {} })),
        input_delta(3, "{\"query\": 1}"),
        stop(3),
        start(4, &json!({ "type": "something_new", "text": "?" })),
        delta(4, &json!({ "type": "something_delta", "text": "?" })),
        stop(4),
        json!({ "type": "something_else" }),
        json!({ "type": "ping" }),
        start(5, &json!({ "type": "text", "text": "be" })),
        text_delta(5, ""),
        text_delta(5, "gins"),
        delta(5, &json!({ "type": "citations_delta", "citation": {} })),
        stop(5),
        start(6, &json!({ "type": "text", "text": "" })),
        text_delta(6, "other"),
        stop(6),
        start(7, &tool("a")),
        input_delta(7, ""),
        input_delta(7, "{\"p\":"),
        input_delta(7, "1}"),
        stop(7),
        start(8, &tool("a")),
        stop(8),
        start(9, &json!({ "type": "tool_use", "name": "Edit", "input": { "given": true } })),
        stop(9),
        start(10, &tool("call00003")),
        input_delta(10, "{\"p\": nonsense"),
        stop(10),
        start(11, &tool("null")),
        input_delta(11, "null"),
        stop(11),
        reason,
        over,
        // Whatever follows the end is no part of it.
        text_delta(5, "late"),
    ];
    assert_eq!(
        told(ANTHROPIC, &events),
        [
            "~T",
            "thought T|sig||Signed",
            "thought |D||Sealed",
            "thought |only||Signed",
            "\"be",
            "+gins",
            "\"other",
            ">Read",
            "call a Read {\"p\":1}",
            ">Read",
            // The same id twice, none at all, and one that was made already.
            "call call00002 Read {}",
            ">Edit",
            "call call00003 Edit {\"given\":true}",
            ">Read",
            "call call00004 Read broken {\"p\": nonsense",
            ">Read",
            "call null Read {}",
            "end Calls",
        ]
    );
    // The output that a start tells is none yet.
    let used: Vec<_> = read(ANTHROPIC, stream(&events).as_bytes()).unwrap();
    let used: Vec<_> = used.iter().filter(|said| matches!(said, Said::Used(_))).collect();
    let begun = Tokens { input: 5, ..Tokens::default() };
    assert_eq!(used, [&Said::Used(begun), &Said::Used(Tokens { output: 3, ..begun })]);
}

#[test]
fn reasons_of_anthropic() {
    for (reason, wanted) in [
        ("end_turn", "end Said"),
        ("stop_sequence", "end Said"),
        ("tool_use", "end Said"),
        ("max_tokens", "end OutputLimit"),
        ("pause_turn", "end OutputLimit"),
        ("refusal", "end Refused"),
        ("model_context_window_exceeded", "end Overflow"),
        ("something_new", "end Said"),
    ] {
        let [told_reason, over] = end(reason);
        let text = start(0, &json!({ "type": "text", "text": "t" }));
        let events = [text, told_reason.clone(), over.clone()];
        assert_eq!(told(ANTHROPIC, &events), ["\"t", wanted], "{reason}");
        // The reason is enough, and the end without one too.
        assert_eq!(told(ANTHROPIC, &[told_reason]), [wanted], "{reason}");
        assert_eq!(told(ANTHROPIC, &[over]), ["end Said"]);
        let whole = json!({ "type": "message", "content": [{ "type": "text", "text": "t" }], "stop_reason": reason });
        let said = read(ANTHROPIC, whole.to_string().as_bytes()).unwrap();
        assert_eq!(short(&said), ["\"t", wanted], "{reason}");
    }
}

#[test]
fn servers_that_only_talk_like_anthropic() {
    let [reason, over] = end("tool_use");
    // Blocks that never begin, never end, or have no index.
    let events = [
        delta(0, &json!({ "type": "thinking_delta", "thinking": "T" })),
        text_delta(1, "t"),
        start(2, &json!({ "type": "tool_use", "id": "a", "name": "Read" })),
        input_delta(2, "{}"),
        reason.clone(),
        over.clone(),
    ];
    let wanted = ["~T", "\"t", ">Read", "thought T|||Signed", "call a Read {}", "end Calls"];
    assert_eq!(told(ANTHROPIC, &events), wanted);
    let text = |text: &str| json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": text } });
    let start = |block: Value| json!({ "type": "content_block_start", "content_block": block });
    let events = [
        start(json!({ "type": "text", "text": "" })),
        text("t"),
        json!({ "type": "content_block_stop" }),
        start(json!({ "type": "tool_use", "id": "a", "name": "Read" })),
        json!({ "type": "content_block_stop" }),
        start(json!({ "type": "text", "text": "" })),
        text("u"),
        json!({ "type": "content_block_stop" }),
        reason,
        over,
    ];
    assert_eq!(told(ANTHROPIC, &events), ["\"t", ">Read", "call a Read {}", "\"u", "end Calls"]);
    // The name of an event may stand beside its data only.
    let named =
        "event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {}\n\n";
    assert_eq!(short(&read(ANTHROPIC, named.as_bytes()).unwrap()), ["end Said"]);
}

#[test]
fn a_call_that_is_cut_in_a_plain_answer_is_not_there() {
    let call = |id: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": "Edit", "input": input });
    let whole = json!({
        "type": "message", "stop_reason": "max_tokens",
        "content": [call("a", json!({ "p": 1 })), call("b", json!({ "p": "half" }))],
    });
    let said = read(ANTHROPIC, whole.to_string().as_bytes()).unwrap();
    assert_eq!(short(&said), [">Edit", "call a Edit {\"p\":1}", "end OutputLimit"]);
    let call = |id: &str, arguments: &str| json!({ "id": id, "function": { "name": "Edit", "arguments": arguments } });
    let message = json!({ "content": null, "tool_calls": [call("a", "{\"p\":1}"), call("b", "{\"p\":")] });
    let whole = json!({ "choices": [{ "message": message, "finish_reason": "length" }] });
    let said = read(CHAT, whole.to_string().as_bytes()).unwrap();
    assert_eq!(short(&said), [">Edit", ">Edit", "call a Edit {\"p\":1}", "end OutputLimit"]);
    let call = |id: &str, arguments: &str, status: &str| json!({ "type": "function_call", "call_id": id, "name": "Edit", "arguments": arguments, "status": status });
    let whole = json!({
        "status": "incomplete", "incomplete_details": { "reason": "max_output_tokens" },
        "output": [call("a", "{\"p\":1}", "completed"), call("b", "{\"p\":", "incomplete")],
    });
    let said = read(RESPONSES, whole.to_string().as_bytes()).unwrap();
    assert_eq!(short(&said), [">Edit", "call a Edit {\"p\":1}", ">Edit", "end OutputLimit"]);
}

fn response(kind: &str, response: &Value) -> Value {
    json!({ "type": format!("response.{kind}"), "response": response })
}

fn added(place: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": place, "item": item })
}

fn done(place: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": place, "item": item })
}

fn within(place: u64, kind: &str, text: &str) -> Value {
    json!({ "type": format!("response.{kind}.delta"), "output_index": place, "content_index": 0, "delta": text })
}

#[test]
fn items_of_responses() {
    let part = |text: &str| json!({ "type": "output_text", "text": text });
    let reasoning = json!({
        "type": "reasoning", "id": "rs_1", "encrypted_content": "enc",
        "summary": [{ "type": "summary_text", "text": "A" }, { "type": "summary_text", "text": "B" }],
    });
    let begun = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "half", "summary": [] });
    let function = |arguments: &str| json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "Read", "arguments": arguments });
    let message = json!({ "type": "message", "content": [part("one"), part("two")] });
    let unseen = json!({ "type": "function_call", "call_id": "c2", "name": "Edit", "arguments": "{\"p\":2}" });
    let summary_part = json!({ "type": "response.reasoning_summary_part.added", "output_index": 0 });
    let events = [
        response("created", &json!({ "status": "in_progress", "output": [] })),
        response("queued", &json!({ "status": "queued" })),
        added(0, &begun),
        summary_part.clone(),
        within(0, "reasoning_summary_text", "A"),
        summary_part,
        within(0, "reasoning_summary_text", "B"),
        done(0, &reasoning),
        added(1, &json!({ "type": "message", "content": [] })),
        within(1, "output_text", "on"),
        within(1, "output_text", "e"),
        json!({ "type": "response.output_text.delta", "output_index": 1, "content_index": 1, "delta": "two" }),
        json!({ "type": "response.something_new.delta", "output_index": 1, "delta": "?" }),
        done(1, &message),
        added(2, &json!({ "type": "web_search_call", "id": "ws" })),
        done(2, &json!({ "type": "web_search_call", "id": "ws" })),
        added(3, &function("")),
        within(3, "function_call_arguments", "{\"p\""),
        within(3, "function_call_arguments", ":1}"),
        // It says less when it is done than before.
        done(3, &function("")),
        // Deltas may be missing.
        done(4, &json!({ "type": "message", "content": [part("three")] })),
        response(
            "completed",
            &json!({
                "status": "completed", "output": [reasoning, message, {}, function("{\"p\":1}"), {}, unseen],
                "usage": { "input_tokens": 7, "output_tokens": 2 },
            }),
        ),
    ];
    assert_eq!(
        told(RESPONSES, &events),
        [
            "~A",
            "~\n\n",
            "~B",
            "thought A\n\nB|enc|rs_1|Item",
            "\"on",
            "+e",
            "\"two",
            ">Read",
            "call c1 Read {\"p\":1}",
            "\"three",
            ">Edit",
            "call c2 Edit {\"p\":2}",
            "end Calls",
        ]
    );
    let said = read(RESPONSES, stream(&events).as_bytes()).unwrap();
    assert!(said.contains(&Said::Used(Tokens { input: 7, output: 2, ..Tokens::default() })));
}

#[test]
fn ends_of_responses() {
    let ends = |kind: &str, body: Value| told(RESPONSES, &[within(0, "output_text", "t"), response(kind, &body)]);
    let incomplete = |reason: &str| {
        let body = json!({ "status": "incomplete", "incomplete_details": { "reason": reason } });
        ends("incomplete", body)
    };
    assert_eq!(incomplete("max_output_tokens"), ["\"t", "end OutputLimit"]);
    assert_eq!(incomplete("content_filter"), ["\"t", "end Refused"]);
    assert_eq!(incomplete("something_new"), ["\"t", "end OutputLimit"]);
    // Without a status the event tells.
    assert_eq!(ends("incomplete", json!({})), ["\"t", "end OutputLimit"]);
    assert_eq!(ends("completed", json!({})), ["\"t", "end Said"]);
    let refusal = [within(0, "refusal", "No."), response("completed", &json!({ "status": "completed", "output": [] }))];
    assert_eq!(told(RESPONSES, &refusal), ["\"No.", "end Refused"]);
    let failed = |code: &str, message: &str| {
        let error = json!({ "status": "failed", "error": { "code": code, "message": message } });
        fails(RESPONSES, &[response("failed", &error)])
    };
    assert_eq!(failed("context_length_exceeded", "W."), CallFailure::Overflow { why: "W.".to_owned() });
    assert_eq!(failed("insufficient_quota", "W."), CallFailure::Denied { why: "W.".to_owned() });
    for code in ["rate_limit_exceeded", "server_error"] {
        assert_eq!(failed(code, "W."), CallFailure::Broken { why: "W.".to_owned() });
    }
    assert_eq!(failed("invalid_prompt", "W."), CallFailure::Refused { status: 400, why: "W.".to_owned() });
    let cancelled = fails(RESPONSES, &[response("cancelled", &json!({ "status": "cancelled" }))]);
    assert_eq!(cancelled, CallFailure::Broken { why: "cancelled".to_owned() });
    // Its last event is what ends it.
    let broken = fails(RESPONSES, &[within(0, "output_text", "t"), json!("[DONE]")]);
    assert!(matches!(broken, CallFailure::Broken { .. }), "{broken}");
}

fn chunk(delta: &Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn finish(reason: &str) -> Value {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

fn calling(call: Value) -> Value {
    chunk(&json!({ "tool_calls": [call] }))
}

/// Calls as servers cut, name and number them: what is handed out of them, whatever begins when.
#[test]
fn calls_of_chat() {
    let f = |name: &str, arguments: &str| json!({ "name": name, "arguments": arguments });
    let more = |arguments: &str| json!({ "arguments": arguments });
    let rows: [(&str, Vec<Value>, &[&str]); 16] = [
        (
            "as it is documented, and the index counts where pieces mix",
            vec![
                calling(json!({ "index": 0, "id": "a", "function": f("Read", "") })),
                calling(json!({ "index": 0, "function": more("{\"p\"") })),
                calling(json!({ "index": 1, "id": "b", "function": f("Edit", "") })),
                calling(json!({ "index": 1, "function": more("{") })),
                calling(json!({ "index": 0, "function": more(":1}") })),
                calling(json!({ "index": 1, "function": more("}") })),
            ],
            &["call a Read {\"p\":1}", "call b Edit {}"],
        ),
        (
            "all at once, arguments as what they are",
            vec![chunk(&json!({ "tool_calls": [
                { "index": 0, "id": "a", "function": { "name": "Read", "arguments": { "p": 1 } } },
                { "index": 1, "id": "b", "function": { "name": "Read", "arguments": null } },
            ] }))],
            &["call a Read {\"p\":1}", "call b Read {}"],
        ),
        (
            "ids and names with every piece",
            vec![
                calling(json!({ "index": 0, "id": "a", "function": f("Read", "{\"p\"") })),
                calling(json!({ "index": 0, "id": "a", "function": f("Read", ":1}") })),
                calling(json!({ "index": 0, "id": "a", "function": f("Read", " ") })),
            ],
            &["call a Read {\"p\":1}"],
        ),
        (
            "names with every piece, also one that says nothing more",
            vec![
                calling(json!({ "index": 0, "function": f("Read", "{\"p\":1}") })),
                calling(json!({ "index": 0, "function": f("Read", "") })),
            ],
            &["call call00001 Read {\"p\":1}"],
        ),
        (
            "neither index nor id, several in one piece",
            vec![chunk(&json!({ "tool_calls": [{ "function": f("Read", "") }, { "function": f("Read", "") }] }))],
            &["call call00001 Read {}", "call call00002 Read {}"],
        ),
        (
            "every call has the same index, and an id",
            vec![
                calling(json!({ "index": 0, "id": "a", "function": f("Read", "{\"p\":1}") })),
                calling(json!({ "index": 0, "id": "b", "function": f("Read", "{\"p\":") })),
                calling(json!({ "index": 0, "function": more("2}") })),
                calling(json!({ "index": 0, "id": "c", "function": f("Read", "") })),
                calling(json!({ "index": 0, "id": "d", "function": f("Read", "{}") })),
            ],
            &["call a Read {\"p\":1}", "call b Read {\"p\":2}", "call c Read {}", "call d Read {}"],
        ),
        (
            "every call has the same index, and no id",
            vec![
                calling(json!({ "index": 0, "function": f("Read", "{\"p\":1}") })),
                calling(json!({ "index": 0, "function": f("Read", "{\"p\":2}") })),
                calling(json!({ "index": 0, "function": f("Edit", "{}") })),
            ],
            &["call call00001 Read {\"p\":1}", "call call00002 Read {\"p\":2}", "call call00003 Edit {}"],
        ),
        (
            "neither index nor id, names with every piece",
            vec![
                calling(json!({ "function": f("Read", "{\"p\"") })),
                calling(json!({ "function": f("Read", ":1}") })),
                calling(json!({ "function": f("Read", "{}") })),
            ],
            &["call call00001 Read {\"p\":1}", "call call00002 Read {}"],
        ),
        (
            "no index, several in one piece",
            vec![chunk(&json!({ "tool_calls": [
                { "id": "a", "function": f("Read", "") },
                { "id": "b", "function": f("Read", "") },
            ] }))],
            &["call a Read {}", "call b Read {}"],
        ),
        (
            "no index, pieces by id",
            vec![
                calling(json!({ "id": "a", "function": f("Read", "{\"p\"") })),
                calling(json!({ "id": "b", "function": f("Edit", "{}") })),
                calling(json!({ "id": "a", "function": more(":1}") })),
            ],
            &["call a Read {\"p\":1}", "call b Edit {}"],
        ),
        (
            "a new id with every piece",
            vec![
                calling(json!({ "index": 0, "id": "a", "function": f("Read", "{\"p\"") })),
                calling(json!({ "index": 0, "id": "b", "function": { "name": null, "arguments": ":1}" } })),
            ],
            &["call a Read {\"p\":1}"],
        ),
        (
            "an empty id, and one that stands twice",
            vec![
                calling(json!({ "index": 0, "id": "", "function": f("Read", "{}") })),
                calling(json!({ "index": 1, "id": "a", "function": f("Read", "{}") })),
                calling(json!({ "index": 2, "id": "a", "function": f("Edit", "{}") })),
            ],
            &["call call00001 Read {}", "call a Read {}", "call call00003 Edit {}"],
        ),
        (
            "indexes that begin with 1, as of a call behind a text",
            vec![
                calling(json!({ "index": 1, "id": "a", "function": f("Read", "") })),
                calling(json!({ "index": 1, "function": more("{}") })),
            ],
            &["call a Read {}"],
        ),
        (
            "the id first, then the name, then the rest",
            vec![
                calling(json!({ "index": 0, "id": "a" })),
                calling(json!({ "index": 0, "function": { "name": "Read" } })),
                calling(json!({ "index": 0, "function": more("{\"p\":1}") })),
            ],
            &["call a Read {\"p\":1}"],
        ),
        (
            "what is no JSON",
            vec![
                calling(json!({ "index": 0, "id": "a", "function": f("Read", "{\"p\": oh}") })),
                calling(json!({ "index": 1, "id": "b", "function": f("Read", "7") })),
            ],
            &["call a Read broken {\"p\": oh}", "call b Read 7"],
        ),
        (
            "something beside a call that is wanted back",
            vec![calling(json!({
                "index": 0, "id": "a", "function": f("Read", "{}"),
                "extra_content": { "google": { "thought_signature": "s" } },
            }))],
            &["thought |{\"google\":{\"thought_signature\":\"s\"}}||OfCall", "call a Read {}"],
        ),
    ];
    for (what, mut events, wanted) in rows {
        events.extend([finish("tool_calls"), json!("[DONE]")]);
        let mut said = told(CHAT, &events);
        let begun = said.iter().filter(|said| said.starts_with('>')).count();
        assert_eq!(begun, wanted.iter().filter(|said| said.starts_with("call")).count(), "{what}");
        said.retain(|said| !said.starts_with('>'));
        let wanted: Vec<&str> = wanted.iter().copied().chain(["end Calls"]).collect();
        assert_eq!(said, wanted, "{what}");
    }
}

#[test]
fn texts_and_thoughts_of_chat() {
    let done = || json!("[DONE]");
    let events = [
        chunk(&json!({ "role": "assistant", "content": "", "refusal": null, "tool_calls": null })),
        chunk(&json!({ "reasoning_content": "T", "reasoning": "T", "content": null })),
        chunk(&json!({ "reasoning_content": "2" })),
        chunk(&json!({ "content": "t" })),
        chunk(&json!({ "content": [{ "type": "text", "text": "2" }] })),
        chunk(&json!({ "reasoning": "again" })),
        json!({ "choices": [{ "index": 1, "delta": { "content": "another choice" } }] }),
        json!({ "something": "new" }),
        json!(": no event"),
        json!("keep-alive"),
        finish("stop"),
        json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 2 } }),
        done(),
    ];
    let wanted = [
        "~T",
        "~2",
        "thought T2||reasoning_content|Beside",
        "\"t",
        "+2",
        "~again",
        "thought again||reasoning|Beside",
        "end Said",
    ];
    assert_eq!(told(CHAT, &events), wanted);
    for (reason, wanted) in [
        ("stop", "end Said"),
        ("tool_calls", "end Said"),
        ("eos", "end Said"),
        ("length", "end OutputLimit"),
        ("model_length", "end Overflow"),
        ("content_filter", "end Refused"),
    ] {
        // With and without the mark behind it.
        assert_eq!(told(CHAT, &[chunk(&json!({ "content": "t" })), finish(reason)]), ["\"t", wanted], "{reason}");
        assert_eq!(told(CHAT, &[finish(reason), done()]), [wanted], "{reason}");
    }
    assert_eq!(told(CHAT, &[chunk(&json!({ "content": "t" })), done()]), ["\"t", "end Said"]);
    assert_eq!(told(CHAT, &[chunk(&json!({ "refusal": "No." })), finish("stop")]), ["\"No.", "end Refused"]);
    let broken = fails(CHAT, &[chunk(&json!({ "content": "t" })), finish("insufficient_system_resource")]);
    assert!(matches!(broken, CallFailure::Broken { .. }), "{broken}");
}

#[test]
fn errors_in_the_middle_come_after_what_was_said() {
    let overloaded = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "W." } });
    let too_much = json!({ "error": { "message": "prompt is too long", "code": 400 } });
    let [anthropic, responses, chat] =
        [text_delta(0, "t"), within(0, "output_text", "t"), chunk(&json!({ "content": "t" }))];
    for (protocol, said, error, wanted) in [
        (ANTHROPIC, anthropic, overloaded, CallFailure::Broken { why: "W.".to_owned() }),
        (
            RESPONSES,
            responses,
            json!({ "type": "error", "code": "server_error", "message": "W.", "param": null }),
            CallFailure::Broken { why: "W.".to_owned() },
        ),
        (CHAT, chat, too_much, CallFailure::Overflow { why: "prompt is too long".to_owned() }),
    ] {
        let mut reader = Reader::new(protocol);
        let text = stream(&[said, error]);
        assert_eq!(reader.push(text.as_bytes()).unwrap().len(), 1);
        assert_eq!(reader.push(b"data: {}\n\n").unwrap_err(), wanted);
        assert_eq!(reader.end().unwrap_err(), wanted);
    }
}

#[test]
fn what_is_no_answer_is_broken() {
    for protocol in Protocol::ALL {
        for bytes in [
            "",
            " \r\n\u{FEFF}",
            "<html><body>Bad gateway</body></html>",
            "data: [DONE]",
            "{\"type\": \"message\"",
            "{}",
            "[]",
            "[1]",
            "data: {\"type\": nonsense}\n\n",
            ": ping\n\n",
        ] {
            let is_end = bytes == "data: [DONE]" && protocol == CHAT;
            let failure = read(protocol, bytes.as_bytes());
            assert_eq!(matches!(failure, Err(CallFailure::Broken { .. })), !is_end, "{protocol} {bytes:?} {failure:?}");
        }
        let error = json!({ "error": { "type": "invalid_request_error", "message": "W." } });
        let wanted = CallFailure::Refused { status: 400, why: "W.".to_owned() };
        for error in [error.to_string(), format!("[{error}]")] {
            assert_eq!(read(protocol, error.as_bytes()).unwrap_err(), wanted, "{protocol}");
        }
    }
}

#[test]
fn an_event_beyond_all_measure_ends_an_answer() {
    let mut reader = Reader::new(CHAT);
    let piece = vec![b'x'; 1 << 20];
    assert_eq!(reader.push(b"data: ").unwrap(), []);
    let failure = (0..64).find_map(|_| reader.push(&piece).err()).unwrap();
    assert_eq!(failure, CallFailure::Broken { why: "more than 16777216 bytes came at once".to_owned() });
}

#[test]
fn forms_of_thoughts_are_kept_in_a_record() {
    let thought = Block::Thought { text: "T".to_owned(), seal: "s".to_owned(), id: String::new(), form: Form::Signed };
    let text = serde_json::to_string(&thought).unwrap();
    assert_eq!(text, r#"{"block":"thought","text":"T","seal":"s","form":"signed"}"#);
    assert_eq!(serde_json::from_str::<Block>(&text).unwrap(), thought);
    let old: Block = serde_json::from_str(r#"{"block":"thought","text":"T"}"#).unwrap();
    assert!(matches!(old, Block::Thought { form: Form::Told, .. }));
}
