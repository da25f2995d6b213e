//! A wall with twenty programs before it that ask for all they can get, and a provider that uses what it likes of that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use orc_domain::ledger::EntryKind;
use orc_domain::model::Tokens;
use orc_gateway::ProviderKind;
use orc_gateway::provider::{Incoming, Outgoing, SendError};
use orc_ports::gateway::{Broken, Gateway, Notice};
use orc_ports::ledger::CostReader;
use proptest::prelude::*;

use crate::fixture::{Fake, Scene, asks, flow, messages, price, provider, run, usd};

/// What becomes of one call.
#[derive(Clone, Copy, Debug)]
struct Fate {
    /// Thousandths of the output that it may have.
    output: u64,
    /// How often others have their turn before it is answered.
    waits: usize,
    /// Where its stream is cut, in thousandths; beyond 1,000 it is not.
    cut: u64,
    /// After how many pieces its program hangs up; beyond what there are it does not.
    hangs_up: usize,
    /// Whether it fails, and how, before it is answered.
    failure: u8,
}

fn fate() -> impl Strategy<Value = Fate> {
    (0_u64..=1_000, 0_usize..6, 0_u64..2_500, 0_usize..60, 0_u8..20)
        .prop_map(|(output, waits, cut, hangs_up, failure)| Fate { output, waits, cut, hangs_up, failure })
}

async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Uses what the fates say, and remembers what it told whole.
fn provided(fates: Vec<Fate>, told: Arc<Mutex<Vec<(String, u64, u64)>>>) -> ProviderKind {
    let next = Arc::new(AtomicU64::new(0));
    ProviderKind::Made(Arc::new(Fake(move |outgoing: Outgoing| {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let fate = fates[usize::try_from(number).unwrap() % fates.len()];
        let told = told.clone();
        async move {
            turns(fate.waits).await;
            match fate.failure {
                0 => return Ok(crate::fixture::overloaded()),
                1 => return Err(SendError::Silent { provider: "p".to_owned(), why: "reset".to_owned() }),
                2 => return Ok(crate::fixture::says(400, &[], "{}")),
                _ => {}
            }
            let body: serde_json::Value = serde_json::from_slice(&outgoing.body).unwrap();
            let most = body["max_tokens"].as_u64().unwrap();
            let output = (most * fate.output / 1_000).max(1);
            let input = u64::try_from(outgoing.body.len()).unwrap() / 3;
            let id = format!("msg_{number}");
            let text = messages(&id, input, output);
            told.lock().unwrap().push((id, input, output));
            let end = text.len() * usize::try_from(fate.cut.min(1_000)).unwrap() / 1_000;
            let mut pieces: Vec<Result<Bytes, Broken>> =
                text.as_bytes()[..end].chunks(40).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            if fate.cut < 1_000 {
                pieces.push(Err(Broken::Cut { why: "reset".to_owned() }));
            }
            let body = stream::iter(pieces).then(|piece| async {
                turns(1).await;
                piece
            });
            Ok(Incoming { status: 200, headers: Vec::new(), body: body.boxed() })
        }
        .boxed()
    })))
}

async fn check(fates: Vec<Fate>, wall: i64) {
    let told = Arc::default();
    let scene = Scene::new(vec![provider("p", provided(fates.clone(), Arc::clone(&told)))]).await;
    let started = AtomicU64::new(0);
    let programs = (1..=20_u128).map(|number| {
        let (scene, fates, started) = (&scene, &fates, &started);
        async move {
            scene.open(number, vec![(flow(1), usd(wall))]).await;
            loop {
                let at = started.fetch_add(1, Ordering::SeqCst);
                let fate = fates[usize::try_from(at).unwrap() % fates.len()];
                let mut answer = scene.gateway.call(asks(number, 128_000)).await;
                if answer.status == 403 {
                    return;
                }
                for _ in 0..fate.hangs_up {
                    if answer.body.next().await.is_none() {
                        break;
                    }
                }
                drop(answer);
                let (spent, _) = scene.spent(flow(1)).await;
                assert!(spent <= wall, "{spent} of {wall}");
            }
        }
    });
    futures_util::future::join_all(programs).await;
    let mut used = 0;
    for number in 1..=20 {
        used += scene.gateway.close(run(number)).await.usage.cost.as_micros();
    }
    let sum = scene.ledger.spent(flow(1)).await.unwrap();
    assert_eq!((sum.in_flight, sum.reserved.as_micros(), sum.micros.as_micros()), (0, 0, used));
    assert!(used <= wall, "{used} of {wall}");
    // Whoever was turned away could not have had a short answer: 4,096 tokens of output, and the worst of its input.
    let request = i64::try_from(asks(1, 128_000).body.len()).unwrap();
    let small = 4_096 * 15 + (2_000 + request) * 6 + 1;
    assert!(used >= wall - small, "{used} of {wall}, an answer is {small}");
    let told = told.lock().unwrap().clone();
    check_figures(&scene, &told).await;
    assert!(scene.notices().iter().any(|notice| matches!(notice, Notice::Refused(_))));
}

/// What is settled is what the provider told, to the unit.
async fn check_figures(scene: &Scene, told: &[(String, u64, u64)]) {
    for record in scene.calls().await {
        let end = record.end.unwrap();
        let settlement = end.settlement.unwrap();
        assert!(settlement.micros <= record.reservation.micros, "{settlement:?}");
        assert!(settlement.tokens.total() <= record.reservation.tokens, "{settlement:?}");
        if end.kind == EntryKind::Settled && settlement.status == 200 {
            let (_, input, output) = told.iter().find(|(id, ..)| Some(id) == settlement.message.as_ref()).unwrap();
            let tokens = Tokens { input: *input, output: *output, ..Tokens::default() };
            assert_eq!((settlement.tokens, settlement.micros), (tokens, price().cost(tokens)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn spend_comes_close_to_a_wall_and_never_crosses_it(
        fates in prop::collection::vec(fate(), 20..60),
        wall in 200_000_i64..20_000_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(check(fates, wall));
    }
}
