//! Answers of the scripted provider, which sends what the real ones do: each is cut at every byte, and the meter of the gateway
//! reads the same figures.

use std::sync::Arc;

use futures_util::StreamExt;
use orc_domain::ledger::EntryKind;
use orc_domain::meter::Amount;
use orc_domain::model::{Protocol, Tokens, Want};
use orc_domain::script::{Answer, Beyond, Call, Figures, Fits, Script, Stop, Track, Turn};
use orc_domain::time::Millis;
use orc_gateway::Scripted;
use orc_gateway::provider::{Outgoing, Provider};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::talk::{Block, CallFailure, Ended, Form, Message, Offer, Question, Said, Speaker, ToolCall, ToolInput};
use crate::wire::{Reader, request};

/// What a model says to a question, in bytes.
fn answered(protocol: Protocol, answer: Answer, stream: bool, cut_after: Option<u32>) -> Vec<u8> {
    let turn = Turn { failure: None, answer: Some(answer), delay: Millis::ZERO, between: Millis::ZERO, cut_after };
    let track = Track { name: "t".to_owned(), fits: Fits::default(), turns: vec![turn], beyond: Beyond::Error };
    let model = Scripted::new(Arc::new(Script { file: "models/t.yaml".to_owned(), tracks: vec![track] }));
    let offer = |name: &str| Offer { name: name.to_owned(), description: String::new(), schema: json!({}) };
    let question = Question {
        model: "m".to_owned(),
        system: "S.".to_owned(),
        tools: vec![offer("Read"), offer("Edit")],
        messages: vec![Message { by: Speaker::User, blocks: vec![Block::Text { text: "Go.".to_owned() }] }],
        max_output: Some(1_000),
        effort: None,
        stream,
    };
    let body = request(protocol, &question).body;
    let outgoing = Outgoing {
        protocol,
        want: Want::Answer,
        query: String::new(),
        model: "m".to_owned(),
        headers: Vec::new(),
        body,
        run: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let incoming = model.send(outgoing).await.unwrap();
        assert_eq!(incoming.status, 200);
        let pieces: Vec<_> = incoming.body.collect().await;
        pieces.into_iter().flatten().flatten().collect()
    })
}

/// Pieces of one text, and of one thought, made one.
fn joined(said: Vec<Said>) -> Vec<Said> {
    let mut all: Vec<Said> = Vec::new();
    for said in said {
        match (all.last_mut(), said) {
            (Some(Said::Text { text, .. }), Said::Text { text: more, begins: false }) => text.push_str(&more),
            (Some(Said::Thinking { text }), Said::Thinking { text: more }) => text.push_str(&more),
            (_, said) => all.push(said),
        }
    }
    all
}

fn read(protocol: Protocol, pieces: &[&[u8]]) -> (Vec<Said>, Option<CallFailure>) {
    let mut reader = Reader::new(protocol);
    let mut said = Vec::new();
    for piece in pieces {
        match reader.push(piece) {
            Ok(more) => said.extend(more),
            Err(failure) => return (said, Some(failure)),
        }
    }
    match reader.end() {
        Ok(more) => {
            said.extend(more);
            (said, None)
        }
        Err(failure) => (said, Some(failure)),
    }
}

/// What is read of bytes, whatever the size of the pieces in which they come.
fn read_all(protocol: Protocol, bytes: &[u8]) -> (Vec<Said>, Option<CallFailure>) {
    let whole = read(protocol, &[bytes]);
    for size in 1..=50 {
        let pieces: Vec<_> = bytes.chunks(size).collect();
        assert_eq!(read(protocol, &pieces), whole, "{protocol}, pieces of {size}");
    }
    whole
}

fn used() -> Tokens {
    Tokens { input: 100, cache_read: 20, cache_write: 30, output: 40, reasoning: 5, ..Tokens::default() }
}

fn told(tokens: Tokens) -> Figures {
    let Tokens { input, output, reasoning, .. } = tokens;
    let others = Tokens { input: 0, output: 0, reasoning: 0, ..tokens };
    Figures::Told { input: Some(input), output: Some(output), reasoning: Some(reasoning), others }
}

fn call(name: &str, input: Value) -> Call {
    Call { name: name.to_owned(), input }
}

const THOUGHT: &str = "It has to be thought about for a while.";
const TEXT: &str = "I do it, ünd ät once it is.";

fn everything() -> Answer {
    Answer {
        thinking: Some(THOUGHT.to_owned()),
        text: Some(TEXT.to_owned()),
        calls: vec![
            call("Edit", json!({ "path": "a.txt", "content": "a long line of text" })),
            call("Read", json!("not { JSON")),
            call("Read", json!("")),
            call("Read", json!({})),
        ],
        stop: Stop::ToolUse,
        figures: told(used()),
    }
}

/// What stands for thoughts in a protocol.
fn thought(protocol: Protocol) -> Block {
    let (seal, id, form) = match protocol {
        Protocol::AnthropicMessages => ("c2NyaXB0ZWQ=", "", Form::Signed),
        Protocol::OpenaiResponses => ("c2NyaXB0ZWQ=", "rs_", Form::Item),
        Protocol::OpenaiChat => ("", "reasoning_content", Form::Beside),
    };
    Block::Thought { text: THOUGHT.to_owned(), seal: seal.to_owned(), id: id.to_owned(), form }
}

/// Without ids, which the provider makes up, and without the order of figures among the rest.
fn plain(said: Vec<Said>) -> (Vec<Said>, Vec<Tokens>) {
    let mut figures = Vec::new();
    let mut plain = Vec::new();
    for said in joined(said) {
        match said {
            Said::Used(tokens) => figures.push(tokens),
            Said::Block(Block::Call(call)) => {
                assert!(call.id.starts_with("toolu_") || call.id.starts_with("call_"), "{call:?}");
                plain.push(Said::Block(Block::Call(ToolCall { id: String::new(), ..call })));
            }
            Said::Block(Block::Thought { text, seal, id, form: Form::Item }) => {
                let id = id[..3].to_owned();
                plain.push(Said::Block(Block::Thought { text, seal, id, form: Form::Item }));
            }
            said => plain.push(said),
        }
    }
    (plain, figures)
}

#[test]
fn an_answer_with_everything() {
    for protocol in Protocol::ALL {
        let begins = |name: &str| Said::CallBegins { name: name.to_owned() };
        let call =
            |name: &str, input| Said::Block(Block::Call(ToolCall { id: String::new(), name: name.to_owned(), input }));
        let calls = [
            call("Edit", ToolInput::Json(json!({ "path": "a.txt", "content": "a long line of text" }))),
            call("Read", ToolInput::Broken("not { JSON".to_owned())),
            call("Read", ToolInput::Json(json!({}))),
            call("Read", ToolInput::Json(json!({}))),
        ];
        let begun = ["Edit", "Read", "Read", "Read"].map(begins);
        let calls: Vec<Said> = match protocol {
            Protocol::OpenaiChat => begun.into_iter().chain(calls).collect(),
            _ => begun.into_iter().zip(calls).flat_map(|(begun, call)| [begun, call]).collect(),
        };
        let text = Said::Text { text: TEXT.to_owned(), begins: true };
        let wanted: Vec<Said> = [
            vec![Said::Thinking { text: THOUGHT.to_owned() }, Said::Block(thought(protocol)), text],
            calls,
            vec![Said::Ended(Ended::Calls)],
        ]
        .concat();
        let (said, failure) = read_all(protocol, &answered(protocol, everything(), true, None));
        let (said, figures) = plain(said);
        assert_eq!((said, failure), (wanted.clone(), None), "{protocol}");
        assert_eq!(figures.last(), Some(&used()), "{protocol}");

        // Without a stream it is the same at once; input that is no JSON not all of them can say so.
        let mut whole = everything();
        whole.calls.drain(1..3);
        let (said, failure) = read(protocol, &[&answered(protocol, whole, false, None)]);
        let (said, figures) = plain(said);
        let is_cut = |said: &&Said| match said {
            Said::Block(Block::Call(call)) => matches!(call.input, ToolInput::Broken(_)),
            _ => false,
        };
        let mut wanted: Vec<Said> = wanted.iter().filter(|said| !is_cut(said)).cloned().collect();
        for gone in [begins("Read"), begins("Read"), call("Read", ToolInput::Json(json!({})))] {
            let at = wanted.iter().position(|said| *said == gone).unwrap();
            wanted.remove(at);
        }
        assert_eq!((said, failure), (wanted, None), "{protocol}");
        assert_eq!(figures, [used()], "{protocol}");
    }
}

#[test]
fn answers_that_end_otherwise() {
    for (protocol, stream) in Protocol::ALL.into_iter().flat_map(|protocol| [(protocol, true), (protocol, false)]) {
        let said = |stop, text: &str, calls| {
            let answer = Answer { text: Some(text.to_owned()), stop, calls, ..Answer::default() };
            let (said, failure) = read(protocol, &[&answered(protocol, answer, stream, None)]);
            assert_eq!(failure, None);
            plain(said).0
        };
        let text = |text: &str| Said::Text { text: text.to_owned(), begins: true };
        assert_eq!(said(Stop::MaxTokens, "Short.", vec![]), [text("Short."), Said::Ended(Ended::OutputLimit)]);
        assert_eq!(said(Stop::Refusal, "No.", vec![]), [text("No."), Said::Ended(Ended::Refused)]);
        assert_eq!(said(Stop::EndTurn, "Done.", vec![]), [text("Done."), Said::Ended(Ended::Said)]);
        assert_eq!(said(Stop::EndTurn, "", vec![]), [Said::Ended(Ended::Said)]);
        assert_eq!(said(Stop::ToolUse, "", vec![]), [Said::Ended(Ended::Said)]);
        let calls = vec![call("Read", json!({ "path": "a" }))];
        assert_eq!(said(Stop::EndTurn, "", calls).last(), Some(&Said::Ended(Ended::Calls)));
    }
}

#[test]
fn a_call_that_is_cut_at_the_limit_is_not_there() {
    for protocol in Protocol::ALL {
        for last in ["{\"path\": \"b", "", "{"] {
            let calls = vec![call("Read", json!({ "path": "a" })), call("Edit", json!(last))];
            let answer = Answer { calls, stop: Stop::MaxTokens, ..Answer::default() };
            let (said, failure) = read_all(protocol, &answered(protocol, answer, true, None));
            let names: Vec<_> = said
                .iter()
                .filter_map(
                    |said| if let Said::Block(Block::Call(call)) = said { Some(call.name.as_str()) } else { None },
                )
                .collect();
            assert_eq!((names, failure), (vec!["Read"], None), "{protocol} {last}");
            assert_eq!(said.last(), Some(&Said::Ended(Ended::OutputLimit)));
        }
    }
}

#[test]
fn an_answer_that_breaks_off_is_never_whole() {
    let calls = vec![call("Edit", json!({ "path": "ä" })), call("Read", json!({}))];
    let brief = Answer { text: Some("Ü.".to_owned()), thinking: Some("Hm.".to_owned()), calls, ..everything() };
    let words = |said: &[Said]| said.iter().filter(|said| !matches!(said, Said::Used(_))).cloned().collect::<Vec<_>>();
    for protocol in Protocol::ALL {
        let bytes = answered(protocol, brief.clone(), true, None);
        let whole = read(protocol, &[&bytes]);
        for at in 0..bytes.len() {
            let (one, other) = bytes.split_at(at);
            assert_eq!(read(protocol, &[one, other]), whole, "{protocol}, cut at {at}");
            let (said, failure) = read(protocol, &[one]);
            if failure.is_none() {
                // Behind the reason of the end stand only figures.
                assert_eq!(words(&said), words(&whole.0), "{protocol} {at}");
            } else {
                assert!(matches!(failure, Some(CallFailure::Broken { .. })), "{failure:?}");
                assert!(whole.0.starts_with(&said), "{protocol} {at}");
            }
        }
        let half = answered(protocol, brief.clone(), false, Some(1));
        assert!(matches!(read(protocol, &[&half]), (said, Some(CallFailure::Broken { .. })) if said.is_empty()));
    }
}

/// What the meter of the gateway reads of the same bytes.
fn metered(protocol: Protocol, bytes: &[u8]) -> Option<Tokens> {
    let mut answer = orc_gateway::wire::Answer::new(protocol, 200);
    answer.feed(bytes);
    let folded = answer.finish(0, Amount { micros: u64::MAX, tokens: u64::MAX, calls: 1 });
    (folded.kind == EntryKind::Settled).then_some(folded.tokens)
}

/// A figure as servers write it, whether it can be one or not.
fn a_figure() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (0..400_u64).prop_map(Value::from),
        1 => (0..400_u64).prop_map(|figure| Value::from(figure.to_string())),
        1 => prop::sample::select(vec![json!(null), json!(-1), json!(7.0), json!("many"), json!(2_000_000_000), json!([1])]),
    ]
}

fn a_usage(protocol: Protocol) -> BoxedStrategy<Value> {
    // Some servers count reasoning beside the output, which the total tells.
    let total = |f: &[Value]| [&f[0], &f[3], &f[4]].map(|figure| figure.as_u64().unwrap_or(0)).iter().sum::<u64>();
    (prop::collection::vec(a_figure(), 9), any::<bool>())
        .prop_map(move |(mut f, is_apart)| {
            if is_apart {
                f[5] = total(&f).into();
            }
            f
        })
        .prop_map(move |f| match protocol {
            Protocol::AnthropicMessages => json!({
                "input_tokens": f[0], "output_tokens": f[1].as_u64().unwrap_or(5) + 400,
                "cache_read_input_tokens": f[2], "cache_creation_input_tokens": f[3],
                "cache_creation": { "ephemeral_5m_input_tokens": f[4], "ephemeral_1h_input_tokens": f[5] },
                "output_tokens_details": { "thinking_tokens": f[6] },
                "server_tool_use": { "web_search_requests": f[7] },
                "iterations": [{ "input_tokens": f[8], "output_tokens": 3 }, { "input_tokens": f[3], "output_tokens": 300 }],
            }),
            Protocol::OpenaiResponses => json!({
                "input_tokens": f[0], "input_tokens_details": { "cached_tokens": f[1], "cache_write_tokens": f[2] },
                "output_tokens": f[3], "output_tokens_details": { "reasoning_tokens": f[4] }, "total_tokens": f[5],
            }),
            Protocol::OpenaiChat => json!({
                "prompt_tokens": f[0], "prompt_tokens_details": { "cached_tokens": f[1], "cache_write_tokens": f[2] },
                "completion_tokens": f[3], "completion_tokens_details": { "reasoning_tokens": f[4] }, "total_tokens": f[5],
            }),
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn figures_are_those_of_the_meter(
        (protocol, usage) in prop::sample::select(Protocol::ALL.to_vec()).prop_flat_map(|p| (Just(p), a_usage(p))),
    ) {
        let events = match protocol {
            Protocol::AnthropicMessages => vec![
                json!({ "type": "message_start", "message": { "usage": { "input_tokens": 1, "output_tokens": 9 } } }),
                json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }),
                json!({ "type": "message_stop" }),
            ],
            Protocol::OpenaiResponses => vec![
                json!({ "type": "response.completed", "response": { "status": "completed", "output": [], "usage": usage } }),
            ],
            Protocol::OpenaiChat => vec![
                json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }], "usage": null }),
                json!({ "choices": [], "usage": usage }),
            ],
        };
        let bytes: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let (said, failure) = read(protocol, &[bytes.as_bytes()]);
        prop_assert_eq!(failure, None);
        let last = said.iter().rev().find_map(|said| if let Said::Used(tokens) = said { Some(*tokens) } else { None });
        if let Some(metered) = metered(protocol, bytes.as_bytes()) {
            prop_assert_eq!(last, Some(metered), "{}", usage);
        }
    }

    #[test]
    fn lines_and_cuts_do_not_matter(
        end in prop::sample::select(vec!["\n", "\r", "\r\n"]),
        size in 1..40_usize,
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
    ) {
        let bytes = answered(protocol, everything(), true, None);
        let wanted = read(protocol, &[&bytes]);
        let text = String::from_utf8(bytes).unwrap();
        // A comment between events, a mark before all, and no empty line at the end.
        let text = format!("\u{FEFF}: hello\n\n{}", text.trim_end().replace("\n\n", "\n\n: ping\n\n")).replace('\n', end);
        let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
        prop_assert_eq!(read(protocol, &pieces), wanted);
    }
}
