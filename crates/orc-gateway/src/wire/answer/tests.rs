use orc_domain::price::Rates;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const REQUEST: u64 = 3_000;

fn reserved() -> Amount {
    Amount { micros: 1_000_000, tokens: 100_000, calls: 1 }
}

fn fold(protocol: Protocol, status: u16, pieces: &[&[u8]]) -> Folded {
    let mut answer = Answer::new(protocol, status);
    for piece in pieces {
        answer.feed(piece);
    }
    answer.finish(REQUEST, reserved())
}

fn events(events: &[(&str, Value)]) -> String {
    events
        .iter()
        .map(|(name, data)| match *name {
            "" => format!("data: {data}\n\n"),
            name => format!("event: {name}\ndata: {data}\n\n"),
        })
        .collect()
}

fn anthropic() -> String {
    events(&[
        (
            "message_start",
            json!({"type": "message_start", "message": {
                "id": "msg_1", "type": "message", "role": "assistant", "content": [],
                "usage": {"input_tokens": 12, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7,
                          "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
                          "output_tokens": 2}
            }}),
        ),
        ("content_block_start", json!({"type": "content_block_start", "index": 0})),
        ("ping", json!({"type": "ping"})),
        (
            "content_block_delta",
            json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hello, world"}}),
        ),
        (
            "content_block_delta",
            json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{\"a\":1}"}}),
        ),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 30,
                   "server_tool_use": {"web_search_requests": 1}}}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ])
}

fn anthropic_tokens() -> Tokens {
    Tokens {
        input: 12,
        cache_read: 100,
        cache_write: 3,
        cache_write_long: 4,
        output: 30,
        reasoning: 0,
        server_tools: 1,
    }
}

fn responses() -> String {
    let usage = json!({
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
        "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 150
    });
    events(&[
        (
            "response.created",
            json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}),
        ),
        ("response.output_text.delta", json!({"type": "response.output_text.delta", "delta": "Hello"})),
        (
            "response.output_item.done",
            json!({"type": "response.output_item.done",
                   "item": {"type": "web_search_call", "action": {"type": "search"}}}),
        ),
        (
            "response.output_item.done",
            json!({"type": "response.output_item.done",
                   "item": {"type": "web_search_call", "action": {"type": "open_page"}}}),
        ),
        (
            "response.completed",
            json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "usage": usage}}),
        ),
    ])
}

fn responses_tokens() -> Tokens {
    Tokens { input: 40, cache_read: 60, output: 20, reasoning: 30, server_tools: 1, ..Tokens::default() }
}

fn chat() -> String {
    let mut text = events(&[
        ("", json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]})),
        ("", json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"content": "lo"}}]})),
        (
            "",
            json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {"tool_calls": [
                   {"index": 0, "function": {"name": "f", "arguments": "{}"}}]}}]}),
        ),
        ("", json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})),
        (
            "",
            json!({"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 9,
                   "prompt_tokens_details": {"cached_tokens": 5}, "total_tokens": 29}}),
        ),
    ]);
    text.push_str("data: [DONE]\n\n");
    text
}

fn chat_tokens() -> Tokens {
    Tokens { input: 15, cache_read: 5, output: 9, ..Tokens::default() }
}

fn all() -> [(Protocol, String, Tokens, &'static str, &'static str); 3] {
    [
        (Protocol::AnthropicMessages, anthropic(), anthropic_tokens(), "msg_1", "tool_use"),
        (Protocol::OpenaiResponses, responses(), responses_tokens(), "resp_1", "completed"),
        (Protocol::OpenaiChat, chat(), chat_tokens(), "chatcmpl-1", "stop"),
    ]
}

#[test]
fn streams_that_come_to_their_end_settle_with_the_figures_of_the_provider() {
    for (protocol, text, tokens, message, stop) in all() {
        let forms = [
            text.clone(),
            format!("\u{feff}{text}"),
            text.replace('\n', "\r"),
            text.replace('\n', "\r\n"),
            text.trim_end().to_owned(),
            text.replace("event: ", "event:").replace("data: ", "data:"),
            format!(": a comment\n\n{text}: another\n\n"),
            format!("{text}data: {{no json\n\n"),
        ];
        for (at, form) in forms.into_iter().enumerate() {
            let folded = fold(protocol, 200, &[form.as_bytes()]);
            let wanted = Folded {
                tokens,
                kind: EntryKind::Settled,
                message: Some(message.to_owned()),
                stop: Some(stop.to_owned()),
                end: End::Complete,
                refusal: false,
                unread: u64::from(at == 7),
            };
            assert_eq!(folded, wanted, "{protocol}, form {at}");
        }
    }
}

#[test]
fn a_stream_that_is_cut_at_any_byte_has_an_outcome_within_the_reservation() {
    for (protocol, text, tokens, ..) in all() {
        let most = Amount { micros: 10, tokens: 1_000, calls: 1 };
        let mut settled = 0;
        for cut in 0..=text.len() {
            let mut answer = Answer::new(protocol, 200);
            answer.feed(&text.as_bytes()[..cut]);
            let folded = answer.finish(900, most);
            assert!(folded.tokens.total() <= most.tokens, "{protocol} {cut} {folded:?}");
            assert!(
                cut == text.len() || folded.kind == EntryKind::Estimated || folded.tokens == tokens,
                "{protocol} {cut}"
            );
            settled += usize::from(folded.kind == EntryKind::Settled);
            if folded.end == End::Cut {
                assert!(folded.tokens.context() > 0 && folded.kind == EntryKind::Estimated, "{protocol} {cut}");
            }
        }
        assert!(settled > 0, "{protocol}");
    }
}

proptest! {
    #[test]
    fn pieces_do_not_matter(which in 0..3_usize, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let (protocol, text, ..) = all()[which].clone();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([text.len()]) {
            pieces.push(&text.as_bytes()[from..cut]);
            from = cut;
        }
        prop_assert_eq!(fold(protocol, 200, &pieces), fold(protocol, 200, &[text.as_bytes()]));
    }

    #[test]
    fn garbage_has_an_outcome(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        head in prop::sample::select(vec!["", "{", "[", "data: ", "data: {\"type\":\"message_start\",\"message\":7}\n\n"]),
        status in prop::sample::select(vec![0_u16, 200, 204, 500]),
    ) {
        for protocol in Protocol::ALL {
            let folded = fold(protocol, status, &[head.as_bytes(), &bytes]);
            prop_assert!(folded.tokens.total() <= reserved().tokens);
        }
    }

    /// Whatever figures stand where figures stand: nothing fails, and nothing is invented beyond them.
    #[test]
    fn odd_figures_have_an_outcome(
        input in odd_figure(), output in odd_figure(), cached in odd_figure(), total in odd_figure(),
    ) {
        let usage = format!(
            "{{\"input_tokens\":{input},\"prompt_tokens\":{input},\"output_tokens\":{output},\
              \"completion_tokens\":{output},\"cache_read_input_tokens\":{cached},\"total_tokens\":{total},\
              \"input_tokens_details\":{{\"cached_tokens\":{cached}}},\"cache_creation\":{cached},\
              \"completion_tokens_details\":{{\"reasoning_tokens\":{cached}}},\"iterations\":[{total},{{\"input_tokens\":{total}}}]}}"
        );
        for protocol in Protocol::ALL {
            for body in [
                format!("{{\"type\":\"message\",\"status\":\"completed\",\"stop_reason\":\"end_turn\",\
                          \"choices\":[{{\"finish_reason\":\"stop\"}}],\"usage\":{usage}}}"),
                format!("data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"x\"}},\"usage\":{usage},\
                          \"response\":{{\"status\":\"completed\",\"usage\":{usage}}}}}\n\n"),
            ] {
                let folded = fold(protocol, 200, &[body.as_bytes()]);
                prop_assert!(folded.kind == EntryKind::Settled || folded.tokens.output <= 1_000_000_000);
            }
        }
    }
}

fn odd_figure() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "null",
        "0",
        "5",
        "-5",
        "1.5",
        "7.0",
        "\"9\"",
        "\"x\"",
        "true",
        "[]",
        "{}",
        "1e300",
        "1000000000",
        "18446744073709551615",
        "99999999999999999999",
    ])
}

#[test]
fn answers_that_are_no_streams() {
    let usage = json!({"input_tokens": 12, "output_tokens": 30});
    let anthropic = json!({"id": "msg_1", "type": "message", "content": [], "stop_reason": "end_turn", "usage": usage});
    let response = json!({
        "id": "resp_1", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
        "output": [{"type": "file_search_call"}, {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}],
        "usage": usage
    });
    let chat = json!({
        "id": "c", "choices": [{"message": {"content": "x", "refusal": null}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 30}
    });
    let tokens = Tokens { input: 12, output: 30, ..Tokens::default() };
    for (protocol, body, server_tools, stop, refusal) in [
        (Protocol::AnthropicMessages, anthropic, 0, "end_turn", false),
        (Protocol::OpenaiResponses, response, 1, "max_output_tokens", true),
        (Protocol::OpenaiChat, chat, 0, "length", false),
    ] {
        let text = format!("\u{feff} \r\n{body}\n");
        let folded = fold(protocol, 200, &[text.as_bytes()]);
        assert_eq!(folded.tokens, Tokens { server_tools, ..tokens }, "{protocol}");
        assert_eq!((folded.kind, folded.end, folded.refusal), (EntryKind::Settled, End::Complete, refusal));
        assert_eq!(folded.stop.as_deref(), Some(stop));
        for cut in 0..text.trim_end().len() {
            let folded = fold(protocol, 200, &[&text.as_bytes()[..cut]]);
            assert_eq!((folded.kind, folded.end), (EntryKind::Estimated, End::Cut), "{protocol} {cut}");
        }
    }
}

#[test]
fn what_nobody_told_is_estimated() {
    let text = anthropic();
    let until = |mark: &str| text.find(mark).unwrap();
    // Input was told at the beginning, and 19 bytes of output came in two pieces.
    let folded = fold(Protocol::AnthropicMessages, 200, &[&text.as_bytes()[..until("event: message_delta")]]);
    assert_eq!(folded.tokens, Tokens { output: 7, server_tools: 0, ..anthropic_tokens() });
    assert_eq!((folded.kind, folded.end), (EntryKind::Estimated, End::Cut));
    // At least what was told.
    let folded = fold(Protocol::AnthropicMessages, 200, &[&text.as_bytes()[..until("event: ping")]]);
    assert_eq!(folded.tokens.output, 2);
    // Nothing came.
    for body in ["", "\u{feff}", " \r\n", "<html>Bad gateway</html>", ": ping\n\n"] {
        let folded = fold(Protocol::AnthropicMessages, 200, &[body.as_bytes()]);
        assert_eq!(folded.tokens, Tokens { input: 1_000, ..Tokens::default() }, "{body:?}");
        assert_eq!((folded.kind, folded.end), (EntryKind::Estimated, End::Cut), "{body:?}");
    }
    // Usage is told by nobody, and the answer is whole.
    let chat =
        "data: {\"choices\":[{\"delta\":{\"content\":\"123456789\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let folded = fold(Protocol::OpenaiChat, 200, &[chat.as_bytes()]);
    assert_eq!(folded.tokens, Tokens { input: 1_000, output: 3, ..Tokens::default() });
    assert_eq!((folded.kind, folded.end), (EntryKind::Estimated, End::Complete));
    // A reason to stop without usage: the two tokens of the beginning are not the figure.
    let ends = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n";
    let start = &text.as_bytes()[..until("event: content_block_start")];
    let folded = fold(Protocol::AnthropicMessages, 200, &[start, ends.as_bytes()]);
    assert_eq!((folded.kind, folded.end, folded.tokens.output), (EntryKind::Estimated, End::Complete, 2));
}

#[test]
fn an_estimate_stays_within_the_reservation_and_costs_no_more() {
    let most = Amount { micros: 40, tokens: 50, calls: 1 };
    let mut answer = Answer::new(Protocol::OpenaiChat, 200);
    for _ in 0..1_000 {
        answer.feed(b"data: {\"choices\":[{\"delta\":{\"content\":\"some words\"}}]}\n\n");
    }
    let folded = answer.finish(60, most);
    assert_eq!(folded.tokens, Tokens { input: 20, output: 30, ..Tokens::default() });
    let price = Price { rates: Rates { input: 1_000_000, output: 2_000_000, ..Rates::default() }, ..Price::default() };
    assert_eq!(folded.cost(Some(&price), most), UsdMicros::from_micros(40));
    assert_eq!(folded.cost(None, most), UsdMicros::from_micros(0));
    // What the provider itself told is not cut.
    let settled = fold(Protocol::OpenaiChat, 200, &[chat().as_bytes()]);
    assert_eq!(settled.cost(Some(&price), Amount::default()), UsdMicros::from_micros(33));
}

#[test]
fn failures_before_and_in_the_middle() {
    let start = anthropic();
    let start = &start[..start.find("event: message_delta").unwrap()];
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Over\nloaded"}});
    let failed = json!({"type": "response.failed", "response": {"id": "r", "status": "failed",
                        "error": {"code": "rate_limit_exceeded", "message": "slow down"}, "usage": null}});
    for (protocol, status, body, kind, text, estimated) in [
        (
            Protocol::AnthropicMessages,
            200,
            format!("{start}{}", events(&[("error", overloaded.clone())])),
            "overloaded_error",
            "Over loaded",
            true,
        ),
        (Protocol::AnthropicMessages, 529, overloaded.to_string(), "overloaded_error", "Over loaded", false),
        (Protocol::OpenaiResponses, 200, events(&[("", failed)]), "rate_limit_exceeded", "slow down", true),
        (
            Protocol::OpenaiResponses,
            200,
            events(&[("error", json!({"type": "error", "code": "server_error", "message": "m"}))]),
            "server_error",
            "m",
            true,
        ),
        (
            Protocol::OpenaiChat,
            200,
            events(&[("", json!({"error": {"message": "m", "code": 502}}))]),
            "error",
            "m",
            true,
        ),
        (Protocol::OpenaiChat, 200, json!({"error": "model not found"}).to_string(), "error", "model not found", true),
        (
            Protocol::OpenaiChat,
            429,
            json!([{"error": {"message": "m", "type": "t", "code": null}}]).to_string(),
            "t",
            "m",
            false,
        ),
        (Protocol::OpenaiChat, 502, "<html>".to_owned(), "status 502", "", false),
        (Protocol::OpenaiChat, 500, String::new(), "status 500", "", false),
    ] {
        let folded = fold(protocol, status, &[body.as_bytes()]);
        assert_eq!(folded.end, End::Failed { kind: kind.to_owned(), text: text.to_owned() }, "{body}");
        assert_eq!(folded.kind == EntryKind::Estimated, estimated, "{body}");
        assert_eq!(folded.tokens == Tokens::default(), !estimated, "{body}");
    }
}

#[test]
fn refusals_are_seen() {
    for (protocol, body) in [
        (
            Protocol::AnthropicMessages,
            json!({"type": "message_delta", "delta": {"stop_reason": "refusal"}, "usage": {"output_tokens": 1}}),
        ),
        (Protocol::OpenaiResponses, json!({"type": "response.refusal.delta", "delta": "I can"})),
        (Protocol::OpenaiChat, json!({"choices": [{"delta": {"refusal": "I can"}}]})),
        (Protocol::OpenaiChat, json!({"choices": [{"delta": {}, "finish_reason": "content_filter"}]})),
    ] {
        assert!(fold(protocol, 200, &[events(&[("", body)]).as_bytes()]).refusal, "{protocol}");
    }
}

#[test]
fn what_is_too_large_passes_unread() {
    let text = anthropic();
    let at = text.find("event: message_delta").unwrap();
    let mut answer = Answer::new(Protocol::AnthropicMessages, 200);
    answer.feed(&text.as_bytes()[..at]);
    answer.feed(b"event: content_block_delta\ndata: ");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..50 {
        answer.feed(&piece);
    }
    answer.feed(b"\n\n");
    answer.feed(&text.as_bytes()[at..]);
    let folded = answer.finish(REQUEST, reserved());
    assert_eq!((folded.tokens, folded.unread, folded.end), (anthropic_tokens(), 1, End::Complete));

    let mut answer = Answer::new(Protocol::OpenaiChat, 200);
    answer.feed(b"{\"x\":\"");
    for _ in 0..50 {
        answer.feed(&piece);
    }
    answer.feed(b"\"}");
    let folded = answer.finish(REQUEST, reserved());
    assert_eq!((folded.kind, folded.end, folded.unread), (EntryKind::Estimated, End::Cut, 1));
    assert_eq!(folded.tokens.total(), reserved().tokens);
}
