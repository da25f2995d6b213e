use orc_domain::ledger::EntryKind;
use orc_domain::meter::Amount;
use orc_domain::model::Tokens;
use orc_domain::script::{Answer, Beyond, Call, Failure, Fits, Stop, Track};
use orc_ports::executor::Secrets;
use proptest::prelude::*;

use super::*;
use crate::cassette::{Place, Player, Recorder, Strictness, Tapes};
use crate::wire::{Answer as Followed, End};

fn answer(text: &str) -> Answer {
    Answer { text: Some(text.to_owned()), ..Answer::default() }
}

fn says(answer: Answer) -> Turn {
    Turn { failure: None, answer: Some(answer), delay: Millis::ZERO, between: Millis::ZERO, cut_after: None }
}

fn told(tokens: Tokens) -> Figures {
    let Tokens { input, output, reasoning, .. } = tokens;
    let others = Tokens { input: 0, output: 0, reasoning: 0, ..tokens };
    Figures::Told { input: Some(input), output: Some(output), reasoning: Some(reasoning), others }
}

fn scripted(turns: Vec<Turn>) -> Scripted {
    let fits = Fits { model: Some("m".to_owned()), ..Fits::default() };
    let track = Track { name: "all".to_owned(), fits, turns, beyond: Beyond::Error };
    Scripted::new(Arc::new(Script { file: "models/a.yaml".to_owned(), tracks: vec![track] }))
}

/// Thoughts, words, calls with input that is JSON and that is not; then answers that end otherwise.
fn everything() -> Scripted {
    let call = |name: &str, input| Call { name: name.to_owned(), input };
    let used = Tokens { input: 100, cache_read: 20, cache_write: 30, output: 40, reasoning: 5, ..Tokens::default() };
    let first = Answer {
        thinking: Some("It has to be thought about for a while.".to_owned()),
        calls: vec![
            call("Write", json!({ "path": "a.txt", "content": "a long line of text" })),
            call("patch", json!("not { JSON")),
        ],
        stop: Stop::ToolUse,
        figures: told(used),
        ..answer("I do it, ünd ät once it is.")
    };
    let cut = Answer { stop: Stop::MaxTokens, figures: Figures::Untold, ..answer("Short.") };
    let refusal = Answer { stop: Stop::Refusal, ..answer("No.") };
    scripted([first, cut, refusal, answer("")].map(says).to_vec())
}

/// A request after so many answers.
fn asking(protocol: Protocol, answers: usize, stream: bool) -> Outgoing {
    let said = |role: &str| json!({ "role": role, "content": "words" });
    let mut messages = vec![said("user")];
    for _ in 0..answers {
        messages.extend([said("assistant"), said("user")]);
    }
    let mut body = json!({ "model": "m", "stream": stream, "max_tokens": 2_000 });
    match protocol {
        Protocol::AnthropicMessages => body["messages"] = messages.into(),
        Protocol::OpenaiResponses => {
            body["input"] = messages.into();
            body["include"] = json!(["reasoning.encrypted_content"]);
            body["tools"] = json!([
                { "type": "custom", "name": "patch" },
                { "type": "namespace", "name": "files", "tools": [{ "type": "function", "name": "Write" }] },
            ]);
        }
        Protocol::OpenaiChat => {
            body["messages"] = messages.into();
            body["tools"] = json!([
                { "type": "custom", "custom": { "name": "patch" } },
                { "type": "function", "function": { "name": "Write" } },
            ]);
            if stream {
                body["stream_options"] = json!({ "include_usage": true });
            }
        }
    }
    outgoing(protocol, Want::Answer, &body)
}

fn outgoing(protocol: Protocol, want: Want, body: &Value) -> Outgoing {
    let model = body["model"].as_str().unwrap_or_default().to_owned();
    let body = Bytes::from(body.to_string());
    Outgoing { protocol, want, query: String::new(), model, headers: Vec::new(), body, run: None }
}

async fn ask(provider: &dyn Provider, outgoing: Outgoing) -> Result<(u16, Vec<Result<Bytes, Broken>>), SendError> {
    let incoming = provider.send(outgoing).await?;
    Ok((incoming.status, incoming.body.collect().await))
}

/// The data of the events of a stream; each event is a piece, and named as it says itself.
fn events(pieces: &[Result<Bytes, Broken>]) -> Vec<Value> {
    let event = |piece: &Result<Bytes, Broken>| {
        let text = std::str::from_utf8(piece.as_ref().unwrap()).unwrap().strip_suffix("\n\n").unwrap();
        let (name, data) = match text.split_once('\n') {
            Some((name, data)) => (name.strip_prefix("event: "), data),
            None => (None, text),
        };
        let data = data.strip_prefix("data: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap_or_else(|_| data.into());
        assert_eq!(data["type"].as_str(), name);
        data
    };
    pieces.iter().map(event).collect()
}

/// Names of events in their order, repeated ones once.
fn names(events: &[Value]) -> Vec<&str> {
    let mut names: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    names.dedup();
    names
}

fn joined(events: &[Value], path: &[&str]) -> String {
    let text = |event: &Value| path.iter().fold(event.clone(), |value, key| value[*key].clone());
    events.iter().filter_map(|event| text(event).as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_stream_of_anthropic() {
    let model = everything();
    let (status, pieces) = ask(&model, asking(Protocol::AnthropicMessages, 0, true)).await.unwrap();
    let events = events(&pieces);
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let mut wanted = vec!["message_start", "content_block_start", "ping"];
    wanted.extend(&block[1..]);
    for _ in 0..3 {
        wanted.extend(block);
    }
    wanted.extend(["message_delta", "message_stop"]);
    assert_eq!((status, names(&events)), (200, wanted));
    assert_eq!(joined(&events, &["delta", "thinking"]), "It has to be thought about for a while.");
    assert_eq!(joined(&events, &["delta", "text"]), "I do it, ünd ät once it is.");
    let calls = joined(&events, &["delta", "partial_json"]);
    assert_eq!(calls, r#"{"content":"a long line of text","path":"a.txt"}not { JSON"#);
    let starts: Vec<_> = events.iter().filter(|event| event["type"] == "content_block_start").collect();
    let indexes: Vec<_> = starts.iter().map(|start| start["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, [0, 1, 2, 3]);
    let ids: Vec<_> = starts[2..].iter().map(|start| start["content_block"]["id"].as_str().unwrap()).collect();
    assert!(ids[0].starts_with("toolu_") && ids[0] != ids[1], "{ids:?}");
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!((&end["usage"]["input_tokens"], &end["usage"]["output_tokens"]), (&json!(100), &json!(45)));
    // The same again, byte for byte, and other ids for another run.
    assert_eq!(ask(&model, asking(Protocol::AnthropicMessages, 0, true)).await.unwrap().1, pieces);
    let run = Some(RunId::from_uuid(uuid::Uuid::from_u128(1)));
    let other = ask(&model, Outgoing { run, ..asking(Protocol::AnthropicMessages, 0, true) }).await.unwrap().1;
    assert_ne!(other, pieces);
    assert_eq!(other.len(), pieces.len());
}

#[tokio::test]
async fn a_stream_of_responses() {
    let (_, pieces) = ask(&everything(), asking(Protocol::OpenaiResponses, 0, true)).await.unwrap();
    let events = events(&pieces);
    assert_eq!(
        names(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let numbers = events.iter().map(|event| event["sequence_number"].as_u64().unwrap());
    assert!(numbers.eq(0..events.len() as u64));
    let response = &events.last().unwrap()["response"];
    let output = response["output"].as_array().unwrap();
    let kinds: Vec<_> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "custom_tool_call"]);
    assert!(output[0]["encrypted_content"].is_string());
    assert_eq!(output[1]["content"][0]["text"], "I do it, ünd ät once it is.");
    assert_eq!(output[2]["arguments"], r#"{"content":"a long line of text","path":"a.txt"}"#);
    assert_eq!((&output[2]["namespace"], &output[3]["input"]), (&json!("files"), &json!("not { JSON")));
    assert_eq!(
        response["usage"],
        json!({
            "input_tokens": 150, "input_tokens_details": { "cached_tokens": 20, "cache_write_tokens": 30 },
            "output_tokens": 45, "output_tokens_details": { "reasoning_tokens": 5 }, "total_tokens": 195,
        })
    );
    // Without a stream it is the same response.
    let (_, whole) = ask(&everything(), asking(Protocol::OpenaiResponses, 0, false)).await.unwrap();
    let mut whole: Value = serde_json::from_slice(whole[0].as_ref().unwrap()).unwrap();
    assert_eq!(whole["status"].take(), "completed");
    assert_eq!(&whole["output"], &response["output"]);
}

#[tokio::test]
async fn a_stream_of_chat_completions() {
    let (_, pieces) = ask(&everything(), asking(Protocol::OpenaiChat, 0, true)).await.unwrap();
    let events = events(&pieces);
    let [first, .., reason, usage, done] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(first["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(reason["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!((&usage["choices"], &usage["usage"]["prompt_tokens"]), (&json!([]), &json!(150)));
    assert_eq!(done, "[DONE]");
    let deltas: Vec<Value> = events.iter().map(|event| event["choices"][0]["delta"].clone()).collect();
    assert_eq!(joined(&deltas, &["reasoning_content"]), "It has to be thought about for a while.");
    assert_eq!(joined(&deltas, &["content"]), "I do it, ünd ät once it is.");
    let calls: Vec<Value> = deltas.iter().map(|delta| delta["tool_calls"][0].clone()).collect();
    let of = |index: u64| calls.iter().filter(|call| call["index"] == index).cloned().collect::<Vec<_>>();
    assert_eq!(joined(&of(0), &["function", "arguments"]), r#"{"content":"a long line of text","path":"a.txt"}"#);
    assert_eq!(joined(&of(1), &["custom", "input"]), "not { JSON");
    assert!(joined(&of(1), &["id"]).starts_with("call_"));
}

#[tokio::test]
async fn later_turns_in_every_protocol_and_without_streams() {
    let model = everything();
    let whole = async |protocol, answers| {
        let (_, pieces) = ask(&model, asking(protocol, answers, false)).await.unwrap();
        serde_json::from_slice::<Value>(pieces[0].as_ref().unwrap()).unwrap()
    };
    let [anthropic, responses, chat] = Protocol::ALL;
    let cut = whole(anthropic, 1).await;
    assert_eq!(
        (&cut["stop_reason"], &cut["content"]),
        (&json!("max_tokens"), &json!([{ "type": "text", "text": "Short." }]))
    );
    assert!(cut.get("usage").is_none());
    let cut = whole(responses, 1).await;
    let why = json!({ "reason": "max_output_tokens" });
    assert_eq!((&cut["status"], &cut["incomplete_details"], &cut["usage"]), (&json!("incomplete"), &why, &json!(null)));
    assert_eq!(whole(chat, 1).await["choices"][0]["finish_reason"], "length");
    assert_eq!(whole(anthropic, 2).await["stop_reason"], "refusal");
    let part = json!([{ "type": "refusal", "refusal": "No." }]);
    assert_eq!(whole(responses, 2).await["output"][0]["content"], part);
    assert_eq!(whole(chat, 2).await["choices"][0]["message"]["refusal"], "No.");
    assert_eq!(whole(anthropic, 3).await["content"], json!([]));
    assert_eq!(whole(responses, 3).await["output"], json!([]));
    assert_eq!(whole(chat, 3).await["choices"][0]["message"]["content"], "");
    // Only a stream can say what is no JSON.
    let error = ask(&model, asking(anthropic, 0, false)).await.unwrap_err().to_string();
    assert!(error.starts_with("the input of `patch` is not JSON, which only a stream can say: "), "{error}");
    for protocol in Protocol::ALL {
        let error = ask(&model, asking(protocol, 4, true)).await.unwrap_err().to_string();
        let wanted = "the track `all` of `models/a.yaml` has 4 turns, and this is turn 5; `repeat: last` says the last one again";
        assert_eq!(error, wanted, "{protocol}");
    }
}

#[tokio::test]
async fn errors_count_where_they_end_and_have_the_words_of_their_provider() {
    let failure = |status, kind: Option<&str>, message: &str| Failure {
        status,
        kind: kind.map(str::to_owned),
        message: message.to_owned(),
        retry_after: None,
        times: None,
    };
    let busy = Failure { retry_after: Some(Millis::from_millis(1500)), times: Some(2), ..failure(529, None, "Later.") };
    let quota = failure(429, Some("insufficient_quota"), "Pay.");
    let model = || {
        let never = Turn { answer: None, failure: Some(quota.clone()), ..says(answer("")) };
        scripted(vec![Turn { failure: Some(busy.clone()), ..says(answer("Now.")) }, never])
    };
    let counting = model();
    let [anthropic, responses, _] = Protocol::ALL;
    let statuses = async |run: Option<u128>| {
        let run = run.map(|run| RunId::from_uuid(uuid::Uuid::from_u128(run)));
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(ask(&counting, Outgoing { run, ..asking(anthropic, 0, true) }).await.unwrap().0);
        }
        statuses
    };
    assert_eq!(statuses(Some(1)).await, [529, 529, 200, 200]);
    assert_eq!(statuses(Some(2)).await, [529, 529, 200, 200], "each run has its own count");
    let failed = model().send(asking(anthropic, 0, true)).await.unwrap();
    assert!(failed.headers.contains(&("retry-after".to_owned(), "2".to_owned())), "{:?}", failed.headers);
    let body = async |protocol, answers| {
        let (status, pieces) = ask(&model(), asking(protocol, answers, true)).await.unwrap();
        (status, serde_json::from_slice::<Value>(pieces[0].as_ref().unwrap()).unwrap())
    };
    assert_eq!(
        body(anthropic, 0).await,
        (529, json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Later." } }))
    );
    let quota = json!({ "type": "insufficient_quota", "code": "insufficient_quota", "param": null, "message": "Pay." });
    assert_eq!(body(responses, 1).await, (429, json!({ "error": quota })));
}

#[tokio::test(start_paused = true)]
async fn delays_and_cuts_are_where_the_script_has_them() {
    let turn = Turn {
        delay: Millis::from_secs(5),
        between: Millis::from_secs(1),
        cut_after: Some(3),
        ..says(answer("Words."))
    };
    let model = scripted(vec![turn]);
    let start = tokio::time::Instant::now();
    let incoming = model.send(asking(Protocol::AnthropicMessages, 0, true)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    let pieces: Vec<_> = incoming.body.collect().await;
    // Three events and the cut.
    assert_eq!((start.elapsed(), pieces.len()), (Duration::from_secs(8), 4));
    assert_eq!(pieces.last(), Some(&Err(cut_as_written())));
    let (_, whole) = ask(&model, asking(Protocol::OpenaiChat, 0, false)).await.unwrap();
    assert!(matches!(whole.as_slice(), [Ok(half), Err(_)] if half.starts_with(b"{") && !half.ends_with(b"}")));
}

#[tokio::test]
async fn counts_and_lists_of_models() {
    let model = everything();
    let json = async |outgoing| {
        let (_, pieces) = ask(&model, outgoing).await.unwrap();
        serde_json::from_slice::<Value>(pieces[0].as_ref().unwrap()).unwrap()
    };
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "words" }] });
    let count = outgoing(Protocol::AnthropicMessages, Want::Count, &body);
    assert_eq!(json(count).await, json!({ "input_tokens": 150 }));
    let unknown = json!({ "model": "x", "messages": [] });
    let by_bytes = tokens_of(unknown.to_string().len());
    let count = outgoing(Protocol::AnthropicMessages, Want::Count, &unknown);
    assert_eq!(json(count).await, json!({ "input_tokens": by_bytes }));
    for protocol in Protocol::ALL {
        let list = json(outgoing(protocol, Want::Models, &Value::Null)).await;
        let names: Vec<_> =
            list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
        assert_eq!(names, ["m"], "{protocol}");
    }
}

#[tokio::test]
async fn a_request_that_fits_no_track_is_told_what_was_asked() {
    let mut asked = asking(Protocol::OpenaiChat, 0, true);
    asked.body = Bytes::from(String::from_utf8_lossy(&asked.body).replace("\"m\"", "\"n\""));
    let error = ask(&everything(), asked).await.unwrap_err().to_string();
    assert!(error.starts_with("no track of `models/a.yaml` fits: the model is `n`, "), "{error}");
    assert!(error.ends_with("tools: custom, Write"), "{error}");
}

/// What the meter reads of an answer that is whole; none: its figures are not sure.
fn metered(protocol: Protocol, pieces: &[Result<Bytes, Broken>]) -> Option<Tokens> {
    let mut answer = Followed::new(protocol, 200);
    for piece in pieces.iter().flatten() {
        answer.feed(piece);
    }
    let folded = answer.finish(0, Amount { micros: u64::MAX, tokens: u64::MAX, calls: 1 });
    let is_sure = folded.kind == EntryKind::Settled && folded.end == End::Complete && folded.unread == 0;
    is_sure.then_some(folded.tokens)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_meter_reads_what_the_script_says_and_a_cassette_plays_it(
        figures in prop::array::uniform4(0..700_u64),
        text in "[a-zé\n\"]{0,60}",
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
        stream in any::<bool>(),
    ) {
        let [input, cache_read, cache_write, reasoning] = figures;
        let used = Tokens { input, cache_read, cache_write, reasoning, output: 7, ..Tokens::default() };
        let thinking = Some("Hm.".to_owned());
        let model = scripted(vec![says(Answer { thinking, figures: told(used), ..answer(&text) })]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.jsonl");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let asked = || asking(protocol, 0, stream);
        let (place, secrets) = (Place::File(file.clone()), Secrets::default);
        let recorder = Recorder::new(Arc::new(model), place, secrets(), Tapes::default());
        let (_, pieces) = runtime.block_on(ask(&recorder, asked())).unwrap();
        prop_assert_eq!(metered(protocol, &pieces), Some(used));
        let player = Player::open(&file, Strictness::Strict, secrets()).unwrap();
        let (_, played) = runtime.block_on(ask(&player, asked())).unwrap();
        prop_assert_eq!(played, pieces);
    }
}

#[tokio::test]
async fn figures_that_no_model_could_reach_count_as_the_most_that_it_could() {
    let lie = Tokens {
        input: 10_000_000,
        cache_read: 50,
        output: 60_000,
        reasoning: 40,
        server_tools: 7,
        ..Tokens::default()
    };
    let scripted = scripted(vec![says(Answer { figures: told(lie), ..answer("Much.") })]);
    for protocol in Protocol::ALL {
        for stream in [false, true] {
            let outgoing = asking(protocol, 0, stream);
            let ask = Request::read(protocol, Want::Answer, outgoing.body.clone()).unwrap().ask;
            let mut answer = Followed::new(protocol, 200);
            let mut body = scripted.send(outgoing).await.unwrap().body;
            while let Some(piece) = body.next().await {
                answer.feed(&piece.unwrap());
            }
            let folded = answer.finish(ask.bytes, Amount::default());
            let tokens = folded.tokens;
            let most = ask.output.unwrap_or(60_040);
            assert_eq!(
                (tokens.context(), tokens.output + tokens.reasoning),
                (ask.input(), most),
                "{protocol} {stream}"
            );
        }
    }
}
