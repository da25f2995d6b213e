//! Long random sequences against the model, whose every sum is a fold: each answer is the same, and so is all that is told.

use orc_domain::ledger::{CostsBy, EntryKind, Reservation, Settlement};
use orc_domain::meter::Owner;
use orc_domain::model::Tokens;
use orc_domain::money::UsdMicros;
use orc_domain::time::Timestamp;
use orc_ports::ledger::CostFilter;
use orc_ports::store::{Guarded, Instance};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::calls::{DAY, call_id, flow, reservation, run, settlement};
use super::{Books, Place};
use crate::conformance::store::scene::{at, instance_id};
use crate::model::Model;

const STEPS: u32 = 1_500;
const CALLS: u32 = 220;
const INSTANCES: u32 = 3;
const RUNS: u32 = 5;

/// The ledger answers as the model does, call by call, and tells the same.
pub async fn sums_are_a_fold_of_the_entries(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    let mut model = Model::default();
    let mut dice = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut roll = move |sides: u32| dice.next_u32() % sides;
    let mut begun = 0;
    let mut reached = Vec::new();
    for step in 0..STEPS {
        let number = roll(CALLS);
        let instance = instance_id(roll(INSTANCES));
        match roll(40) {
            0 => {
                let (wanted, got) = (model.lose(instance, at(9)), ledger.lose(instance, at(9)).await);
                assert_eq!(got.expect("an answer"), wanted, "step {step}");
            }
            1 if begun < INSTANCES => {
                let id = instance_id(begun);
                let instance = Instance { id, pid: 7, command: "run".to_owned(), began_at: at(0) };
                model.instance_begin(instance.clone()).expect("it is new");
                ledger.instance_begin(instance).await.expect("it is new");
                begun += 1;
            }
            // The last one lives to the end.
            2 if begun == INSTANCES && instance != instance_id(INSTANCES - 1) => {
                let wanted = model.instance_end(instance, at(9));
                assert_eq!(ledger.instance_end(instance, at(9)).await.expect("an answer"), wanted, "step {step}");
            }
            3..20 => {
                let settled = random_settlement(number, &mut roll);
                let wanted = model.settle(settled.clone()).expect("a kind that settlements have");
                assert_eq!(ledger.settle(settled).await.expect("an answer"), wanted, "step {step}");
                reached.push(wanted);
            }
            20..23 => {
                let (by, filter, limit) = random_question(&mut roll);
                let wanted = model.costs(&by, &filter, limit);
                let got = ledger.costs(by.clone(), filter.clone(), limit).await.expect("costs");
                assert_eq!(got, wanted, "step {step}: by {by:?}, {filter:?}, {limit}");
                let before = (roll(2) == 0).then(|| call_id(roll(CALLS)));
                let got = ledger.calls(filter.clone(), before, limit).await.expect("calls");
                assert_eq!(got, model.calls(&filter, before, limit), "step {step}: {filter:?}, {before:?}, {limit}");
            }
            _ => {
                let reserved = Reservation { instance, ..random_reservation(number, &mut roll) };
                let (wanted, got) = (model.reserve(reserved.clone()), ledger.reserve(reserved).await);
                assert_eq!(got.is_err(), wanted.is_err(), "step {step}: {got:?}, {wanted:?}");
                assert_eq!(got.ok(), wanted.as_ref().ok().copied(), "step {step}");
            }
        }
        if step % 50 == 0 {
            compare(ledger, &model).await;
        }
    }
    compare(ledger, &model).await;
    for kind in [Guarded::Updated, Guarded::Stale, Guarded::Missing] {
        assert!(reached.contains(&kind), "the sequence reached {kind:?}");
    }
    let (_, total) = model.costs(&[], &CostFilter::default(), 1);
    assert!(total.in_flight > 0 && total.lost_tokens > 0 && total.unpriced > 0 && total.calls > 30, "{total:?}");
}

/// Below every wall the same was spent, and told by everything at once it is the same.
async fn compare(ledger: &dyn Books, model: &Model) {
    let owners = (0..RUNS).flat_map(|number| [Owner::Run(run(number)), Owner::Flow(flow(number))]);
    for owner in owners.chain([Owner::Gateway, Owner::Flow(flow(90))]) {
        assert_eq!(ledger.spent(owner).await.expect("sums"), model.spent(owner), "{owner:?}");
    }
    let all = CostsBy::ALL.to_vec();
    let got = ledger.costs(all.clone(), CostFilter::default(), 10_000).await.expect("costs");
    assert_eq!(got, model.costs(&all, &CostFilter::default(), 10_000));
}

/// Mostly the usual, sometimes something missing.
fn random_reservation(number: u32, roll: &mut impl FnMut(u32) -> u32) -> Reservation {
    let mut reserved = reservation(number, roll(RUNS));
    reserved.account.agent = ["writer", "reader", "ünïque"][roll(3) as usize].to_owned();
    reserved.model = ["large-1", "small-1"][roll(2) as usize].to_owned();
    reserved.provider = ["main", "other"][roll(2) as usize].to_owned();
    reserved.account.ticket = [None, Some("T-1"), Some("T-2")][roll(3) as usize].map(str::to_owned);
    if roll(4) == 0 {
        (reserved.account.run, reserved.account.flow, reserved.account.pipeline) = (None, None, None);
    }
    if roll(3) == 0 {
        reserved.prices = None;
    }
    if roll(3) == 0 {
        reserved.above = vec![Owner::Flow(flow(90))];
    }
    reserved.micros = UsdMicros::from_micros(i64::from(roll(5)) * 1_000);
    reserved.tokens = u64::from(roll(9_000));
    reserved.at = moment(roll);
    reserved
}

fn random_settlement(number: u32, roll: &mut impl FnMut(u32) -> u32) -> Settlement {
    let kind = if roll(4) == 0 { EntryKind::Estimated } else { EntryKind::Settled };
    let mut count = || u64::from(roll(50));
    let tokens = Tokens {
        input: count(),
        cache_read: count(),
        cache_write: count(),
        cache_write_long: count(),
        output: count(),
        reasoning: count(),
        server_tools: count(),
    };
    let micros = UsdMicros::from_micros(i64::from(roll(4)) * 500);
    Settlement { kind, tokens, micros, message: (roll(2) == 0).then(|| "msg_1".to_owned()), ..settlement(number, 0) }
}

/// In one of four days; now and then exactly at the beginning of one.
fn moment(roll: &mut impl FnMut(u32) -> u32) -> Timestamp {
    let day = i64::from(roll(4)) * DAY;
    let within = if roll(4) == 0 { 0 } else { i64::from(roll(86_400_000)) };
    Timestamp::from_millis(1_700_006_400_000 + day + within)
}

fn random_question(roll: &mut impl FnMut(u32) -> u32) -> (Vec<CostsBy>, CostFilter, u32) {
    let mut by = Vec::new();
    for one in CostsBy::ALL {
        if roll(4) == 0 {
            by.insert(roll(u32::try_from(by.len()).expect("a few") + 1) as usize, one);
        }
    }
    let values = [
        (CostsBy::Agent, "ünïque".to_owned()),
        (CostsBy::Model, "small-1".to_owned()),
        (CostsBy::Ticket, "T-1".to_owned()),
        (CostsBy::Day, "2023-11-16".to_owned()),
        (CostsBy::Flow, flow(1).to_string()),
        (CostsBy::Run, run(2).to_string()),
        (CostsBy::Provider, "main".to_owned()),
        (CostsBy::Pipeline, "ship".to_owned()),
    ];
    let mut filter = CostFilter::default();
    for value in values {
        if roll(6) == 0 {
            filter.only.push(value);
        }
    }
    filter.since = (roll(2) == 0).then(|| moment(roll));
    filter.before = (roll(2) == 0).then(|| moment(roll));
    (by, filter, [1, 3, 1_000][roll(3) as usize])
}
