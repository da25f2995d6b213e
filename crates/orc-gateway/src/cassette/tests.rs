use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use orc_domain::ids::RunId;
use orc_domain::model::Protocol;
use orc_ports::executor::Secrets;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::provider::{Broken, Incoming, Outgoing, Provider, SendError, Want};

/// A provider whose answers are made by a function of what is asked.
struct Fake<F>(F);

impl<F: Fn(&Outgoing) -> Result<Incoming, SendError> + Send + Sync> Provider for Fake<F> {
    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, SendError>> {
        std::future::ready((self.0)(&outgoing)).boxed()
    }
}

type Pieces = Vec<Result<Bytes, Broken>>;

fn incoming(pieces: Pieces) -> Incoming {
    let headers = [("content-type", "text/event-stream"), ("set-cookie", "a=b"), ("retry-after", "3")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Incoming { status: 200, headers, body: stream::iter(pieces).boxed() }
}

fn asking(body: &Value) -> Outgoing {
    Outgoing {
        protocol: Protocol::AnthropicMessages,
        want: Want::Answer,
        query: String::new(),
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        headers: Vec::new(),
        body: Bytes::from(body.to_string()),
        run: None,
    }
}

fn body(prompt: &str, rest: &[&str]) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": prompt })];
    for (at, text) in rest.iter().enumerate() {
        messages.push(json!({ "role": if at % 2 == 0 { "assistant" } else { "user" }, "content": text }));
    }
    json!({ "model": "m", "max_tokens": 100, "system": "You work.", "messages": messages, "tools": [{ "name": "Bash" }] })
}

/// What came of a request: head, pieces and how it ended.
async fn ask(provider: &dyn Provider, outgoing: Outgoing) -> Result<(u16, Vec<(String, String)>, Pieces), SendError> {
    let incoming = provider.send(outgoing).await?;
    Ok((incoming.status, incoming.headers, incoming.body.collect().await))
}

fn said(pieces: &Pieces) -> String {
    pieces.iter().flatten().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
}

/// Records these requests, each answered with its last message in capitals.
async fn recorded(file: &std::path::Path, bodies: &[Value]) {
    let provider = Fake(|outgoing: &Outgoing| {
        let body: Value = serde_json::from_slice(&outgoing.body).unwrap();
        let last = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_uppercase();
        Ok(incoming(vec![Ok(Bytes::from(last))]))
    });
    let recorder =
        Recorder::new(Arc::new(provider), Place::File(file.to_owned()), Secrets::default(), Tapes::default());
    for body in bodies {
        ask(&recorder, asking(body)).await.unwrap();
    }
}

fn play(file: &std::path::Path, strictness: Strictness) -> Player {
    Player::open(file, strictness, Secrets::default()).unwrap()
}

fn why(error: SendError) -> String {
    match error {
        SendError::Unable { why } => why,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn conversations_are_played_by_track_and_position() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a/b.jsonl");
    let bodies = [
        body("first in /tmp/x/1", &[]),
        body("other", &[]),
        body("first in /tmp/x/1", &["a", "b 1"]),
        body("first in /tmp/x/1", &["a", "b 2"]),
    ];
    recorded(&file, &bodies).await;
    let player = play(&file, Strictness::Strict);
    assert_eq!(player.left(), 4);
    // Two conversations that begin alike may be at the same place in another order.
    for (at, wanted) in [(3, "B 2"), (1, "OTHER"), (0, "FIRST IN /TMP/X/1"), (2, "B 1")] {
        let (status, headers, pieces) = ask(&player, asking(&bodies[at])).await.unwrap();
        assert_eq!((status, said(&pieces).as_str()), (200, wanted));
        let kept: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(kept, ["content-type", "retry-after"]);
    }
    assert_eq!((player.left(), player.differences()), (0, 0));
    let shown = file.display();
    assert_eq!(
        why(ask(&player, asking(&bodies[1])).await.unwrap_err()),
        format!(
            "`{shown}` has 1 calls of this conversation (anthropic-messages answer of `m`, first message `other`), and \
             all of them were played"
        )
    );
}

#[tokio::test]
async fn a_difference_is_an_error_or_a_warning_and_names_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let first = body("Write a file.", &["done", "in /tmp/aa/w of 2026-12-01 by toolu_01abcdefgh2345678"]);
    recorded(&file, std::slice::from_ref(&first)).await;
    let fresh = body("Write a file.", &["done", "in /tmp/bb/w of 2027-01-31 by toolu_01abcdefgh2345999"]);
    let other = body("Write a file.", &["done", "in /tmp/bb/w of 2027-01-31 and more"]);

    let strict = play(&file, Strictness::Strict);
    let told = why(ask(&strict, asking(&fresh)).await.unwrap_err());
    let wanted = "(anthropic-messages answer of `m`, first message `Write a file.`) differs: `messages[2].content` is \
                  `in /tmp/aa/w of 2026-12-01 by toolu_01abcdefgh2345678` in the recording, and \
                  `in /tmp/bb/w of 2027-01-31 by toolu_01abcdefgh2345999` here";
    assert_eq!(told, format!("call 1 of a conversation of `{}` {wanted}", file.display()));
    assert_eq!((strict.left(), strict.differences()), (1, 1));

    let lenient = play(&file, Strictness::Lenient);
    assert!(ask(&lenient, asking(&fresh)).await.is_ok());
    assert_eq!(lenient.differences(), 0);
    let lenient = play(&file, Strictness::Lenient);
    let (.., pieces) = ask(&lenient, asking(&other)).await.unwrap();
    assert!(said(&pieces).starts_with("IN /TMP/AA"));
    assert_eq!((lenient.left(), lenient.differences()), (0, 1));

    // What the gateway itself may change is no difference.
    let mut lowered = first.clone();
    lowered["max_tokens"] = 4096.into();
    assert!(ask(&play(&file, Strictness::Strict), asking(&lowered)).await.is_ok());
    // Neither is a key's place.
    let mut moved = asking(&first);
    moved.body = Bytes::from(first.to_string().replacen('{', r#"{"stream_options":{"include_usage":true},"#, 1));
    assert!(ask(&play(&file, Strictness::Strict), moved).await.is_ok());
}

#[tokio::test]
async fn an_unknown_conversation_is_told_with_the_closest_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    recorded(&file, &[body("Write a file.", &[])]).await;
    let player = play(&file, Strictness::Lenient);
    let told = why(ask(&player, asking(&body("Write a poem.", &[]))).await.unwrap_err());
    let wanted = "(anthropic-messages answer of `m`, first message `Write a poem.`): in the closest one the first \
                  message is `Write a file.`, and here it is `Write a poem.`";
    assert_eq!(told, format!("`{}` has no conversation like this one {wanted}", file.display()));
    let mut renamed = body("Write a file.", &[]);
    renamed["model"] = "n".into();
    let told = why(ask(&player, asking(&renamed)).await.unwrap_err());
    assert!(told.ends_with("in the closest one the model is `m`, and here it is `n`"), "{told}");
}

#[tokio::test]
async fn failures_and_broken_answers_are_played_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let silent = || SendError::Silent { provider: "p".to_owned(), why: "reset".to_owned() };
    let odd = || {
        vec![
            Ok(Bytes::from_static(b"data: \xff\xc3")),
            Ok(Bytes::new()),
            Ok(Bytes::from_static(b"\xa9\n\n")),
            Err(Broken::Idle { seconds: 9 }),
        ]
    };
    let provider = Fake(move |outgoing: &Outgoing| {
        let is_first = String::from_utf8_lossy(&outgoing.body).contains("first");
        if is_first { Err(silent()) } else { Ok(incoming(odd())) }
    });
    let recorder = Recorder::new(Arc::new(provider), Place::File(file.clone()), Secrets::default(), Tapes::default());
    let bodies = [body("first", &[]), body("second", &[])];
    assert_eq!(ask(&recorder, asking(&bodies[0])).await.unwrap_err(), silent());
    assert_eq!(ask(&recorder, asking(&bodies[1])).await.unwrap().2, odd());
    // One who reads a piece and goes away.
    let mut left = recorder.send(asking(&bodies[1])).await.unwrap();
    assert!(left.body.next().await.unwrap().is_ok());
    drop(left);

    let player = play(&file, Strictness::Strict);
    assert_eq!(ask(&player, asking(&bodies[0])).await.unwrap_err(), silent());
    assert_eq!(ask(&player, asking(&bodies[1])).await.unwrap().2, odd());
    let rest = ask(&player, asking(&bodies[1])).await.unwrap().2;
    let ends = Broken::Cut { why: "its recording ends here".to_owned() };
    assert_eq!(rest, vec![odd().remove(0), Err(ends)]);
}

#[tokio::test]
async fn a_torn_line_is_passed_over_and_cut_off_and_other_damage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    recorded(&file, &[body("first", &[])]).await;
    let whole = std::fs::read(&file).unwrap();
    let lines = whole.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines, 5, "form, request, head, piece, end");
    for cut in 0..whole.len() {
        std::fs::write(&file, &whole[..cut]).unwrap();
        let left = play(&file, Strictness::Strict).left();
        // The request is the second line.
        assert_eq!(left, usize::from(whole[..cut].iter().filter(|byte| **byte == b'\n').count() > 1), "{cut}");
        recorded(&file, &[body("second", &[])]).await;
        let player = play(&file, Strictness::Strict);
        let (.., pieces) = ask(&player, asking(&body("second", &[]))).await.unwrap();
        assert_eq!(said(&pieces), "SECOND", "{cut}");
        assert_eq!(player.left(), left, "{cut}");
    }
    let open = |text: &[u8]| {
        std::fs::write(&file, text).unwrap();
        Player::open(&file, Strictness::Strict, Secrets::default()).unwrap_err().to_string()
    };
    let told = |line: usize, why: &str| format!("line {line} of `{}` is no line of a cassette: {why}", file.display());
    let begin = r#"a cassette begins with {"schema":"orc/cassette/1"}"#;
    assert_eq!(open(b"steps:\n"), told(1, begin));
    let other = "its form is `orc/cassette/2`, and this version reads `orc/cassette/1`";
    assert_eq!(open(b"{\"schema\":\"orc/cassette/2\"}\n"), told(1, other));
    let form = "{\"schema\":\"orc/cassette/1\"}\n";
    let stray = "it is about a call that does not begin before it, or begins it twice";
    assert_eq!(open(format!("{form}{{\"call\":3,\"end\":\"whole\"}}\n").as_bytes()), told(2, stray));
    assert!(open(format!("{form}{{\n").as_bytes()).starts_with(&told(2, "")));
    let missing = folder.path().join("none.jsonl");
    let error = Player::open(&missing, Strictness::Strict, Secrets::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot open the cassette `{}`", missing.display()));
}

#[tokio::test]
async fn each_run_has_its_file_and_only_one_process_records_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Arc::new(Fake(|_: &Outgoing| Ok(incoming(vec![Ok(Bytes::from_static(b"x"))]))));
    let place = Place::Folder(folder.path().to_owned());
    let tapes = Tapes::default();
    let recorder = Recorder::new(provider.clone(), place.clone(), Secrets::default(), tapes.clone());
    let beside = Recorder::new(provider.clone(), place.clone(), Secrets::default(), tapes);
    let run = RunId::from_uuid(uuid::Uuid::from_u128(7));
    let of_run = || Outgoing { run: Some(run), ..asking(&body("first", &[])) };
    let running = recorder.send(of_run()).await.unwrap();
    ask(&beside, of_run()).await.unwrap();
    // One that shares no tapes is as another process.
    let other = Recorder::new(provider, place.clone(), Secrets::default(), Tapes::default());
    let told = why(other.send(of_run()).await.map(|_| ()).unwrap_err());
    let file = place.file(Some(run));
    assert_eq!(told, format!("the cassette `{}` is being recorded by another process", file.display()));
    ask(&other, asking(&body("first", &[]))).await.unwrap();
    drop(running);
    ask(&other, of_run()).await.unwrap();
    let mut names: Vec<_> =
        folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["none.jsonl".to_owned(), format!("{}.jsonl", run.file_name())]);
    assert_eq!(play(&file, Strictness::Strict).left(), 3);
}

#[tokio::test]
async fn known_values_are_in_no_cassette_and_requests_are_found_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.jsonl");
    let provider = Fake(|_: &Outgoing| {
        Ok(incoming(vec![Ok(Bytes::from_static(b"key sk-ve")), Ok(Bytes::from_static(b"ry\"secret!"))]))
    });
    let secrets = Secrets::new(["sk-very\"secret".to_owned()]);
    let recorder = Recorder::new(Arc::new(provider), Place::File(file.clone()), secrets.clone(), Tapes::default());
    let asked = body("first with sk-very\"secret", &[]);
    let (.., pieces) = ask(&recorder, asking(&asked)).await.unwrap();
    assert_eq!(said(&pieces), "key sk-very\"secret!", "whoever asks gets what was answered");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(!kept.contains("sk-ve") && !kept.contains("secret"), "{kept}");
    let player = Player::open(&file, Strictness::Strict, secrets).unwrap();
    let (.., pieces) = ask(&player, asking(&asked)).await.unwrap();
    assert_eq!(pieces, [Ok(Bytes::from_static(b"key *****")), Ok(Bytes::from_static(b"*********!"))]);
}

/// Answers of any pieces and ends to conversations that may repeat.
fn calls() -> impl Strategy<Value = Vec<(u8, Pieces)>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| Ok(Bytes::from(bytes))),
        "[a-zé\"\\\\\n]{0,8}".prop_map(|text| Ok(Bytes::from(text))),
    ];
    let end = prop_oneof![
        3 => Just(None),
        1 => Just(Some(Broken::Cut { why: "reset".to_owned() })),
        1 => (0..9_u64).prop_map(|seconds| Some(Broken::Idle { seconds })),
    ];
    let answer = (prop::collection::vec(piece, 0..6), end).prop_map(|(mut pieces, end)| {
        pieces.extend(end.map(Err));
        pieces
    });
    prop::collection::vec((0..3_u8, answer), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_was_recorded_is_played_in_the_same_pieces(calls in calls()) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.jsonl");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answers = std::sync::Mutex::new(calls.iter().map(|(_, pieces)| pieces.clone()).collect::<std::collections::VecDeque<_>>());
        let provider = Fake(move |_: &Outgoing| Ok(incoming(answers.lock().unwrap().pop_front().unwrap())));
        let recorder = Recorder::new(Arc::new(provider), Place::File(file.clone()), Secrets::default(), Tapes::default());
        let prompt = |which: u8| asking(&body(&format!("prompt {which}"), &[]));
        for (which, pieces) in &calls {
            let (.., got) = runtime.block_on(ask(&recorder, prompt(*which))).unwrap();
            prop_assert_eq!(&got, pieces);
        }
        let player = play(&file, Strictness::Strict);
        for (which, pieces) in &calls {
            let (.., got) = runtime.block_on(ask(&player, prompt(*which))).unwrap();
            prop_assert_eq!(&got, pieces);
        }
        prop_assert_eq!((player.left(), player.differences()), (0, 0));
    }
}
