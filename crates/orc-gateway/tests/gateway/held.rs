//! What providers do not take: held, tried again, parked; minutes pass in no time, because nothing here is outside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use orc_domain::ledger::EntryKind::{Estimated, Settled};
use orc_domain::model::Want;
use orc_gateway::provider::{Incoming, Outgoing, SendError};
use orc_gateway::{ProviderKind, RateLimits};
use orc_ports::gateway::{Gateway, Notice, Request};
use tokio::time::Instant;

use crate::fixture::{
    Fake, Scene, asks, beside, fake, flow, messages, overloaded, provider, run, says, streams, usd, whole,
};

fn hello() -> Incoming {
    streams(vec![Ok(Bytes::from(messages("m", 10, 20)))])
}

const HELLO: i64 = 30 + 300;

/// Answers what stands in the list, then hello; with how often it was asked.
fn list(answers: Vec<fn() -> Result<Incoming, SendError>>) -> (ProviderKind, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let kind = fake(move |_| {
        let at = counted.fetch_add(1, Ordering::SeqCst);
        answers.get(at).map_or_else(|| Ok(hello()), |answer| answer())
    });
    (kind, asked)
}

fn silent() -> Result<Incoming, SendError> {
    Err(SendError::Silent { provider: "p".to_owned(), why: "connection reset".to_owned() })
}

fn unreachable() -> Result<Incoming, SendError> {
    Err(SendError::Unreachable { provider: "p".to_owned(), why: "connection refused".to_owned() })
}

#[tokio::test(start_paused = true)]
async fn what_passes_within_a_minute_is_never_seen_by_a_program() {
    for failure in [
        || Ok(overloaded()),
        || Ok(says(429, &[("retry-after", "5")], "{}")),
        || Ok(says(429, &[("retry-after", "Tue, 01 Dec 2026 10:00:07 GMT")], "")),
        || Ok(says(429, &[], "slow down")),
        || Ok(says(500, &[], "<html>")),
        || Ok(says(502, &[], "")),
        || Ok(says(503, &[], "")),
        || Ok(says(504, &[], "")),
        || Ok(says(520, &[], "")),
        unreachable,
    ] {
        let (kind, asked) = list(vec![failure; 3]);
        let scene = Scene::new(vec![provider("p", kind)]).await;
        scene.open(1, vec![(flow(1), usd(100_000))]).await;
        assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await, (200, messages("m", 10, 20)));
        assert_eq!(asked.load(Ordering::SeqCst), 4);
        scene.gateway.close(run(1)).await;
        // It was one call, whatever it took.
        assert_eq!(scene.ends().await, [(Settled, 200, 10, 20, HELLO)]);
        assert!(matches!(scene.notices()[..], [Notice::Used(_)]), "{:?}", scene.notices());
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_time_is_waited_for() {
    let (kind, asked) = list(vec![|| Ok(says(429, &[("retry-after", "40")], "{}"))]);
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, Vec::new()).await;
    let began = Instant::now();
    assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await.0, 200);
    let took = began.elapsed();
    assert!((Duration::from_secs(40)..Duration::from_secs(42)).contains(&took), "{took:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_taken_is_sent_again_as_another_call() {
    let (kind, asked) = list(vec![silent, silent]);
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, vec![(flow(1), usd(1_000_000))]).await;
    assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await.0, 200);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    scene.gateway.close(run(1)).await;
    let ends = scene.ends().await;
    let [(Estimated, 0, 1.., 0, first), (Estimated, 0, 1.., 0, second), (Settled, 200, 10, 20, HELLO)] = ends[..]
    else {
        panic!("{ends:?}")
    };
    assert_eq!(scene.spent(flow(1)).await, (first + second + HELLO, 0));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_busy_for_fourteen_minutes_parks_its_key_and_its_runs_go_on_later() {
    let (sent, busy) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (counted, still) = (sent.clone(), busy.clone());
    let kind = fake(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        if still.load(Ordering::SeqCst) { Ok(overloaded()) } else { Ok(hello()) }
    });
    let scene = Arc::new(Scene::new(vec![provider("p", kind)]).await);
    let began = Instant::now();
    let end = Duration::from_secs(14 * 60);
    // Ten runs that ask, and ask again when they are told that the provider is busy.
    let runs = (1..=10_u128).map(|number| {
        let (scene, busy) = (scene.clone(), busy.clone());
        async move {
            scene.open(number, vec![(flow(1), usd(10_000_000))]).await;
            let mut told = 0;
            loop {
                if began.elapsed() > end {
                    busy.store(false, Ordering::SeqCst);
                }
                let answer = scene.gateway.call(asks(number, 5_000)).await;
                let after = answer.headers.iter().find(|(name, _)| name == "retry-after").cloned();
                let (status, text) = whole(answer).await;
                if status == 200 {
                    return told;
                }
                assert!(status == 529 && text.contains("overloaded_error: Overloaded"), "{status} {text}");
                assert!(after.is_some_and(|(_, seconds)| seconds.parse::<u64>().unwrap() >= 1));
                told += 1;
            }
        }
    });
    let told: Vec<u32> = futures_util::future::join_all(runs).await;
    assert!(told.iter().all(|told| (1..=20).contains(told)), "{told:?}");
    let asked = sent.load(Ordering::SeqCst);
    assert!((20..60).contains(&asked), "{asked}");
    let notices = scene.heard.borrow().clone();
    for number in 1..=10 {
        let first = notices.iter().find_map(|(of, notice)| match notice {
            Notice::Parked { provider, until, why } if *of == run(number) => {
                Some((provider.clone(), *until, why.clone()))
            }
            _ => None,
        });
        let (provider, _, why) = first.unwrap();
        assert!(provider == "p" && why == "status 529, overloaded_error: Overloaded", "{why}");
        // All is well at the end.
        assert_eq!(scene.gateway.close(run(number)).await.parked, None);
    }
    let answered = scene.ends().await.into_iter().filter(|end| *end == (Settled, 200, 10, 20, HELLO)).count();
    assert_eq!((answered, scene.spent(flow(1)).await), (10, (10 * HELLO, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_finds_its_key_parked_is_told_at_once_and_nothing_is_sent() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let kind = fake(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(says(429, &[("retry-after", "3600")], "{}"))
    });
    let scene = Scene::new(vec![provider("p", kind)]).await;
    for number in [1, 2] {
        scene.open(number, Vec::new()).await;
        let calling = beside(scene.gateway.call(asks(number, 5_000)));
        // It is told long before it is answered; then its flow stops it, and it is answered.
        scene.hears_of_parking(number).await;
        let metered = scene.gateway.close(run(number)).await;
        assert!(matches!(metered.parked, Some((ref provider, _)) if provider == "p"), "{metered:?}");
        assert_eq!(whole(calling.await.unwrap()).await.0, 401);
    }
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    // What is never sent is no call.
    assert_eq!(scene.ends().await, [(Settled, 429, 0, 0, 0)]);
    // Whoever is not stopped is answered after a minute.
    scene.open(3, Vec::new()).await;
    let began = Instant::now();
    let (status, text) = whole(scene.gateway.call(asks(3, 5_000)).await).await;
    assert_eq!((status, began.elapsed().as_secs()), (529, 60), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_takes_nothing_from_others() {
    // One key is parked, another is not: runs of the one do not keep money from runs of the other.
    let parked = fake(|_| Ok(says(429, &[("retry-after", "3600")], "{}")));
    let mut one = provider("one", parked);
    one.models = vec!["m-1".to_owned()];
    let two = provider("two", fake(|_| Ok(hello())));
    let scene = Scene::new(vec![one, two]).await;
    // Enough for one call in flight.
    scene.open(1, vec![(flow(1), usd(100_000))]).await;
    let held = beside(scene.gateway.call(asks(1, 5_000)));
    scene.hears_of_parking(1).await;
    let mut other = asks(1, 5_000);
    other.body = Bytes::from(String::from_utf8(other.body.to_vec()).unwrap().replace("m-1", "m-2"));
    let began = Instant::now();
    assert_eq!(whole(scene.gateway.call(other).await).await.0, 200);
    assert!(began.elapsed() < Duration::from_secs(1));
    scene.gateway.close(run(1)).await;
    held.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_request_that_always_fails_ends_alone() {
    let kind = fake(|outgoing| {
        let is_bad = String::from_utf8_lossy(&outgoing.body).contains("\"max_tokens\":6000");
        if is_bad { Ok(says(500, &[], "{}")) } else { Ok(hello()) }
    });
    let scene = Arc::new(Scene::new(vec![provider("p", kind)]).await);
    scene.open(1, Vec::new()).await;
    let bad = beside(scene.gateway.call(asks(1, 6_000)));
    let mut others = 0;
    while !bad.is_finished() {
        assert_eq!(whole(scene.gateway.call(asks(1, 5_000)).await).await.0, 200);
        others += 1;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let (status, text) = whole(bad.await.unwrap()).await;
    assert!(status == 529 && text.contains("while it answered others"), "{status} {text}");
    assert!(others > 100, "{others}");
    assert!(!scene.notices().iter().any(|notice| matches!(notice, Notice::Parked { .. })));
}

/// Holds each call until it is told to answer; how many are there, and the most that were at once.
fn slow(each: Duration) -> (ProviderKind, Arc<Mutex<(usize, usize)>>) {
    let there = Arc::new(Mutex::new((0, 0)));
    let counted = there.clone();
    let kind = Fake(move |_: Outgoing| {
        let there = counted.clone();
        async move {
            {
                let mut there = there.lock().unwrap();
                there.0 += 1;
                there.1 = there.1.max(there.0);
            }
            tokio::time::sleep(each).await;
            there.lock().unwrap().0 -= 1;
            Ok(hello())
        }
        .boxed()
    });
    (ProviderKind::Made(Arc::new(kind)), there)
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_key_hold_for_all_runs_and_nobody_is_turned_away() {
    let (kind, there) = slow(Duration::from_secs(10));
    let mut shape = provider("p", kind);
    shape.limits = RateLimits { concurrency: Some(3), requests: Some(30), tokens: None };
    let scene = Scene::new(vec![shape]).await;
    let began = Instant::now();
    let calls = (1..=40).map(|number| {
        let scene = &scene;
        async move {
            scene.open(number, Vec::new()).await;
            whole(scene.gateway.call(asks(number, 5_000)).await).await.0
        }
    });
    let statuses = futures_util::future::join_all(calls).await;
    assert!(statuses.iter().all(|status| *status == 200));
    assert_eq!(there.lock().unwrap().1, 3);
    // 40 calls of ten seconds, three at once.
    assert_eq!(began.elapsed().as_secs(), 140);
}

#[tokio::test(start_paused = true)]
async fn what_costs_nothing_is_held_and_limited_alike() {
    let (kind, asked) = list(vec![|| Ok(overloaded()), unreachable, silent]);
    let scene = Scene::new(vec![provider("p", kind)]).await;
    scene.open(1, Vec::new()).await;
    let count = Request { want: Want::Count, ..asks(1, 5_000) };
    assert_eq!(whole(scene.gateway.call(count).await).await.0, 200);
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    assert!(scene.calls().await.is_empty());
}
