use orc_domain::model::Want;
use orc_gateway::wire::Request;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::talk::{Block, Effort, Form, Message, Offer, Speaker, ToolCall, ToolInput};

const ANTHROPIC: Protocol = Protocol::AnthropicMessages;
const RESPONSES: Protocol = Protocol::OpenaiResponses;
const CHAT: Protocol = Protocol::OpenaiChat;

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn thought(text: &str, seal: &str, id: &str, form: Form) -> Block {
    Block::Thought { text: text.to_owned(), seal: seal.to_owned(), id: id.to_owned(), form }
}

fn call(id: &str, input: ToolInput) -> Block {
    Block::Call(ToolCall { id: id.to_owned(), name: "Read".to_owned(), input })
}

fn result(call: &str, text: &str, failed: bool) -> Block {
    Block::Result { call: call.to_owned(), text: text.to_owned(), failed }
}

fn user(blocks: Vec<Block>) -> Message {
    Message { by: Speaker::User, blocks }
}

fn said(blocks: Vec<Block>) -> Message {
    Message { by: Speaker::Model, blocks }
}

fn question(model: &str, messages: Vec<Message>) -> Question {
    let offer = |name: &str| Offer {
        name: name.to_owned(),
        description: "D.".to_owned(),
        schema: json!({ "type": "object", "additionalProperties": false }),
    };
    Question {
        model: model.to_owned(),
        system: "Be brief.".to_owned(),
        tools: vec![offer("Read"), offer("Edit")],
        messages,
        max_output: Some(5_000),
        effort: None,
        stream: true,
    }
}

/// One thought of each form, words, two calls of which one has no JSON, and their results.
fn everything() -> Vec<Message> {
    vec![
        user(vec![text("Do it.")]),
        said(vec![
            thought("Hm.", "sig", "", Form::Signed),
            thought("", "data", "", Form::Sealed),
            thought("Hm?", "enc", "rs_1", Form::Item),
            thought("Hm!", "", "reasoning", Form::Beside),
            text("I read."),
            thought("", r#"{"google":{"thought_signature":"t"}}"#, "", Form::OfCall),
            call("call_1", ToolInput::Json(json!({ "path": "a" }))),
            call("functions.Read:1", ToolInput::Broken("{\"pa".to_owned())),
        ]),
        user(vec![text("And hurry."), result("call_1", "A", false), result("functions.Read:1", "", true)]),
    ]
}

fn body(protocol: Protocol, question: &Question) -> Value {
    serde_json::from_slice(&request(protocol, question).body).unwrap()
}

fn bytes(protocol: Protocol, question: &Question) -> String {
    String::from_utf8(request(protocol, question).body.to_vec()).unwrap()
}

#[test]
fn everything_for_anthropic() {
    let question = question("claude-sonnet-4-5", everything());
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let schema = r#""input_schema":{"additionalProperties":false,"type":"object"}"#;
    let wanted = [
        r#"{"model":"claude-sonnet-4-5","max_tokens":5000,"stream":true,"#,
        &format!(r#""system":[{{"type":"text","text":"Be brief."{mark}}}],"#),
        &format!(r#""tools":[{{"name":"Read","description":"D.",{schema}}},"#),
        &format!(r#"{{"name":"Edit","description":"D.",{schema}{mark}}}],"#),
        &format!(r#""messages":[{{"role":"user","content":[{{"type":"text","text":"Do it."{mark}}}]}},"#),
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"sig"},"#,
        r#"{"type":"redacted_thinking","data":"data"},{"type":"text","text":"I read."},"#,
        r#"{"type":"tool_use","id":"call_1","name":"Read","input":{"path":"a"}},"#,
        r#"{"type":"tool_use","id":"call_7d6c9b0317d76f2761bb4918","name":"Read","input":{"not_json":"{\"pa"}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"A"},"#,
        r#"{"type":"tool_result","tool_use_id":"call_7d6c9b0317d76f2761bb4918","content":"It failed, and said nothing.","is_error":true},"#,
        &format!(r#"{{"type":"text","text":"And hurry."{mark}}}]}}]}}"#),
    ]
    .concat();
    assert_eq!(bytes(ANTHROPIC, &question), wanted);
    let headers = request(ANTHROPIC, &question).headers;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(headers, [pair("content-type", "application/json"), pair("anthropic-version", "2023-06-01")]);
}

#[test]
fn everything_for_responses() {
    let question = question("gpt-5", everything());
    let tool = |name| {
        format!(
            r#"{{"type":"function","name":"{name}","description":"D.","parameters":{{"additionalProperties":false,"type":"object"}},"strict":false}}"#
        )
    };
    let wanted = [
        r#"{"model":"gpt-5","stream":true,"store":false,"include":["reasoning.encrypted_content"],"#,
        r#""max_output_tokens":5000,"instructions":"Be brief.","#,
        &format!(r#""tools":[{},{}],"#, tool("Read"), tool("Edit")),
        r#""input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Do it."}]},"#,
        r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm?"}],"encrypted_content":"enc"},"#,
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I read."}]},"#,
        r#"{"type":"function_call","call_id":"call_1","name":"Read","arguments":"{\"path\":\"a\"}"},"#,
        r#"{"type":"function_call","call_id":"call_7d6c9b0317d76f2761bb4918","name":"Read","arguments":"{\"not_json\":\"{\\\"pa\"}"},"#,
        r#"{"type":"function_call_output","call_id":"call_1","output":"A"},"#,
        r#"{"type":"function_call_output","call_id":"call_7d6c9b0317d76f2761bb4918","output":""},"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"And hurry."}]}]}"#,
    ]
    .concat();
    assert_eq!(bytes(RESPONSES, &question), wanted);
}

#[test]
fn everything_for_chat() {
    let question = question("some-model", everything());
    let tool = |name| {
        format!(
            r#"{{"type":"function","function":{{"name":"{name}","description":"D.","parameters":{{"additionalProperties":false,"type":"object"}}}}}}"#
        )
    };
    let wanted = [
        r#"{"model":"some-model","stream":true,"stream_options":{"include_usage":true},"max_tokens":5000,"#,
        &format!(r#""tools":[{},{}],"#, tool("Read"), tool("Edit")),
        r#""messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Do it."},"#,
        r#"{"role":"assistant","content":"I read.","reasoning":"Hm!","tool_calls":["#,
        r#"{"id":"call_1","type":"function","function":{"name":"Read","arguments":"{\"path\":\"a\"}"},"#,
        r#""extra_content":{"google":{"thought_signature":"t"}}},"#,
        r#"{"id":"functions.Read:1","type":"function","function":{"name":"Read","arguments":"{\"not_json\":\"{\\\"pa\"}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"call_1","content":"A"},"#,
        r#"{"role":"tool","tool_call_id":"functions.Read:1","content":""},{"role":"user","content":"And hurry."}]}"#,
    ]
    .concat();
    assert_eq!(bytes(CHAT, &question), wanted);
}

#[test]
fn a_plain_question_is_short() {
    let mut plain = question("m", vec![user(vec![text("Hi")])]);
    plain.system = " \n".to_owned();
    plain.tools.clear();
    (plain.max_output, plain.stream) = (None, false);
    let mark = r#""cache_control":{"type":"ephemeral"}"#;
    assert_eq!(
        bytes(ANTHROPIC, &plain),
        format!(
            r#"{{"model":"m","max_tokens":32000,"stream":false,"messages":[{{"role":"user","content":[{{"type":"text","text":"Hi",{mark}}}]}}]}}"#
        )
    );
    assert_eq!(bytes(CHAT, &plain), r#"{"model":"m","stream":false,"messages":[{"role":"user","content":"Hi"}]}"#);
    plain.system.clear();
    assert_eq!(
        bytes(RESPONSES, &plain),
        r#"{"model":"m","stream":false,"store":false,"include":["reasoning.encrypted_content"],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}]}"#
    );
}

#[test]
fn speakers_take_turns_and_nothing_is_empty() {
    let messages = vec![
        user(vec![text("a")]),
        user(vec![text(""), text("b")]),
        said(vec![text(" \n"), thought("cut", "sig", "", Form::Signed)]),
        user(vec![text("c")]),
        said(vec![text("d"), thought("last", "sig", "", Form::Signed)]),
        said(vec![thought("first", "sig", "", Form::Signed), call("1", ToolInput::Json(json!([1])))]),
        user(vec![]),
        user(vec![text("e"), result("1", "f", false)]),
    ];
    let question = question("claude-opus-4-5", messages);
    let anthropic = body(ANTHROPIC, &question);
    let kinds: Vec<(String, Vec<String>)> = anthropic["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let kinds = message["content"].as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap());
            (message["role"].as_str().unwrap().to_owned(), kinds.map(str::to_owned).collect())
        })
        .collect();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        kinds,
        [
            // What only thought and was cut says nothing, so the user's turns meet.
            ("user".to_owned(), words(&["text", "text", "text"])),
            ("assistant".to_owned(), words(&["text", "thinking", "thinking", "tool_use"])),
            ("user".to_owned(), words(&["tool_result", "text"])),
        ]
    );
    // What is no object stands in one.
    assert_eq!(anthropic["messages"][1]["content"][3]["input"], json!({ "input": [1] }));
    let chat = body(CHAT, &question);
    let roles: Vec<_> =
        chat["messages"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(chat["messages"][1]["content"], "a\n\nb\n\nc");
}

#[test]
fn a_message_that_only_calls_has_no_text() {
    let calls = vec![user(vec![text("a")]), said(vec![call("1", ToolInput::Json(json!({})))])];
    let message = &body(CHAT, &question("m", calls))["messages"][2];
    assert_eq!((&message["content"], message.get("reasoning_content")), (&Value::Null, None));
    assert!(message.as_object().unwrap().contains_key("content"));
}

#[test]
fn thoughts_beside_a_text_go_back_under_their_name() {
    let answer = |blocks| [said(blocks), user(vec![text("u")])];
    let asked = |model, id| {
        let messages = [
            [user(vec![text("u")])].to_vec(),
            answer(vec![text("1")]).to_vec(),
            answer(vec![thought("T", "", id, Form::Beside), text("2")]).to_vec(),
            answer(vec![text("3")]).to_vec(),
        ]
        .concat();
        let body = body(CHAT, &question(model, messages));
        let told = |at: usize, key: &str| body["messages"][at].get(key).cloned();
        [2, 4, 6].map(|at| ["reasoning_content", "reasoning"].map(|key| told(at, key)))
    };
    let (none, some) = (|| [None, None], |text: &str| Some(json!(text)));
    // From the first one on, each answer has some.
    assert_eq!(asked("deepseek-chat", "reasoning_content"), [none(), [some("T"), None], [some(""), None]]);
    assert_eq!(asked("qwen3", "reasoning"), [none(), [None, some("T")], none()]);
    assert_eq!(asked("gpt-5", "reasoning"), [none(), none(), none()]);
}

#[test]
fn a_result_without_a_text_is_not_marked() {
    let results = user(vec![result("1", "r", false), result("2", "", false)]);
    let body = body(ANTHROPIC, &question("m", vec![user(vec![text("u")]), said(vec![text("a")]), results]));
    let content = &body["messages"][2]["content"];
    assert_eq!((content[0]["cache_control"].is_object(), content[1].get("cache_control")), (true, None));
}

#[test]
fn thoughts_without_what_their_provider_wants_are_left_out() {
    let messages = vec![
        user(vec![text("u")]),
        said(vec![
            thought("no signature", "", "", Form::Signed),
            thought("no text", "", "rs_1", Form::Item),
            thought("nobody's", "seal", "", Form::Told),
            text("t"),
        ]),
    ];
    for (protocol, model, wanted) in [
        (ANTHROPIC, "claude-opus-5", false),
        // A server that only talks like Anthropic may sign nothing.
        (ANTHROPIC, "deepseek-chat", true),
        (RESPONSES, "gpt-5", false),
        (CHAT, "m", false),
    ] {
        let text = bytes(protocol, &question(model, messages.clone()));
        assert_eq!(text.contains("no signature"), wanted, "{protocol} {model}");
        assert!(!text.contains("nobody's") && !text.contains("rs_1"), "{text}");
    }
    // What a model keeps to itself comes with no words and a signature, which is no sealed thought.
    let silent = vec![user(vec![text("u")]), said(vec![thought("", "sig", "", Form::Signed), text("t")])];
    let body = body(ANTHROPIC, &question("claude-opus-5", silent));
    let wanted = json!({ "type": "thinking", "thinking": "", "signature": "sig" });
    assert_eq!(body["messages"][1]["content"][0], wanted);
}

#[test]
fn efforts_by_protocol_and_model() {
    let of = |protocol, model: &str, effort, max_output| {
        let mut question = question(model, vec![user(vec![text("u")])]);
        (question.effort, question.max_output) = (effort, max_output);
        let body = body(protocol, &question);
        ["thinking", "output_config", "reasoning", "reasoning_effort"].map(|key| body[key].clone())
    };
    let none = || json!(null);
    let budget = |tokens: u32| [json!({ "type": "enabled", "budget_tokens": tokens }), none(), none(), none()];
    let nothing = [none(), none(), none(), none()];
    let (low, medium, high) = (Some(Effort::Low), Some(Effort::Medium), Some(Effort::High));
    assert_eq!(of(ANTHROPIC, "claude-haiku-4-5", low, None), budget(4_096));
    assert_eq!(of(ANTHROPIC, "claude-haiku-4-5", medium, None), budget(16_384));
    assert_eq!(of(ANTHROPIC, "claude-haiku-4-5", high, None), budget(32_768));
    assert_eq!(of(ANTHROPIC, "claude-haiku-4-5", high, Some(16_384)), budget(12_288));
    assert_eq!(of(ANTHROPIC, "claude-haiku-4-5", low, Some(2_049)), budget(1_024));
    assert_eq!(of(ANTHROPIC, "claude-haiku-4-5", high, Some(2_048)), nothing);
    assert_eq!(of(ANTHROPIC, "claude-haiku-4-5", None, None), nothing);
    let adaptive = json!({ "type": "adaptive", "display": "summarized" });
    let by_effort = [adaptive, json!({ "effort": "high" }), none(), none()];
    assert_eq!(of(ANTHROPIC, "claude-opus-4-6", high, None), by_effort);
    assert_eq!(of(ANTHROPIC, "claude-opus-4-6", None, None), nothing);
    let bound = json!({
        "type": "adaptive", "display": "summarized", "block_binding": { "prefix_mismatch_behavior": "drop_block" },
    });
    assert_eq!(of(ANTHROPIC, "claude-opus-5-5", None, None), [bound, none(), none(), none()]);
    assert_eq!(of(RESPONSES, "gpt-5", medium, None), [none(), none(), json!({ "effort": "medium" }), none()]);
    assert_eq!(of(RESPONSES, "gpt-5", None, None), nothing);
    assert_eq!(of(CHAT, "qwen3", low, None), [none(), none(), none(), json!("low")]);
    let beta = request(ANTHROPIC, &question("claude-opus-5-5", vec![user(vec![text("u")])])).headers;
    assert_eq!(beta[2], ("anthropic-beta".to_owned(), "thinking-binding-controls-2026-08-01".to_owned()));
}

#[test]
fn an_answer_without_a_thought_is_gone_on_with_without_thinking() {
    let asked = |blocks, result| {
        let mut question = question("claude-sonnet-4-5", vec![user(vec![text("u")]), said(blocks), user(vec![result])]);
        question.effort = Some(Effort::Low);
        body(ANTHROPIC, &question)["thinking"]["type"].clone()
    };
    let read = || call("1", ToolInput::Json(json!({})));
    let thinks = || thought("T", "sig", "", Form::Signed);
    assert_eq!(asked(vec![read()], result("1", "r", false)), Value::Null);
    assert_eq!(asked(vec![thinks(), read()], result("1", "r", false)), "enabled");
    assert_eq!(asked(vec![text("t")], text("u")), "enabled");
}

#[test]
fn limits_by_protocol_and_model() {
    let of = |protocol, model: &str| {
        let body = body(protocol, &question(model, vec![user(vec![text("u")])]));
        ["max_tokens", "max_completion_tokens", "max_output_tokens"].map(|key| body[key].as_u64())
    };
    assert_eq!(of(CHAT, "gpt-5"), [None, Some(5_000), None]);
    assert_eq!(of(CHAT, "gpt-oss-120b"), [Some(5_000), None, None]);
    assert_eq!(of(RESPONSES, "gpt-5"), [None, None, Some(5_000)]);
    assert_eq!(of(ANTHROPIC, "m"), [Some(5_000), None, None]);
    let old = body(RESPONSES, &question("gpt-4.1", vec![user(vec![text("u")])]));
    assert!(old.get("include").is_none());
}

/// What the gateway reads of a request is what was asked.
#[test]
fn the_gateway_understands_requests() {
    let mut asked = question("gpt-5", everything());
    asked.effort = Some(Effort::Low);
    for protocol in Protocol::ALL {
        for stream in [true, false] {
            asked.stream = stream;
            let body = request(protocol, &asked).body;
            let read = Request::read(protocol, Want::Answer, body.clone()).unwrap();
            assert_eq!((read.model.as_str(), read.stream), ("gpt-5", stream), "{protocol}");
            assert_eq!(read.track.system, "Be brief.");
            assert_eq!(read.track.prompt, "Do it.");
            assert_eq!(read.track.tools, ["Read", "Edit"]);
            assert_eq!(read.track.turns, 1);
            assert_eq!((read.ask.output, read.ask.refers, read.ask.server_tools), (Some(5_000), false, 0));
            assert_eq!(read.dearer, None);
            // It changes nothing of it.
            assert_eq!(read.outgoing(None), body, "{protocol}");
        }
    }
}

fn a_block(by: Speaker) -> BoxedStrategy<Block> {
    let word = || "[a-zü\\\\\" ]{0,9}";
    let form =
        prop::sample::select(vec![Form::Told, Form::Signed, Form::Sealed, Form::Item, Form::Beside, Form::OfCall]);
    match by {
        Speaker::User => prop_oneof![
            word().prop_map(|text| Block::Text { text }),
            ("[a-z.]{1,9}", word(), any::<bool>()).prop_map(|(call, text, failed)| Block::Result {
                call,
                text,
                failed
            }),
        ]
        .boxed(),
        Speaker::Model => prop_oneof![
            word().prop_map(|text| Block::Text { text }),
            (word(), "[a-z]{0,3}", form).prop_map(|(text, seal, form)| Block::Thought {
                text,
                seal,
                id: "reasoning".to_owned(),
                form
            }),
            ("[a-z.]{1,9}", word()).prop_map(|(id, text)| call(&id, ToolInput::Json(json!({ "text": text })))),
            ("[a-z.]{1,9}", word()).prop_map(|(id, text)| call(&id, ToolInput::Broken(text))),
        ]
        .boxed(),
    }
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let message = prop::sample::select(vec![Speaker::User, Speaker::Model])
        .prop_flat_map(|by| prop::collection::vec(a_block(by), 1..4).prop_map(move |blocks| Message { by, blocks }));
    prop::collection::vec(message, 0..7)
}

/// The bytes without the marks of the cache, which move, and without what ends the list of messages.
fn stable(bytes: &str) -> String {
    bytes.replace(r#","cache_control":{"type":"ephemeral"}"#, "").trim_end_matches([']', '}']).to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_longer_conversation_begins_with_the_same_bytes(
        mut messages in messages(),
        more in messages(),
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
        model in prop::sample::select(vec!["claude-opus-5-5", "claude-haiku-4-5", "gpt-5", "m"]),
    ) {
        // A turn of the other speaker ends what is there.
        messages.push(user(vec![text("u")]));
        messages.push(said(vec![text("a")]));
        messages.push(user(vec![text("u")]));
        let short = bytes(protocol, &question(model, messages.clone()));
        prop_assert_eq!(&short, &bytes(protocol, &question(model, messages.clone())));
        messages.push(said(vec![text("a")]));
        messages.extend(more);
        let long = bytes(protocol, &question(model, messages));
        prop_assert!(stable(&long).starts_with(&stable(&short)), "{}\n{}", short, long);
    }

    #[test]
    fn requests_are_valid_whatever_was_said(
        messages in messages(),
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
        model in prop::sample::select(vec!["claude-opus-5-5", "claude-haiku-4-5", "gpt-5", "m"]),
        effort in prop::sample::select(vec![None, Some(Effort::Low), Some(Effort::High)]),
    ) {
        let question = Question { effort, ..question(model, messages) };
        let request = request(protocol, &question);
        let read = Request::read(protocol, Want::Answer, request.body.clone());
        prop_assert!(read.is_ok(), "{:?}", read);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        if protocol == ANTHROPIC {
            let text = String::from_utf8(request.body.to_vec()).unwrap();
            prop_assert!(text.matches("cache_control").count() <= 4);
            let all = body["messages"].as_array().unwrap();
            prop_assert!(all.windows(2).all(|pair| pair[0]["role"] != pair[1]["role"]));
            for message in all {
                let blocks = message["content"].as_array().unwrap();
                let last = blocks.last().unwrap()["type"].as_str().unwrap();
                prop_assert!(!last.ends_with("thinking"));
                prop_assert!(blocks.iter().all(|block| block["text"].as_str().is_none_or(|text| !text.trim().is_empty())));
                prop_assert!(blocks.iter().all(|block| block["input"].is_null() || block["input"].is_object()));
                let results = blocks.iter().rposition(|block| block["type"] == "tool_result").map_or(0, |at| at + 1);
                prop_assert!(blocks[..results].iter().all(|block| block["type"] == "tool_result"));
            }
            if let Some(budget) = body["thinking"]["budget_tokens"].as_u64() {
                prop_assert!((1_024..body["max_tokens"].as_u64().unwrap()).contains(&budget));
            }
        }
    }
}

#[test]
fn a_name_that_a_model_made_up_goes_back_in_a_form_that_every_provider_takes() {
    let long = "x".repeat(300);
    for (name, plain) in [
        ("Read", "Read"),
        ("mcp__a-b__c", "mcp__a-b__c"),
        ("functions.Read", "functions_Read"),
        ("", "unknown"),
        (&long, &long[..64]),
    ] {
        let called = ToolCall { id: "a".to_owned(), name: name.to_owned(), input: ToolInput::Json(json!({})) };
        let messages =
            vec![user(vec![text("Go.")]), said(vec![Block::Call(called)]), user(vec![result("a", "No.", true)])];
        for protocol in [ANTHROPIC, RESPONSES, CHAT] {
            let body = request(protocol, &question("m", messages.clone())).body;
            let body = String::from_utf8(body.to_vec()).unwrap();
            assert!(body.contains(&format!("\"name\":\"{plain}\"")), "{body}");
        }
    }
}
