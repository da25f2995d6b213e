//! What every [`Ledger`] does, as tests. [`crate::ledger_conformance!`] makes one test per property.
//!
//! Calls are numbered: their ids are in the order of their numbers. A property never looks behind the port.

pub mod calls;
mod sequence;

use std::sync::Arc;

use futures_util::future::{BoxFuture, join, join_all};
use orc_domain::ids::CallId;
use orc_domain::ledger::{CostsBy, EntryKind, MOST, Sum};
use orc_domain::meter::Owner;
use orc_domain::model::Tokens;
use orc_domain::money::UsdMicros;
use orc_domain::time::Timestamp;
use orc_ports::ledger::{CallRecord, CostFilter, Ledger};
use orc_ports::store::{Guarded, Store, StoreError};

use self::calls::{DAY, begin, call_id, ended, flow, lost, reservation, run, settlement};
use super::store::scene::{self, at, carry_on, create, done, finished, flow_id, instance_id, prepare};

pub use self::sequence::sums_are_a_fold_of_the_entries;

/// A store that keeps a ledger.
pub trait Books: Store + Ledger {}

impl<T: Store + Ledger> Books for T {}

/// Somewhere a store with a ledger lives.
pub trait Place: Send + Sync {
    /// Opens what is there; empty the first time. A store opened before was closed.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Books>>;
}

/// Makes a test of each property; the argument is an expression of a new [`Place`].
#[macro_export]
macro_rules! ledger_conformance {
    ($place:expr) => {
        $crate::ledger_conformance! { $place;
            a_call_counts_from_its_reservation_on
            a_call_is_reserved_once
            a_call_is_over_once
            of_two_ends_at_once_one_counts
            a_dead_instance_loses_its_calls
            an_instance_that_ends_loses_its_calls
            a_call_belongs_to_an_instance_that_lives
            a_call_counts_below_every_wall_above_it
            costs_are_told_by_anything
            costs_are_told_of_any_time
            calls_come_newest_first
            figures_have_a_bound
            removed_flows_leave_the_ledger_alone
            opening_again_finds_the_ledger
            sums_are_a_fold_of_the_entries
        }
    };
    ($place:expr; $($property:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $property() {
                $crate::conformance::ledger::$property(&$place).await;
            }
        )*
    };
}

/// Everything of the ledger that can be seen, for "nothing was written".
async fn everything(ledger: &dyn Books) -> (Vec<CallRecord>, Sum) {
    let calls = ledger.calls(CostFilter::default(), None, 10_000).await.expect("calls are read");
    let (_, sum) = ledger.costs(vec![CostsBy::Run], CostFilter::default(), 1).await.expect("costs are read");
    (calls, sum)
}

async fn spent(ledger: &dyn Books, owner: Owner) -> Sum {
    ledger.spent(owner).await.expect("sums are read")
}

const fn money(micros: i64) -> UsdMicros {
    UsdMicros::from_micros(micros)
}

/// What is set aside counts at once, and what was used in its place at the end.
pub async fn a_call_counts_from_its_reservation_on(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    let owner = Owner::Run(run(1));
    assert_eq!(spent(ledger, owner).await, Sum::default());
    for number in 1..=3 {
        assert_eq!(ledger.reserve(reservation(number, 1)).await.expect("an answer"), Guarded::Updated);
    }
    assert_eq!(spent(ledger, owner).await, Sum { reserved: money(3_000), in_flight: 3, ..Sum::default() });
    assert_eq!(ledger.settle(settlement(1, 400)).await.expect("an answer"), Guarded::Updated);
    let mut estimated = settlement(2, 70);
    estimated.kind = EntryKind::Estimated;
    estimated.message = None;
    assert_eq!(ledger.settle(estimated.clone()).await.expect("an answer"), Guarded::Updated);
    let two = settlement(1, 400).tokens.plus(estimated.tokens);
    let sum = Sum { calls: 2, tokens: two, micros: money(470), unsure: money(70), ..Sum::default() };
    assert_eq!(spent(ledger, owner).await, Sum { reserved: money(1_000), in_flight: 1, ..sum });
    let (calls, _) = everything(ledger).await;
    let wanted = [
        CallRecord { reservation: reservation(3, 1), end: None },
        CallRecord { reservation: reservation(2, 1), end: Some(ended(estimated)) },
        CallRecord { reservation: reservation(1, 1), end: Some(ended(settlement(1, 400))) },
    ];
    assert_eq!(calls, wanted);
}

/// A second reservation of a call is `Stale`, whatever it says, before and after its end.
pub async fn a_call_is_reserved_once(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    let again = async || {
        let before = everything(ledger).await;
        let mut other = reservation(1, 2);
        other.micros = money(1);
        for repeated in [reservation(1, 1), other] {
            assert_eq!(ledger.reserve(repeated).await.expect("an answer"), Guarded::Stale);
        }
        assert_eq!(everything(ledger).await, before);
    };
    let (one, two) = join(ledger.reserve(reservation(1, 1)), ledger.reserve(reservation(1, 1))).await;
    let answers = [one.expect("an answer"), two.expect("an answer")];
    assert!(answers.contains(&Guarded::Updated) && answers.contains(&Guarded::Stale), "{answers:?}");
    again().await;
    ledger.settle(settlement(1, 5)).await.expect("settled");
    again().await;
}

/// The first end of a call counts. One that nobody reserved has none. Names of answers may repeat.
pub async fn a_call_is_over_once(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    let settle = async |number, micros| ledger.settle(settlement(number, micros)).await.expect("an answer");
    assert_eq!(settle(1, 5).await, Guarded::Missing);
    assert_eq!(everything(ledger).await, (Vec::new(), Sum::default()));
    for number in [1, 2] {
        ledger.reserve(reservation(number, 1)).await.expect("reserved");
        let mut named = settlement(number, 5);
        named.message = Some("msg_1".to_owned());
        assert_eq!(ledger.settle(named).await.expect("an answer"), Guarded::Updated);
    }
    let before = everything(ledger).await;
    assert_eq!(settle(1, 5).await, Guarded::Stale);
    assert_eq!(settle(1, 7).await, Guarded::Stale);
    assert_eq!(ledger.lose(instance_id(1), at(9)).await.expect("an answer"), 0, "nothing is in flight");
    assert_eq!(everything(ledger).await, before);
    for kind in [EntryKind::Reserved, EntryKind::Lost] {
        let mut wrong = settlement(1, 5);
        wrong.kind = kind;
        let answer = ledger.settle(wrong).await;
        assert!(matches!(answer, Err(StoreError::Contract { .. })), "{answer:?}");
    }
}

/// Ends that are on their way at the same time: of each call one counts, also when its instance is ended meanwhile.
pub async fn of_two_ends_at_once_one_counts(place: &dyn Place) {
    const CALLS: u32 = 40;
    let ledger = place.open().await;
    begin(ledger.as_ref(), 1).await;
    let reserved = (0..CALLS).map(|number| ledger.reserve(reservation(number, 1)));
    assert!(join_all(reserved).await.into_iter().all(|answer| answer.expect("an answer") == Guarded::Updated));
    let ends =
        (0..CALLS).map(|number| join(ledger.settle(settlement(number, 3)), ledger.settle(settlement(number, 3))));
    let (answers, lost) = join(join_all(ends), ledger.lose(instance_id(1), at(9))).await;
    let lost = lost.expect("an answer");
    let mut settled = 0;
    for (one, two) in answers {
        match [one.expect("an answer"), two.expect("an answer")] {
            [Guarded::Updated, Guarded::Stale] | [Guarded::Stale, Guarded::Updated] => settled += 1,
            [Guarded::Stale, Guarded::Stale] => {}
            other => panic!("one end counts: {other:?}"),
        }
    }
    assert_eq!(settled + lost, u64::from(CALLS));
    let (_, sum) = everything(ledger.as_ref()).await;
    let micros = 3 * settled.cast_signed() + 1_000 * lost.cast_signed();
    assert_eq!((sum.calls, sum.micros, sum.in_flight), (u64::from(CALLS), money(micros), 0));
}

/// What was in flight counts as its whole reservation, and nothing that comes later changes that.
pub async fn a_dead_instance_loses_its_calls(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    begin(ledger, 2).await;
    for number in 1..=4 {
        let mut reserved = reservation(number, 1);
        reserved.instance = instance_id(if number == 4 { 2 } else { 1 });
        // One on the next day, one that nobody can price.
        reserved.at = if number == 2 { at(DAY) } else { reserved.at };
        reserved.prices = if number == 3 { None } else { reserved.prices };
        ledger.reserve(reserved).await.expect("reserved");
    }
    ledger.settle(settlement(1, 10)).await.expect("settled");
    assert_eq!(ledger.lose(instance_id(1), at(50)).await.expect("an answer"), 2);
    assert_eq!(ledger.lose(instance_id(1), at(60)).await.expect("an answer"), 0);
    assert_eq!(ledger.settle(settlement(2, 1)).await.expect("an answer"), Guarded::Stale);
    let sum = Sum {
        calls: 3,
        tokens: settlement(1, 10).tokens,
        lost_tokens: 2 * reservation(2, 1).tokens,
        micros: money(2_010),
        unsure: money(2_000),
        unpriced: 1,
        reserved: money(1_000),
        in_flight: 1,
    };
    assert_eq!(spent(ledger, Owner::Run(run(1))).await, sum);
    let (calls, total) = everything(ledger).await;
    assert_eq!(total, sum);
    assert_eq!(calls[2].end, Some(lost(at(50))), "call 2");
    assert_eq!(calls[0].end, None, "another instance goes on");
    assert_eq!(ledger.settle(settlement(4, 1)).await.expect("an answer"), Guarded::Updated);
}

/// The end of an instance and the loss of its calls are one write.
pub async fn an_instance_that_ends_loses_its_calls(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    ledger.reserve(reservation(1, 1)).await.expect("reserved");
    assert_eq!(ledger.instance_end(instance_id(2), at(5)).await.expect("an answer"), Guarded::Missing);
    assert_eq!(everything(ledger).await.1.in_flight, 1);
    assert_eq!(ledger.instance_end(instance_id(1), at(7)).await.expect("an answer"), Guarded::Updated);
    let (calls, sum) = everything(ledger).await;
    assert_eq!((calls[0].end.clone(), sum.in_flight, sum.unsure), (Some(lost(at(7))), 0, money(1_000)));
    assert_eq!(ledger.instance_end(instance_id(1), at(8)).await.expect("an answer"), Guarded::Stale);
    assert_eq!(everything(ledger).await, (calls, sum));
}

/// A call of nobody would never be lost, so nobody's calls are not reserved.
pub async fn a_call_belongs_to_an_instance_that_lives(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    for step in ["not begun", "over"] {
        let refused = ledger.reserve(reservation(1, 1)).await;
        assert!(matches!(refused, Err(StoreError::Contract { .. })), "{step}: {refused:?}");
        assert_eq!(everything(ledger).await, (Vec::new(), Sum::default()), "{step}");
        if step == "not begun" {
            begin(ledger, 1).await;
            ledger.instance_end(instance_id(1), at(1)).await.expect("ended");
        }
    }
}

/// Run, flow, flows above, and the gateway for what is of no run.
pub async fn a_call_counts_below_every_wall_above_it(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    let mut child = reservation(1, 1);
    child.above = vec![Owner::Run(run(1)), Owner::Flow(flow(1)), Owner::Flow(flow(8)), Owner::Flow(flow(8))];
    let mut alone = reservation(3, 1);
    (alone.account.run, alone.account.flow) = (None, None);
    for reserved in [child.clone(), reservation(2, 2), alone] {
        ledger.reserve(reserved).await.expect("reserved");
    }
    for number in 1..=3 {
        ledger.settle(settlement(number, 1 << number)).await.expect("settled");
    }
    let owners = [
        (Owner::Run(run(1)), 2),
        (Owner::Run(run(2)), 4),
        (Owner::Flow(flow(1)), 2),
        (Owner::Flow(flow(2)), 4),
        (Owner::Flow(flow(8)), 2),
        (Owner::Flow(flow(9)), 0),
        (Owner::Gateway, 8),
    ];
    for (owner, micros) in owners {
        assert_eq!(spent(ledger, owner).await.micros, money(micros), "{owner:?}");
    }
    // What it cost is told of its own flow only, so that lines add up.
    let (lines, total) = ledger.costs(vec![CostsBy::Flow], CostFilter::default(), 9).await.expect("costs");
    let lines: Vec<_> = lines.into_iter().map(|line| (line.by[0].clone(), line.sum.micros.as_micros())).collect();
    let wanted = [(None, 8), (Some(flow(2).to_string()), 4), (Some(flow(1).to_string()), 2)];
    assert_eq!((lines.as_slice(), total.micros), (wanted.as_slice(), money(14)));
    let (calls, _) = everything(ledger).await;
    assert_eq!(calls[2].reservation, child, "it is read as it was written");
}

/// Every dimension alone and together; the dearest first; the sum is of all lines.
pub async fn costs_are_told_by_anything(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    for (number, agent, model, ticket, micros) in [
        (1, "writer", "small", None, 5),
        (2, "writer", "large", Some("T-1"), 9),
        (3, "reader", "small", Some("T-1"), 9),
    ] {
        let mut reserved = reservation(number, number);
        reserved.account.agent = agent.to_owned();
        reserved.account.ticket = ticket.map(str::to_owned);
        reserved.model = model.to_owned();
        ledger.reserve(reserved).await.expect("reserved");
        ledger.settle(settlement(number, micros)).await.expect("settled");
    }
    let costs = async |by: &[CostsBy], only: &[(CostsBy, &str)], limit| {
        let only = only.iter().map(|(by, value)| (*by, (*value).to_owned())).collect();
        let filter = CostFilter { only, ..CostFilter::default() };
        let (lines, total) = ledger.costs(by.to_vec(), filter, limit).await.expect("costs");
        let line = |line: orc_ports::ledger::CostLine| {
            let values: Vec<String> =
                line.by.into_iter().map(|value| value.unwrap_or_else(|| "-".to_owned())).collect();
            format!("{} {}", values.join(" "), line.sum.micros.as_micros())
        };
        (lines.into_iter().map(line).collect::<Vec<_>>().join(", "), total.micros.as_micros())
    };
    let told = |lines: &str, total| (lines.to_owned(), total);
    assert_eq!(costs(&[CostsBy::Agent], &[], 9).await, told("writer 14, reader 9", 23));
    assert_eq!(costs(&[CostsBy::Agent], &[], 1).await, told("writer 14", 23));
    assert_eq!(costs(&[CostsBy::Agent], &[], 0).await, told("", 23));
    assert_eq!(costs(&[CostsBy::Ticket], &[], 9).await, told("T-1 18, - 5", 23));
    // Equal ones in the order of their values, agents before models however they are asked for.
    let both = [CostsBy::Model, CostsBy::Agent];
    assert_eq!(costs(&both, &[], 9).await, told("small reader 9, large writer 9, small writer 5", 23));
    assert_eq!(costs(&[], &[], 9).await, told(" 23", 23));
    assert_eq!(costs(&[CostsBy::Model], &[(CostsBy::Agent, "writer")], 9).await, told("large 9, small 5", 14));
    assert_eq!(costs(&[CostsBy::Day, CostsBy::Provider], &[], 9).await, told("2023-11-14 main 23", 23));
    let run = run(3).to_string();
    let narrow = [(CostsBy::Run, run.as_str()), (CostsBy::Pipeline, "ship"), (CostsBy::Day, "2023-11-14")];
    assert_eq!(costs(&[CostsBy::Flow], &narrow, 9).await, told(&format!("{} 9", flow(3)), 9));
    for nothing in [
        [(CostsBy::Agent, "writer"), (CostsBy::Agent, "reader")],
        [(CostsBy::Day, "yesterday"), (CostsBy::Agent, "writer")],
        [(CostsBy::Ticket, ""), (CostsBy::Agent, "writer")],
    ] {
        assert_eq!(costs(&[CostsBy::Agent], &nothing, 9).await, told("", 0), "{nothing:?}");
    }
}

/// A call counts when it was reserved, to the millisecond, however long it takes.
pub async fn costs_are_told_of_any_time(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    // Day 0 begins at 0; call n costs 2^n.
    let times = [-1, 0, 1, DAY - 1, DAY, DAY + 7, 2 * DAY, 3 * DAY - 1, 3 * DAY];
    let moment = |millis: i64| Timestamp::from_millis(1_700_006_400_000 + millis);
    for (number, millis) in (0..).zip(times) {
        let mut reserved = reservation(number, number % 2);
        reserved.at = moment(millis);
        ledger.reserve(reserved).await.expect("reserved");
        let mut settled = settlement(number, 1 << number);
        settled.at = moment(millis + 2 * DAY);
        ledger.settle(settled).await.expect("settled");
    }
    let edges =
        [None, Some(-5), Some(0), Some(1), Some(DAY - 1), Some(DAY), Some(DAY + 3), Some(2 * DAY), Some(3 * DAY)];
    for since in edges {
        for before in edges {
            let filter = CostFilter { since: since.map(moment), before: before.map(moment), only: Vec::new() };
            let is_meant = |at: i64| since.is_none_or(|since| at >= since) && before.is_none_or(|before| at < before);
            let wanted: i64 = (0..).zip(times).filter(|(_, at)| is_meant(*at)).map(|(number, _)| 1 << number).sum();
            let (lines, total) = ledger.costs(vec![CostsBy::Day], filter.clone(), 99).await.expect("costs");
            let sum: i64 = lines.iter().map(|line| line.sum.micros.as_micros()).sum();
            assert_eq!((total.micros.as_micros(), sum), (wanted, wanted), "{since:?} {before:?}");
            let calls = ledger.calls(filter, None, 99).await.expect("calls");
            assert_eq!(calls.len() as u32, wanted.count_ones(), "{since:?} {before:?}");
        }
    }
}

/// Pages of calls hang together, narrowed or not.
pub async fn calls_come_newest_first(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    for number in [5, 1, 9, 3, 7, 2] {
        ledger.reserve(reservation(number, number % 2)).await.expect("reserved");
    }
    let page = async |only: Vec<(CostsBy, String)>, before: Option<u32>, limit| {
        let filter = CostFilter { only, ..CostFilter::default() };
        let calls = ledger.calls(filter, before.map(call_id), limit).await.expect("calls");
        calls.into_iter().map(|record| record.reservation.call).collect::<Vec<CallId>>()
    };
    let ids = |numbers: &[u32]| numbers.iter().map(|number| call_id(*number)).collect::<Vec<CallId>>();
    assert_eq!(page(Vec::new(), None, 4).await, ids(&[9, 7, 5, 3]));
    assert_eq!(page(Vec::new(), Some(3), 4).await, ids(&[2, 1]));
    assert_eq!(page(Vec::new(), Some(1), 4).await, ids(&[]));
    assert_eq!(page(Vec::new(), None, 0).await, ids(&[]));
    let of_run = vec![(CostsBy::Run, run(1).to_string())];
    assert_eq!(page(of_run.clone(), None, 2).await, ids(&[9, 7]));
    assert_eq!(page(of_run.clone(), Some(7), 9).await, ids(&[5, 3, 1]));
    let mut both = of_run;
    both.push((CostsBy::Flow, flow(0).to_string()));
    assert_eq!(page(both, None, 9).await, ids(&[]), "another flow has that run");
    assert_eq!(page(vec![(CostsBy::Flow, flow(0).to_string())], None, 9).await, ids(&[2]));
    assert_eq!(page(vec![(CostsBy::Agent, "nobody".to_owned())], None, 9).await, ids(&[]));
    assert_eq!(page(vec![(CostsBy::Run, "no run".to_owned())], None, 9).await, ids(&[]));
}

/// A figure that cannot be true counts as the bound, so that sums go on to be right.
pub async fn figures_have_a_bound(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    begin(ledger, 1).await;
    for number in 1..=20 {
        let mut reserved = reservation(number, 1);
        (reserved.micros, reserved.tokens) = (money(i64::MAX), u64::MAX);
        assert_eq!(ledger.reserve(reserved).await.expect("an answer"), Guarded::Updated);
        let mut settled = settlement(number, i64::MAX);
        settled.tokens = Tokens { output: u64::MAX, ..Tokens::default() };
        if number % 2 == 0 {
            assert_eq!(ledger.settle(settled).await.expect("an answer"), Guarded::Updated);
        }
    }
    assert_eq!(ledger.lose(instance_id(1), at(9)).await.expect("an answer"), 10);
    let most = MOST.cast_signed();
    let sum = spent(ledger, Owner::Run(run(1))).await;
    assert_eq!((sum.micros, sum.unsure, sum.reserved), (money(20 * most), money(10 * most), money(0)));
    assert_eq!((sum.tokens.output, sum.lost_tokens), (10 * MOST, 10 * MOST));
    let mut negative = reservation(21, 2);
    negative.micros = money(-5);
    ledger.reserve(negative).await.expect("reserved");
    ledger.settle(settlement(21, -5)).await.expect("settled");
    assert_eq!(spent(ledger, Owner::Run(run(2))).await.micros, money(0));
}

/// What was spent stays known when nobody knows the flow any more.
pub async fn removed_flows_leave_the_ledger_alone(place: &dyn Place) {
    let ledger = place.open().await;
    let ledger = ledger.as_ref();
    prepare(ledger).await;
    begin(ledger, 1).await;
    let id = flow_id(1);
    done(ledger, create(id)).await;
    let mut reserved = reservation(1, 1);
    reserved.account.flow = Some(id);
    ledger.reserve(reserved).await.expect("reserved");
    ledger.settle(settlement(1, 7)).await.expect("settled");
    let mut end = carry_on(id, 1, Vec::new());
    end.decision.changes = vec![orc_domain::effect::Change::Head(finished(2))];
    done(ledger, end).await;
    ledger.effect_delivered(scene::start_run(id, 0).id).await.expect("delivered");
    let before = everything(ledger).await;
    assert!(ledger.flow_remove(id, at(i64::MAX / 2)).await.expect("an answer"));
    assert_eq!(everything(ledger).await, before);
    assert_eq!(spent(ledger, Owner::Flow(id)).await.micros, money(7));
}

/// What was answered is there after closing and opening again, what is in flight too.
pub async fn opening_again_finds_the_ledger(place: &dyn Place) {
    let ledger = place.open().await;
    begin(ledger.as_ref(), 1).await;
    for number in [1, 2] {
        ledger.reserve(reservation(number, 1)).await.expect("reserved");
    }
    ledger.settle(settlement(1, 7)).await.expect("settled");
    let before = everything(ledger.as_ref()).await;
    ledger.close().await.expect("it closes");
    let answers = [
        ledger.reserve(reservation(3, 1)).await.map(drop),
        ledger.settle(settlement(2, 1)).await.map(drop),
        ledger.lose(instance_id(1), at(9)).await.map(drop),
        ledger.spent(Owner::Gateway).await.map(drop),
        ledger.costs(vec![CostsBy::Day], CostFilter::default(), 1).await.map(drop),
        ledger.calls(CostFilter::default(), None, 1).await.map(drop),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::Closed)), "{answer:?}");
    }
    drop(ledger);
    let ledger = place.open().await;
    assert_eq!(everything(ledger.as_ref()).await, before);
    assert_eq!(ledger.settle(settlement(2, 1)).await.expect("an answer"), Guarded::Updated);
}
