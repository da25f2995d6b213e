//! A stream that is cut at every byte, in pieces of every size: it passes as it came, and what it used is settled.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use orc_domain::ledger::EntryKind;
use orc_domain::ledger::EntryKind::{Estimated, Settled};
use orc_gateway::provider::Incoming;
use orc_ports::gateway::{Broken, Gateway};

use crate::fixture::{Scene, asks, cut, fake, flow, messages, provider, run, streams, usd};

fn broken() -> Broken {
    Broken::Cut { why: "connection reset".to_owned() }
}

#[tokio::test]
async fn a_stream_cut_at_every_byte_is_passed_on_and_settled() {
    let text = messages("msg_1", 1_000, 200);
    let told = text.find("\"output_tokens\":200").unwrap();
    let over = text[told..].find("\n\n").unwrap() + told;
    // Each call is cut one byte later.
    let next = std::sync::atomic::AtomicUsize::new(0);
    let begun = text.clone();
    let kind = fake(move |_| {
        let at = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let piece = Bytes::copy_from_slice(&begun.as_bytes()[..at]);
        Ok(streams(vec![Ok(piece), Err(broken())]))
    });
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, vec![(flow(1), usd(1_000_000_000))]).await;
    for at in 0..=text.len() {
        let (status, passed, error) = cut(scene.gateway.call(asks(1, 5_000)).await).await;
        assert_eq!((status, passed.as_str(), error), (200, &text[..at], Some(broken())));
    }
    let usage = scene.gateway.close(run(1)).await.usage;
    let calls = scene.calls().await;
    let mut sum = 0;
    for (at, record) in calls.iter().enumerate() {
        let end = record.end.as_ref().unwrap();
        let settlement = end.settlement.as_ref().unwrap();
        let wanted = if at >= over { Settled } else { Estimated };
        assert_eq!(end.kind, wanted, "cut at {at}: {}", &text[..at]);
        assert!(settlement.micros <= record.reservation.micros, "cut at {at}");
        assert!(settlement.tokens.total() <= record.reservation.tokens, "cut at {at}");
        if wanted == EntryKind::Settled {
            assert_eq!((settlement.tokens.input, settlement.tokens.output), (1_000, 200));
        }
        sum += settlement.micros.as_micros();
    }
    assert_eq!(calls.len(), text.len() + 1);
    assert_eq!((usage.cost.as_micros(), scene.spent(flow(1)).await), (sum, (sum, 0)));
}

#[tokio::test]
async fn pieces_of_every_size_give_the_same() {
    let text = messages("msg_1", 1_000, 200);
    for size in 1..=text.len() {
        let begun = text.clone();
        let kind = fake(move |_| {
            let pieces: Vec<_> = begun.as_bytes().chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            Ok(streams(pieces))
        });
        let scene = Scene::new(vec![provider("p", kind)]).await;
        scene.open(1, Vec::new()).await;
        let (_, passed, error) = cut(scene.gateway.call(asks(1, 5_000)).await).await;
        assert_eq!((passed, error), (text.clone(), None));
        scene.gateway.close(run(1)).await;
        assert_eq!(scene.ends().await, [(Settled, 200, 1_000, 200, 6_000)], "{size}");
    }
}

/// What a provider sends instead of an answer, and how its call ends.
#[tokio::test]
async fn whatever_comes_passes_and_is_settled_below_what_was_set_aside() {
    let twice = format!("{}{}", messages("same", 5, 6), messages("same", 5, 6));
    let no_usage = messages("m", 5, 6).replace("usage", "usages");
    let no_id = messages("", 5, 6);
    let carriage = messages("m", 5, 6).replace('\n', "\r");
    let marked = format!("\u{feff}{}", messages("m", 5, 6));
    let mut long = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"x\":\"".to_owned();
    long.push_str(&"y".repeat(50 << 20));
    long.push_str("\"}\n\n");
    long.push_str(&messages("m", 5, 6));
    for (name, body, kind) in [
        ("nothing", String::new(), Estimated),
        ("garbage", "\u{0}\u{1}garbage\n\n\u{fffd}".to_owned(), Estimated),
        ("a page", "<html><body>Please log in</body></html>".to_owned(), Estimated),
        ("half a json", "{\"type\":\"message\",".to_owned(), Estimated),
        ("the same message twice", twice, Settled),
        ("no usage", no_usage, Estimated),
        ("no id", no_id, Settled),
        ("carriage returns", carriage, Settled),
        ("a byte order mark", marked, Settled),
        ("a line of 50 MB", long, Settled),
    ] {
        let sent = body.clone();
        let provided = fake(move |_| {
            let pieces: Vec<_> =
                sent.as_bytes().chunks(64 << 10).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            // The header does not say what it is.
            let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
            Ok(Incoming { status: 200, headers, body: stream::iter(pieces).boxed() })
        });
        let scene = Scene::new(vec![provider("p", provided)]).await;
        scene.open(1, vec![(flow(1), usd(1_000_000))]).await;
        let (status, passed, error) = cut(scene.gateway.call(asks(1, 5_000)).await).await;
        assert!((status, error) == (200, None) && passed == body, "{name}");
        scene.gateway.close(run(1)).await;
        let record = &scene.calls().await[0];
        let settlement = record.end.as_ref().unwrap().settlement.as_ref().unwrap();
        assert_eq!(settlement.kind, kind, "{name}: {settlement:?}");
        assert!(settlement.micros <= record.reservation.micros, "{name}");
        if kind == Settled {
            assert_eq!((settlement.tokens.input, settlement.tokens.output), (5, 6), "{name}");
        }
    }
}
