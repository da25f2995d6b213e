//! The life of a call through the door in the process: who is answered what, and what stands in the ledger after it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use orc_domain::budget::Wall;
use orc_domain::ledger::EntryKind::{Estimated, Settled};
use orc_domain::meter::{Limits, Owner, Refusal, Shortfall};
use orc_domain::model::{Protocol, Want};
use orc_gateway::provider::{Incoming, SendError};
use orc_gateway::{Credential, HttpShape, ProviderKind, Unpriced};
use orc_ports::gateway::{Broken, Gateway, Notice, OpenError, Request};
use orc_ports::ledger::CostReader;
use orc_ports::store::StoreError;
use orc_testkit::model::Fault;
use tokio::sync::Notify;

use crate::fixture::{Fake, Scene, asks, cut, fake, flow, messages, provider, run, says, streams, usd, whole};

fn hello() -> ProviderKind {
    fake(|_| Ok(streams(vec![Ok(Bytes::from(messages("msg_1", 10, 20)))])))
}

/// 10 tokens of input, 20 of output.
const HELLO: i64 = 30 + 300;

#[tokio::test]
async fn an_answer_passes_byte_for_byte_and_its_figures_are_in_the_ledger() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    scene.open(1, vec![(flow(9), usd(1_000_000))]).await;
    let (status, text) = whole(scene.gateway.call(asks(1, 5_000)).await).await;
    assert_eq!((status, text), (200, messages("msg_1", 10, 20)));
    let metered = scene.gateway.close(run(1)).await;
    assert_eq!((metered.usage.input, metered.usage.output, metered.usage.calls), (10, 20, 1));
    assert_eq!(metered.usage.cost.as_micros(), HELLO);
    assert_eq!(scene.ends().await, [(Settled, 200, 10, 20, HELLO)]);
    let record = &scene.calls().await[0];
    assert_eq!(record.reservation.provider, "p");
    assert_eq!(record.reservation.above, [flow(9)]);
    assert_eq!(record.end.as_ref().unwrap().settlement.as_ref().unwrap().message.as_deref(), Some("msg_1"));
    assert!(record.reservation.prices.is_some() && record.reservation.micros.as_micros() >= HELLO);
    assert_eq!(scene.spent(flow(9)).await, (HELLO, 0));
    assert!(matches!(scene.notices()[..], [Notice::Used(usage)] if usage == metered.usage));
    // Once it is closed there is no way in, by whichever name.
    assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await.0, 401);
    assert_eq!(scene.gateway.metered(run(1)), orc_ports::gateway::Metered::default());
}

#[tokio::test]
async fn what_was_spent_before_counts_when_a_run_opens_again() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    for round in 1..=3 {
        scene.open(1, vec![(Owner::Run(run(1)), Limits { calls: Some(2), ..Limits::default() })]).await;
        let (status, text) = whole(scene.gateway.call(asks(1, 5_000)).await).await;
        assert_eq!(status, if round <= 2 { 200 } else { 403 }, "{text}");
        assert_eq!(scene.gateway.close(run(1)).await.usage.calls, round.min(2));
    }
    let is_told = scene.notices().iter().any(|notice| match notice {
        Notice::Refused(Refusal::Wall { owner, wall: Wall::ModelCalls, short }) => {
            (*owner, short.spent, short.limit, short.needed) == (Owner::Run(run(1)), 2, 2, 1)
        }
        _ => false,
    });
    assert!(is_told, "{:?}", scene.notices());
}

#[tokio::test]
async fn output_is_lowered_to_what_a_wall_covers_and_refused_below_an_answer() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = sent.clone();
    let kind = fake(move |outgoing| {
        let body: serde_json::Value = serde_json::from_slice(&outgoing.body).unwrap();
        seen.lock().unwrap().push(body["max_tokens"].as_u64().unwrap());
        Ok(streams(vec![Ok(Bytes::from(messages("m", 1_000, 8_300)))]))
    });
    let scene = Scene::new(vec![provider("p", kind)]).await;
    // 200,000 micro-dollars are 13,333 tokens of output without any input.
    scene.open(1, vec![(flow(1), usd(200_000))]).await;
    assert_eq!(whole(scene.gateway.call(asks(1, 128_000)).await).await.0, 200);
    let (status, text) = whole(scene.gateway.call(asks(1, 128_000)).await).await;
    assert!(status == 403 && text.contains("permission_error") && text.contains("the wall `usd`"), "{text}");
    let lowered = sent.lock().unwrap().clone();
    assert!(lowered.len() == 1 && (12_000..13_000).contains(&lowered[0]), "{lowered:?}");
    let metered = scene.gateway.close(run(1)).await;
    assert!(
        matches!(metered.refused, Some(Refusal::Wall { short: Shortfall { spent: 127_500, limit: 200_000, .. }, .. })),
        "{metered:?}"
    );
    assert_eq!(scene.calls().await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_judged_or_has_nobody_is_told_in_the_form_of_its_protocol() {
    let scene = Scene::with(vec![provider("p", hello())], |shape| shape.unpriced = Unpriced::Refuse).await;
    scene.open(1, Vec::new()).await;
    let ask = |body: &str, protocol| {
        let request = Request { body: Bytes::copy_from_slice(body.as_bytes()), protocol, ..asks(1, 1) };
        async { whole(scene.gateway.call(request).await).await }
    };
    for (body, status, wanted) in [
        ("", 400, "cannot be read"),
        ("\u{feff}{}", 400, "cannot be read"),
        ("[]", 400, "not a JSON object"),
        ("{}", 400, "names no model"),
        (r#"{"model":"m-1","model":"m-2"}"#, 400, "duplicate"),
        (r#"{"model":"other","messages":[]}"#, 404, "no provider has the model `other`; there are: m-*"),
    ] {
        for protocol in Protocol::ALL {
            let (got, text) = ask(body, protocol).await;
            assert!(got == status && text.contains(wanted), "{body} {protocol}: {got} {text}");
        }
    }
    assert_eq!(scene.calls().await.len(), 0);
    // Encoded requests are not guessed at.
    let mut encoded = asks(1, 1);
    encoded.headers.push(("content-encoding".to_owned(), "zstd".to_owned()));
    let (status, text) = whole(scene.gateway.call(encoded).await).await;
    assert!(status == 415 && text.contains("content-encoding: zstd"), "{status} {text}");
}

#[tokio::test]
async fn a_model_without_a_price_follows_the_setting_and_never_passes_a_wall_of_money() {
    let unpriced = |shape: &mut orc_gateway::Shape| shape.prices.rows.clear();
    let scene = Scene::with(vec![provider("p", hello())], unpriced).await;
    scene.open(1, vec![(flow(1), usd(5_000_000))]).await;
    scene.open(2, vec![(flow(2), Limits { tokens: Some(150_000), ..Limits::default() })]).await;
    let (status, text) = whole(scene.gateway.call(asks(1, 5_000)).await).await;
    assert!(status == 403 && text.contains("no price is known"), "{text}");
    assert_eq!(scene.gateway.close(run(1)).await.refused, Some(Refusal::Unpriced { owner: flow(1) }));
    assert_eq!(whole(scene.gateway.call(asks(2, 5_000)).await).await.0, 200);
    scene.gateway.close(run(2)).await;
    assert_eq!(scene.ends().await, [(Settled, 200, 10, 20, 0)]);
    assert_eq!(scene.ledger.spent(flow(2)).await.unwrap().unpriced, 1);
    let refuse = |shape: &mut orc_gateway::Shape| {
        shape.prices.rows.clear();
        shape.unpriced = Unpriced::Refuse;
    };
    let scene = Scene::with(vec![provider("p", hello())], refuse).await;
    scene.open(1, Vec::new()).await;
    assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await.0, 403);
    // What costs nothing needs no price.
    let models = Request { want: Want::Models, body: Bytes::new(), ..asks(1, 1) };
    assert_eq!(whole(scene.gateway.call(models).await).await.0, 200);
    assert_eq!(scene.calls().await.len(), 0);
}

#[tokio::test]
async fn final_answers_pass_at_once_and_cost_nothing() {
    let statuses = [400, 401, 403, 404, 408, 409, 413, 422];
    let next = AtomicUsize::new(0);
    let kind = fake(move |_| {
        let status = statuses[next.fetch_add(1, Ordering::SeqCst)];
        Ok(says(status, &[("x-request-id", "r")], r#"{"type":"error","error":{"type":"x","message":"y"}}"#))
    });
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, vec![(flow(1), usd(200_000))]).await;
    for status in statuses {
        let answer = scene.gateway.call(asks(1, 5_000)).await;
        assert!(answer.headers.contains(&("x-request-id".to_owned(), "r".to_owned())));
        assert_eq!(whole(answer).await, (status, r#"{"type":"error","error":{"type":"x","message":"y"}}"#.to_owned()));
    }
    scene.gateway.close(run(1)).await;
    assert_eq!(scene.ends().await, statuses.map(|status| (Settled, status, 0, 0, 0)));
}

#[tokio::test]
async fn a_program_that_hangs_up_pays_for_what_came() {
    let begun = messages("m", 100, 50);
    let begun = Bytes::from(begun[..begun.find("event: content_block_stop").unwrap()].to_owned());
    let kind = fake(move |_| {
        let first = stream::iter([Ok(begun.clone())]);
        Ok(Incoming { status: 200, headers: Vec::new(), body: first.chain(stream::pending()).boxed() })
    });
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, vec![(flow(1), usd(1_000_000))]).await;
    let mut answer = scene.gateway.call(asks(1, 5_000)).await;
    assert!(answer.body.next().await.unwrap().is_ok());
    drop(answer);
    // "Hello": two tokens by its bytes, and the input that was told.
    let metered = scene.gateway.close(run(1)).await;
    assert_eq!(scene.ends().await, [(Estimated, 200, 100, 2, 330)]);
    assert_eq!((metered.usage.cost.as_micros(), scene.spent(flow(1)).await), (330, (330, 0)));
}

#[tokio::test]
async fn a_program_that_hangs_up_before_an_answer_pays_for_its_request_at_most() {
    let asked = Arc::new(Notify::new());
    let told = asked.clone();
    let silent = Fake(move |_| {
        told.notify_one();
        std::future::pending().boxed()
    });
    let scene = Scene::new(vec![provider("p", ProviderKind::Made(Arc::new(silent)))]).await;
    scene.open(1, Vec::new()).await;
    tokio::select! {
        _ = scene.gateway.call(asks(1, 5_000)) => panic!("it answers"),
        () = asked.notified() => {}
    }
    scene.gateway.close(run(1)).await;
    let ends = scene.ends().await;
    assert!(matches!(ends[..], [(Estimated, 0, 1.., 0, 1..)]), "{ends:?}");
}

#[tokio::test]
async fn a_close_ends_what_is_in_flight_and_waits_until_it_is_written() {
    let begun = messages("m", 100, 50);
    let begun = Bytes::from(begun[..begun.find("event: message_delta").unwrap()].to_owned());
    let kind = fake(move |_| {
        let first = stream::iter([Ok(begun.clone())]);
        Ok(Incoming { status: 200, headers: Vec::new(), body: first.chain(stream::pending()).boxed() })
    });
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, Vec::new()).await;
    // One that is read, and one that nobody reads.
    let mut read = scene.gateway.call(asks(1, 5_000)).await;
    let unread = scene.gateway.call(asks(1, 5_000)).await;
    assert!(read.body.next().await.unwrap().is_ok());
    let metered = scene.gateway.close(run(1)).await;
    let ends = scene.ends().await;
    assert!(ends.len() == 2 && ends.contains(&(Estimated, 200, 100, 2, 330)), "{ends:?}");
    assert_eq!(metered.usage.calls, 2);
    assert_eq!(cut(read).await.2, Some(Broken::Closed));
    assert_eq!(cut(unread).await.2, Some(Broken::Closed));
    assert_eq!(scene.ends().await, ends);
    // The end of all is the end of each.
    scene.open(2, Vec::new()).await;
    let answer = scene.gateway.call(asks(2, 5_000)).await;
    scene.gateway.end().await;
    assert_eq!(scene.ends().await.len(), 3);
    drop(answer);
}

#[tokio::test]
async fn a_call_that_cannot_be_written_down_does_not_leave() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let kind = fake(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(streams(vec![Ok(Bytes::from(messages("m", 10, 20)))]))
    });
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, vec![(flow(1), usd(100_000))]).await;
    let full = || StoreError::Full { operation: "reserve", source: "disk full".into() };
    scene.ledger.set_faults(Box::new(move |name| if name == "reserve" { Fault::Before(full()) } else { Fault::None }));
    let (status, text) = whole(scene.gateway.call(asks(1, 5_000)).await).await;
    assert!(status == 500 && text.contains("no space left"), "{status} {text}");
    assert_eq!(sent.load(Ordering::SeqCst), 0);
    // Nothing stays set aside.
    scene.ledger.set_faults(Box::new(|_| Fault::None));
    assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await.0, 200);
    scene.gateway.close(run(1)).await;
    assert_eq!(scene.ends().await, [(Settled, 200, 10, 20, HELLO)]);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_is_written_again_until_it_is_there_and_counts_once() {
    let scene = Scene::new(vec![provider("p", hello())]).await;
    scene.open(1, Vec::new()).await;
    let mut failures = 3;
    scene.ledger.set_faults(Box::new(move |name| {
        if name != "settle" || failures == 0 {
            return Fault::None;
        }
        failures -= 1;
        let error = StoreError::Full { operation: "settle", source: "disk full".into() };
        if failures == 0 { Fault::After(error) } else { Fault::Before(error) }
    }));
    assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await.0, 200);
    let metered = scene.gateway.close(run(1)).await;
    assert_eq!((metered.usage.calls, scene.ends().await), (1, vec![(Settled, 200, 10, 20, HELLO)]));
}

#[tokio::test]
async fn what_nobody_settled_is_lost_with_its_whole_reservation() {
    let kind = fake(|_| Ok(Incoming { status: 200, headers: Vec::new(), body: stream::pending().boxed() }));
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, vec![(flow(1), usd(1_000_000))]).await;
    let answer = scene.gateway.call(asks(1, 5_000)).await;
    // The instance dies here, and the next one says so.
    assert_eq!(scene.lose().await, 1);
    let reserved = scene.calls().await[0].reservation.micros.as_micros();
    assert!(reserved > 75_000, "{reserved}");
    assert_eq!(scene.spent(flow(1)).await, (reserved, 0));
    drop(answer);
    scene.gateway.close(run(1)).await;
    assert_eq!(scene.spent(flow(1)).await, (reserved, 0));
}

#[tokio::test]
async fn a_run_opens_only_where_somebody_can_answer_it() {
    let http = |credential| {
        let base_url = "http://127.0.0.1:9".to_owned();
        ProviderKind::Http(HttpShape { base_url, credential })
    };
    let missing = http(Credential::Missing { hint: "set ANTHROPIC_API_KEY".to_owned() });
    let scene = Scene::new(vec![provider("p", missing)]).await;
    let error = scene.try_open("other").await.unwrap_err();
    assert!(matches!(&error, OpenError::Model { model } if model == "other"), "{error}");
    let error = scene.try_open("m-1").await.unwrap_err();
    assert_eq!(error.to_string(), "the provider `p` has no key: set ANTHROPIC_API_KEY");
    // Whoever names no model may still be told at each call.
    let door = scene.try_open("").await.unwrap();
    assert_eq!(scene.try_open("").await.unwrap(), door);
    let (status, text) = whole(scene.gateway.call(asks(1, 5_000)).await).await;
    assert!(status == 403 && text.contains("set ANTHROPIC_API_KEY"), "{status} {text}");
    scene.gateway.close(run(1)).await;
    assert_eq!(scene.ends().await, [(Settled, 0, 0, 0, 0)]);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_counts_as_all_that_was_set_aside() {
    let kind = fake(|_| Ok(says(200, &[("content-encoding", "br")], "\u{1}\u{2}\u{3}")));
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, vec![(flow(1), usd(1_000_000))]).await;
    assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await.0, 200);
    scene.gateway.close(run(1)).await;
    let reserved = scene.calls().await[0].reservation.micros.as_micros();
    assert_eq!(scene.spent(flow(1)).await, (reserved, 0));
}

#[tokio::test]
async fn what_a_provider_cannot_do_at_all_is_said_once() {
    let kind = fake(|_| Err(SendError::Unable { why: "no script fits".to_owned() }));
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, Vec::new()).await;
    let (status, text) = whole(scene.gateway.call(asks(1, 5_000)).await).await;
    assert!(status == 403 && text.contains("no script fits"), "{status} {text}");
}
