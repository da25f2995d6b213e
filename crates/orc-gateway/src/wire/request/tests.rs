use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(protocol: Protocol, body: &Value) -> Request {
    Request::read(protocol, Want::Answer, Bytes::from(body.to_string())).unwrap()
}

fn with(mut body: Value, key: &str, value: Value) -> Value {
    body[key] = value;
    body
}

fn anthropic() -> Value {
    json!({"model": "claude-x", "max_tokens": 32_000, "stream": true, "messages": [{"role": "user", "content": "Hi"}]})
}

fn responses() -> Value {
    json!({"model": "gpt-x", "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]})
}

fn chat() -> Value {
    json!({"model": "gpt-x", "stream": true, "messages": [{"role": "user", "content": "Hi"}]})
}

#[test]
fn what_is_asked_for() {
    let request = read(Protocol::AnthropicMessages, &anthropic());
    assert_eq!((request.model.as_str(), request.stream), ("claude-x", true));
    let wanted =
        Ask { bytes: anthropic().to_string().len() as u64, output: Some(32_000), answers: 1, ..Ask::default() };
    assert_eq!(request.ask, wanted);

    let thinking = with(anthropic(), "thinking", json!({"type": "enabled", "budget_tokens": 31_999}));
    assert_eq!(read(Protocol::AnthropicMessages, &thinking).ask.least, 32_000);
    for thinking in [json!({"type": "adaptive"}), json!({"type": "disabled", "budget_tokens": 9}), json!(null)] {
        assert_eq!(read(Protocol::AnthropicMessages, &with(anthropic(), "thinking", thinking)).ask.least, 0);
    }

    let request = read(Protocol::OpenaiResponses, &with(responses(), "max_output_tokens", json!(77)));
    assert_eq!((request.stream, request.ask.output, request.ask.answers), (false, Some(77), 1));
    assert_eq!(read(Protocol::OpenaiResponses, &responses()).ask.output, None);

    let both = with(with(chat(), "max_tokens", json!(5)), "max_completion_tokens", json!(9));
    let request = read(Protocol::OpenaiChat, &with(both, "n", json!(3)));
    assert_eq!((request.ask.output, request.ask.answers), (Some(9), 3));
    assert_eq!(read(Protocol::OpenaiChat, &with(chat(), "max_tokens", json!(null))).ask.output, None);
    // Of another protocol: it means nothing.
    assert_eq!(read(Protocol::OpenaiResponses, &with(responses(), "max_tokens", json!("x"))).ask.output, None);
}

#[test]
fn the_list_of_models_has_no_body() {
    let request = Request::read(Protocol::OpenaiChat, Want::Models, Bytes::from_static(b"whatever")).unwrap();
    assert_eq!((request.model.as_str(), request.outgoing(None)), ("", Bytes::from_static(b"whatever")));
}

#[test]
fn requests_that_cannot_be_judged() {
    let unreadable = |text: &str, wanted: &str| {
        let error =
            Request::read(Protocol::OpenaiChat, Want::Answer, Bytes::copy_from_slice(text.as_bytes())).unwrap_err();
        assert!(error.to_string().contains(wanted), "{text}: {error}");
    };
    unreadable("", "cannot be read");
    unreadable("{", "line 1 column 1");
    unreadable("[]", "not a JSON object");
    unreadable(" [\"m\"]", "not a JSON object");
    unreadable("7", "not a JSON object");
    unreadable("\"text\"", "not a JSON object");
    unreadable("{\"model\":\"m\"}x", "trailing");
    unreadable("\u{feff}{\"model\":\"m\"}", "cannot be read");
    unreadable("{}", "names no model");
    unreadable("{\"model\":\"\"}", "names no model");
    unreadable("{\"model\":7}", "names no model");
    unreadable(&format!("{{\"model\":\"{}\"}}", "x".repeat(257)), "more than 256 bytes");
    unreadable("{\"model\":\"m \"}", "blanks around it");
    unreadable("{\"model\":\"m\\u001b[2J\"}", "control characters");
    unreadable("{\"model\":\"m\",\"stream\":1}", "`stream` is 1, and has to be `true` or `false`");
    unreadable("{\"model\":\"m\",\"max_tokens\":-1}", "`max_tokens` is -1, and has to be a whole number");
    unreadable("{\"model\":\"m\",\"max_tokens\":1.5}", "`max_tokens` is 1.5");
    unreadable("{\"model\":\"m\",\"max_completion_tokens\":\"9\"}", "`max_completion_tokens` is \"9\"");
    unreadable("{\"model\":\"m\",\"max_tokens\":99999999999999999999}", "`max_tokens` is 99999999999999999999");
    unreadable("{\"model\":\"m\",\"n\":[]}", "`n` is []");
    unreadable("{\"model\":\"m\",\"stream\":true,\"stream_options\":7}", "`stream_options` is 7");
    unreadable("{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":7}}", "`include_usage` is 7");
    unreadable("{\"model\":\"m\",\"max_tokens\":1,\"max_tokens\":2}", "duplicate field `max_tokens`");
    unreadable("{\"model\":\"m\",\"max_tokens\":1,\"max\\u005ftokens\":2}", "duplicate field `max_tokens`");
    unreadable("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"role\":\"system\"}]}", "duplicate field `role`");
    let binary = Request::read(Protocol::OpenaiChat, Want::Answer, Bytes::from_static(b"{\"model\":\"\xff\"}"));
    assert!(binary.unwrap_err().to_string().contains("no UTF-8"));
    let background = Bytes::from(with(responses(), "background", json!(true)).to_string());
    let refused = Request::read(Protocol::OpenaiResponses, Want::Answer, background);
    assert_eq!(refused.unwrap_err(), BadRequest::Background);
}

fn refers(protocol: Protocol, body: &Value) -> bool {
    read(protocol, body).ask.refers
}

#[test]
fn what_a_request_does_not_hold() {
    let block = |block: Value| with(anthropic(), "messages", json!([{"role": "user", "content": [block]}]));
    let image = |source: Value| json!({"type": "image", "source": source});
    let base64 = |media: &str| json!({"type": "base64", "media_type": media, "data": "AAAA"});
    for (body, wanted) in [
        (block(json!({"type": "text", "text": "https://example.org"})), false),
        (block(image(base64("image/png"))), false),
        (block(image(json!({"type": "url", "url": "https://example.org/x.png"}))), true),
        (block(image(json!({"type": "file", "file_id": "file_1"}))), true),
        (block(json!({"type": "document", "source": base64("application/pdf")})), true),
        (block(json!({"type": "document", "source": {"type": "text", "data": "x"}})), false),
        (
            block(
                json!({"type": "document", "source": {"type": "content", "content": [image(json!({"type": "url"}))]}}),
            ),
            true,
        ),
        (block(json!({"type": "tool_result", "content": [image(json!({"type": "url"}))]})), true),
        (block(json!({"type": "tool_use", "input": {"url": "https://example.org", "file_id": "x"}})), false),
        (block(json!({"type": "container_upload", "file_id": "x"})), true),
        (with(anthropic(), "container", json!("c_1")), true),
        (with(anthropic(), "mcp_servers", json!([{"type": "url", "url": "https://example.org"}])), true),
        (with(anthropic(), "mcp_servers", json!([])), false),
        (with(anthropic(), "system", json!([{"type": "text", "text": "x", "cache_control": {"type": "e"}}])), false),
    ] {
        assert_eq!(refers(Protocol::AnthropicMessages, &body), wanted, "{body}");
    }

    let item = |item: Value| with(responses(), "input", json!([item]));
    let content = |part: Value| item(json!({"role": "user", "content": [part]}));
    for (body, wanted) in [
        (with(responses(), "input", json!("Hi")), false),
        (with(responses(), "previous_response_id", json!("resp_1")), true),
        (with(responses(), "previous_response_id", json!(null)), false),
        (with(responses(), "conversation", json!({"id": "conv_1"})), true),
        (with(responses(), "prompt", json!({"id": "pmpt_1"})), true),
        (item(json!({"type": "item_reference", "id": "x"})), true),
        (item(json!({"type": "reasoning", "id": "rs_1", "summary": []})), true),
        (item(json!({"type": "reasoning", "encrypted_content": "AAAA", "summary": []})), false),
        (content(json!({"type": "input_image", "image_url": "https://example.org/x.png"})), true),
        (content(json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"})), false),
        (content(json!({"type": "input_file", "file_id": "file_1"})), true),
        (content(json!({"type": "input_file", "file_data": "data:application/pdf;base64,AAAA"})), true),
        (
            item(json!({"type": "function_call_output", "output": [{"type": "input_file", "file_url": "https://x"}]})),
            true,
        ),
        (item(json!({"type": "function_call_output", "output": "file_id"})), false),
    ] {
        assert_eq!(refers(Protocol::OpenaiResponses, &body), wanted, "{body}");
    }

    let part = |part: Value| with(chat(), "messages", json!([{"role": "user", "content": [part]}]));
    for (body, wanted) in [
        (chat(), false),
        (part(json!({"type": "image_url", "image_url": {"url": "https://example.org/x.png"}})), true),
        (part(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}})), false),
        (part(json!({"type": "file", "file": {"file_id": "x"}})), true),
        (with(chat(), "web_search_options", json!({})), true),
        (with(chat(), "plugins", json!([{"id": "web"}])), true),
    ] {
        assert_eq!(refers(Protocol::OpenaiChat, &body), wanted, "{body}");
    }
}

#[test]
fn tools_of_the_provider_and_of_the_program() {
    let uses = |protocol, body: Value, tools: Value| {
        let ask = read(protocol, &with(body, "tools", tools)).ask;
        assert_eq!(ask.refers, ask.server_tools > 0);
        ask.server_tools
    };
    for (tools, wanted) in [
        (json!([{"name": "Read", "input_schema": {}}, {"type": "custom", "name": "x"}]), 0),
        (json!([{"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250728", "name": "e"}]), 0),
        (json!([{"type": "computer_20250124", "name": "c"}, {"type": "memory_20250818", "name": "m"}]), 0),
        (json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]), 3),
        (json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 0}]), 0),
        (json!([{"type": "web_fetch_20250910", "name": "f"}, {"type": "code_execution_20250825", "name": "c"}]), 20),
        (json!([{"type": "what_comes_next", "name": "x"}]), 10),
        (json!("none"), 0),
    ] {
        assert_eq!(uses(Protocol::AnthropicMessages, anthropic(), tools.clone()), wanted, "{tools}");
    }
    for (tools, wanted) in [
        (json!([{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}, {"type": "local_shell"}]), 0),
        (json!([{"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"}]), 0),
        (json!([{"type": "shell", "environment": {"type": "container_auto"}}]), 10),
        (json!([{"type": "web_search"}, {"type": "file_search"}, {"type": "mcp", "server_url": "https://x"}]), 30),
    ] {
        assert_eq!(uses(Protocol::OpenaiResponses, responses(), tools.clone()), wanted, "{tools}");
    }
    let most = with(responses(), "max_tool_calls", json!(4));
    assert_eq!(uses(Protocol::OpenaiResponses, most.clone(), json!([{"type": "web_search"}])), 4);
    assert_eq!(uses(Protocol::OpenaiResponses, most, json!([{"type": "function", "name": "f"}])), 0);
}

#[test]
fn pictures_may_be_larger_than_their_bytes() {
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    let result = json!({"type": "tool_result", "content": [picture.clone()]});
    let body = with(anthropic(), "messages", json!([{"role": "user", "content": [picture, result]}]));
    let length = body.to_string().len() as u64;
    assert_eq!(read(Protocol::AnthropicMessages, &body).ask.bytes, length + 2 * HELD_IMAGE_TOKENS);
}

#[test]
fn options_that_change_the_price() {
    for (key, value, wanted) in [
        ("service_tier", json!("auto"), None),
        ("service_tier", json!("flex"), None),
        ("service_tier", json!(null), None),
        ("service_tier", json!("priority"), Some("service_tier: priority")),
        ("service_tier", json!(7), Some("service_tier: ?")),
        ("speed", json!("fast"), Some("speed: fast")),
        ("inference_geo", json!("us"), Some("inference_geo: us")),
    ] {
        let request = read(Protocol::AnthropicMessages, &with(anthropic(), key, value));
        assert_eq!(request.dearer.as_deref(), wanted);
    }
}

#[test]
fn the_conversation_of_each_protocol() {
    let anthropic = json!({
        "model": "m", "max_tokens": 1,
        "system": [{"type": "text", "text": "You are"}, {"type": "text", "text": "helpful"}],
        "tools": [{"name": "Read"}, {"type": "web_search_20250305", "name": "web_search"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"},
            {"role": "assistant", "content": "d"},
            {"role": "user", "content": [{"type": "tool_result", "content": "e"}]},
            {"role": "assistant", "content": "f"}
        ]
    });
    let responses = json!({
        "model": "m", "instructions": "You are",
        "tools": [{"type": "function", "name": "Read"}, {"type": "web_search"}],
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "helpful"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a\nb"}]},
            {"role": "user", "content": "c"},
            {"type": "reasoning", "encrypted_content": "x"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "d"}]},
            {"type": "function_call", "name": "Read", "arguments": "{}"},
            {"type": "function_call_output", "output": "e"},
            {"type": "custom_tool_call", "name": "x"},
            {"type": "custom_tool_call_output", "output": "e"}
        ]
    });
    let chat = json!({
        "model": "m",
        "tools": [{"type": "function", "function": {"name": "Read"}}, {"type": "web_search"}],
        "messages": [
            {"role": "system", "content": "You are"},
            {"role": "developer", "content": "helpful"},
            {"role": "user", "content": "a\nb"},
            {"role": "user", "content": [{"type": "text", "text": "c"}]},
            {"role": "assistant", "content": null, "tool_calls": []},
            {"role": "tool", "content": "e"},
            {"role": "assistant", "content": "f"},
            {"role": "user", "content": "later"}
        ]
    });
    let wanted = Track {
        system: "You are\nhelpful".to_owned(),
        prompt: "a\nb\nc".to_owned(),
        tools: vec!["Read".to_owned(), "web_search".to_owned()],
        turns: 2,
    };
    assert_eq!(read(Protocol::AnthropicMessages, &anthropic).track, wanted);
    assert_eq!(read(Protocol::OpenaiResponses, &responses).track, wanted);
    assert_eq!(read(Protocol::OpenaiChat, &chat).track, wanted);
    let text = json!({"model": "m", "input": "Hi"});
    assert_eq!(read(Protocol::OpenaiResponses, &text).track, Track { prompt: "Hi".to_owned(), ..Track::default() });
}

#[test]
fn edits_by_hand() {
    for (protocol, body, output, wanted) in [
        (Protocol::AnthropicMessages, "{\"model\":\"m\",\"max_tokens\":9}", None, "{\"model\":\"m\",\"max_tokens\":9}"),
        (
            Protocol::AnthropicMessages,
            "{\"model\":\"m\",\"max_tokens\":9}",
            Some(9),
            "{\"model\":\"m\",\"max_tokens\":9}",
        ),
        (
            Protocol::AnthropicMessages,
            "{ \"max\\u005ftokens\" : 10000 , \"model\":\"m\" } ",
            Some(9),
            "{ \"max\\u005ftokens\" : 9 , \"model\":\"m\" } ",
        ),
        (Protocol::AnthropicMessages, "\n{\"model\":\"m\"}", Some(9), "\n{\"max_tokens\":9,\"model\":\"m\"}"),
        (Protocol::OpenaiResponses, "{\"model\":\"m\"}", Some(9), "{\"max_output_tokens\":9,\"model\":\"m\"}"),
        (
            Protocol::OpenaiResponses,
            "{\"model\":\"m\",\"max_output_tokens\":null}",
            Some(9),
            "{\"model\":\"m\",\"max_output_tokens\":9}",
        ),
        (Protocol::OpenaiChat, "{\"model\":\"m\"}", Some(9), "{\"max_completion_tokens\":9,\"model\":\"m\"}"),
        (
            Protocol::OpenaiChat,
            "{\"max_tokens\":5,\"max_completion_tokens\":20,\"model\":\"m\"}",
            Some(9),
            "{\"max_tokens\":5,\"max_completion_tokens\":9,\"model\":\"m\"}",
        ),
        (
            Protocol::OpenaiChat,
            "{\"max_tokens\":20,\"max_completion_tokens\":null,\"model\":\"m\"}",
            Some(9),
            "{\"max_tokens\":9,\"max_completion_tokens\":null,\"model\":\"m\"}",
        ),
        (
            Protocol::OpenaiChat,
            "{\"model\":\"m\",\"stream\":true}",
            Some(9),
            "{\"max_completion_tokens\":9,\"stream_options\":{\"include_usage\":true},\"model\":\"m\",\"stream\":true}",
        ),
        (
            Protocol::OpenaiChat,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":null}",
            None,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
        ),
        (
            Protocol::OpenaiChat,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{ }}",
            None,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true }}",
        ),
        (
            Protocol::OpenaiChat,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"a\":1}}",
            None,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true,\"a\":1}}",
        ),
        (
            Protocol::OpenaiChat,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\": false}}",
            None,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\": true}}",
        ),
        (
            Protocol::OpenaiChat,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
            None,
            "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
        ),
        (Protocol::OpenaiChat, "{\"model\":\"m\",\"stream\":false}", None, "{\"model\":\"m\",\"stream\":false}"),
    ] {
        let request = Request::read(protocol, Want::Answer, Bytes::from(body)).unwrap();
        assert_eq!(request.outgoing(output), wanted.as_bytes(), "{body}");
    }
}

/// Any JSON text, with white space and escapes as they come.
fn json_text(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,6})(\\.[0-9]{1,3})?(e[0-9])?",
        "\"([a-z {}\\[\\],:]|\\\\\"|\\\\\\\\|\\\\u00[0-7][0-9]|é|max_tokens)*\"",
    ];
    leaf.prop_recursive(depth, 24, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), "[ \n\t]?")
                .prop_map(|(parts, blank)| format!("[{blank}{}{blank}]", parts.join(&format!("{blank},")))),
            prop::collection::btree_map("[a-e]{1,3}|max_tokens|stream_options", inner, 0..4).prop_map(|parts| {
                let parts: Vec<String> = parts.iter().map(|(key, value)| format!("\"{key}\" : {value}")).collect();
                format!("{{{}}}", parts.join(" ,"))
            }),
        ]
    })
    .boxed()
}

proptest! {
    /// Where the key stands, its value is replaced and every other byte is the same; where it does not, only it is new.
    #[test]
    fn an_edit_changes_exactly_its_value(
        before in prop::collection::btree_map("x[a-d]{1,3}", json_text(3), 0..4),
        after in prop::collection::btree_map("y[a-d]{1,3}", json_text(3), 0..4),
        blank in "[ \r\n\t]{0,2}",
        asked in prop::option::of(0..200_000_u64),
        limit in 0..200_000_u64,
    ) {
        for (protocol, key) in [
            (Protocol::AnthropicMessages, "max_tokens"),
            (Protocol::OpenaiResponses, "max_output_tokens"),
            (Protocol::OpenaiChat, "max_completion_tokens"),
        ] {
            let field = |(key, value): (&String, &String)| format!("{blank}\"{key}\"{blank}:{blank}{value}{blank}");
            let model = format!("\"model\":{blank}\"m\"");
            let text = |figure: Option<u64>| {
                let limit = figure.map(|figure| format!("\"{key}\"{blank}:{blank}{figure}{blank}"));
                let all: Vec<String> = before.iter().map(field)
                    .chain(limit).chain([model.clone()]).chain(after.iter().map(field)).collect();
                format!("{blank}{{{}}}{blank}", all.join(","))
            };
            let request = Request::read(protocol, Want::Answer, Bytes::from(text(asked))).unwrap();
            prop_assert_eq!(request.outgoing(None), Bytes::from(text(asked)));
            let edited = request.outgoing(Some(limit));
            match asked {
                Some(figure) => prop_assert_eq!(&edited, &Bytes::from(text(Some(figure.min(limit))))),
                None => {
                    let whole = text(None);
                    let (head, rest) = whole.split_at(blank.len() + 1);
                    prop_assert_eq!(&edited, &Bytes::from(format!("{head}\"{key}\":{limit},{rest}")));
                }
            }
            let again = Request::read(protocol, Want::Answer, edited).unwrap();
            prop_assert_eq!(again.ask.output, Some(asked.unwrap_or(u64::MAX).min(limit)));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100), text in json_text(4)) {
        for protocol in Protocol::ALL {
            let _: Result<Request, BadRequest> = Request::read(protocol, Want::Answer, Bytes::from(bytes.clone()));
            let body = format!(
                "{{\"model\":\"m\",\"messages\":{text},\"input\":{text},\"system\":{text},\"tools\":{text},\"thinking\":{text}}}"
            );
            prop_assert!(Request::read(protocol, Want::Answer, Bytes::from(body)).is_ok());
        }
    }
}

#[test]
fn depth_is_bounded() {
    let deep = format!("{{\"model\":\"m\",\"messages\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let error = Request::read(Protocol::OpenaiChat, Want::Answer, Bytes::from(deep)).unwrap_err();
    assert!(error.to_string().contains("recursion limit"), "{error}");
    // What is not judged may be as deep as it likes.
    let deep = format!("{{\"model\":\"m\",\"metadata\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(Request::read(Protocol::OpenaiChat, Want::Answer, Bytes::from(deep)).is_ok());
}
