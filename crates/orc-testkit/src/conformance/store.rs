//! What every [`Store`] does, as tests. [`crate::store_conformance!`] makes one test per property.
//!
//! A property gets a [`Place`]: somewhere a store can be opened, closed and opened again. It never looks behind the port.

mod differential;
mod removal;
pub mod scene;
mod shapes;
mod waiting;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join, join_all};
use orc_domain::claim::Refusal;
use orc_domain::effect::{Change, Decision, Effect};
use orc_domain::event::Event;
use orc_domain::flow::StepState;
use orc_ports::store::{Commit, Committed, Guarded, Instance, LoadedFlow, Store, StoreError};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

use self::scene::{
    at, carry_on, create, delivered, done, effect_id, finished, flow_id, instance_id, launch, live, path, pipeline,
    prepare, run_id, slot, start_run, step,
};

pub use self::differential::agrees_with_the_model;
pub use self::removal::{events_are_removed_from_the_oldest_on, only_what_is_over_is_removed};
pub use self::waiting::{
    a_group_holds_as_many_as_its_limit, a_place_belongs_to_the_flow_that_decides, a_request_is_resolved_once,
    a_run_of_an_agent_is_claimed_once, due_flows_come_in_order_of_their_alarm, flows_that_wait_for_an_event_are_found,
    flows_with_work_are_found_without_the_others, the_last_place_of_a_group_is_given_once,
};

/// Somewhere a store lives.
pub trait Place: Send + Sync {
    /// Opens what is there; empty the first time. A store opened before was closed.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>>;
}

/// Makes a test of each property; the argument is an expression of a new [`Place`].
#[macro_export]
macro_rules! store_conformance {
    ($place:expr) => {
        $crate::store_conformance! { $place;
            definitions_are_kept_once
            a_refused_commit_leaves_nothing
            a_stale_commit_leaves_nothing
            a_flow_is_created_once
            a_slot_given_back_can_be_taken_in_the_same_commit
            a_run_is_claimed_once
            final_is_final
            effects_stay_in_order_until_delivered
            events_have_no_gaps_under_concurrent_commits
            what_is_loaded_is_what_was_committed
            paging_over_unfinished_flows_is_stable
            a_cursor_moves_only_from_where_it_stands
            instances_end_once
            opening_again_finds_everything
            a_commit_outside_the_contract_leaves_nothing
            a_request_is_resolved_once
            a_group_holds_as_many_as_its_limit
            the_last_place_of_a_group_is_given_once
            a_place_belongs_to_the_flow_that_decides
            a_run_of_an_agent_is_claimed_once
            due_flows_come_in_order_of_their_alarm
            flows_with_work_are_found_without_the_others
            flows_that_wait_for_an_event_are_found
            only_what_is_over_is_removed
            events_are_removed_from_the_oldest_on
            agrees_with_the_model
        }
    };
    ($place:expr; $($property:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $property() {
                $crate::conformance::store::$property(&$place).await;
            }
        )*
    };
}

/// Everything of a flow that can be seen, for "nothing was written".
async fn everything(store: &dyn Store, number: u32) -> (Option<LoadedFlow>, Vec<Effect>, Vec<Event>) {
    let id = flow_id(number);
    (
        store.flow_load(id).await.expect("the flow is read"),
        store.effects_pending(id).await.expect("effects are read"),
        store.events_after(0, 10_000).await.expect("events are read"),
    )
}

/// A definition is found by its hash, and the first one with a hash stays.
pub async fn definitions_are_kept_once(place: &dyn Place) {
    let store = place.open().await;
    let (hash, kept) = pipeline();
    assert_eq!(store.pipeline_get(hash.clone()).await.expect("read"), None);
    for source in ["first", "second"] {
        let answer = store.pipeline_insert(hash.clone(), Arc::clone(&kept), source.to_owned()).await;
        assert!(answer.is_ok(), "{answer:?}");
    }
    assert_eq!(store.pipeline_get(hash).await.expect("read"), Some(kept));
}

/// A refused claim fails the whole commit: rows, releases, effects and events.
pub async fn a_refused_commit_leaves_nothing(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let (one, two) = (flow_id(1), flow_id(2));
    for id in [one, two] {
        done(store, create(id)).await;
    }
    done(store, launch(one, 1, 0)).await;
    let before = everything(store, 2).await;
    let mut refused = launch(two, 1, 0);
    refused.slots = 1;
    assert_eq!(store.commit(refused.clone()).await.expect("an answer"), Committed::Refused(Refusal::Slot));
    assert_eq!(everything(store, 2).await, before);
    // The same decision is accepted once there is room, with the positions that the refused one did not use up.
    refused.slots = 2;
    done(store, refused).await;
    gapless(&store.events_after(0, 100).await.expect("events"), 4);
}

/// A commit on another version than the stored one is answered `Stale` and changes nothing.
pub async fn a_stale_commit_leaves_nothing(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let id = flow_id(1);
    assert_eq!(store.commit(carry_on(id, 1, Vec::new())).await.expect("an answer"), Committed::Stale, "no such flow");
    done(store, create(id)).await;
    done(store, launch(id, 1, 0)).await;
    let before = everything(store, 1).await;
    for expected in [0, 1, 3] {
        // The old commit again: its effect and its run are there already.
        let mut late = launch(id, expected, 0);
        late.decision.claims.clear();
        assert_eq!(store.commit(late).await.expect("an answer"), Committed::Stale, "on version {expected}");
    }
    assert_eq!(everything(store, 1).await, before);
}

/// Of two commits that create the same flow one is `Stale`, also when both are on their way at once.
pub async fn a_flow_is_created_once(place: &dyn Place) {
    let store = place.open().await;
    prepare(store.as_ref()).await;
    let id = flow_id(1);
    let (one, two) = join(store.commit(create(id)), store.commit(create(id))).await;
    let answers = [one.expect("an answer"), two.expect("an answer")];
    assert!(answers.contains(&Committed::Done) && answers.contains(&Committed::Stale), "{answers:?}");
    gapless(&store.events_after(0, 100).await.expect("events"), 1);
}

/// Releases come before claims, so a full store lets a flow pass its own slot on.
pub async fn a_slot_given_back_can_be_taken_in_the_same_commit(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let id = flow_id(1);
    done(store, create(id)).await;
    let mut first = launch(id, 1, 0);
    first.slots = 1;
    done(store, first).await;
    let mut next = launch(id, 2, 1);
    next.slots = 1;
    assert_eq!(store.commit(next.clone()).await.expect("an answer"), Committed::Refused(Refusal::Slot));
    next.decision.changes.insert(0, Change::Run(delivered(id, 0)));
    next.decision.releases = vec![slot(id, 0)];
    done(store, next).await;
    // A release of what is not held is no error.
    let mut last = carry_on(id, 3, Vec::new());
    last.decision.releases = vec![slot(id, 0)];
    done(store, last).await;
}

/// Of two instances that claim a run one succeeds; a run that is over or unknown is not claimed; the effect goes always.
pub async fn a_run_is_claimed_once(place: &dyn Place) {
    let store = place.open().await;
    prepare(store.as_ref()).await;
    let id = flow_id(1);
    done(store.as_ref(), create(id)).await;
    done(store.as_ref(), launch(id, 1, 0)).await;
    let (run, effect) = (run_id(id, &path(0), 1), start_run(id, 0).id);
    let claim = |number| store.runs_claim(vec![(run, effect)], instance_id(number));
    let (one, two) = join(claim(1), claim(2)).await;
    let (one, two) = (one.expect("an answer"), two.expect("an answer"));
    let winner = match (one.as_slice(), two.as_slice()) {
        ([Guarded::Updated], [Guarded::Stale]) => 1,
        ([Guarded::Stale], [Guarded::Updated]) => 2,
        other => panic!("one claim succeeds: {other:?}"),
    };
    assert_eq!(store.effects_pending(id).await.expect("effects"), []);
    let loaded = store.flow_load(id).await.expect("read").expect("there");
    assert_eq!(loaded.claimed, [(run, instance_id(winner))]);

    done(store.as_ref(), launch(id, 2, 1)).await;
    done(store.as_ref(), carry_on(id, 3, vec![Change::Run(delivered(id, 1))])).await;
    let over = run_id(id, &path(1), 1);
    done(store.as_ref(), launch(id, 4, 2)).await;
    let next = run_id(id, &path(2), 1);
    let nobody = run_id(id, &path(9), 9);
    let starts = vec![
        (nobody, effect_id(id, "none")),
        (over, start_run(id, 1).id),
        (next, start_run(id, 2).id),
        (next, start_run(id, 2).id),
    ];
    let answers = store.runs_claim(starts, instance_id(3)).await.expect("answers");
    assert_eq!(answers, [Guarded::Missing, Guarded::Stale, Guarded::Updated, Guarded::Stale]);
    assert_eq!(store.effects_pending(id).await.expect("effects"), []);
    let loaded = store.flow_load(id).await.expect("read").expect("there");
    assert!(loaded.claimed.contains(&(next, instance_id(3))), "{:?}", loaded.claimed);
    assert_eq!(store.runs_claim(Vec::new(), instance_id(3)).await.expect("answers"), []);
}

/// Neither a run nor a flow that is over changes again.
pub async fn final_is_final(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let id = flow_id(1);
    done(store, create(id)).await;
    done(store, launch(id, 1, 0)).await;
    done(store, carry_on(id, 2, vec![Change::Run(delivered(id, 0))])).await;
    let before = everything(store, 1).await;
    let revived = carry_on(id, 3, vec![Change::Run(scene::pending(id, 0))]);
    let answer = store.commit(revived).await;
    assert!(matches!(answer, Err(StoreError::Contract { .. })), "{answer:?}");
    assert_eq!(everything(store, 1).await, before);

    let mut end = carry_on(id, 3, Vec::new());
    end.decision.changes = vec![Change::Head(finished(4))];
    done(store, end).await;
    let before = everything(store, 1).await;
    assert_eq!(store.commit(carry_on(id, 4, Vec::new())).await.expect("an answer"), Committed::Stale);
    assert_eq!(everything(store, 1).await, before);
}

/// Effects of a flow are pending in the order in which they were decided, each until it is delivered.
pub async fn effects_stay_in_order_until_delivered(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let id = flow_id(1);
    done(store, create(id)).await;
    done(store, create(flow_id(2))).await;
    done(store, launch(flow_id(2), 1, 0)).await;
    let mut wanted = Vec::new();
    for version in 1..=4_u32 {
        let mut commit = carry_on(id, u64::from(version), Vec::new());
        // Labels whose ids are in no order.
        commit.decision.effects = vec![start_run(id, version * 7 % 5), start_run(id, version * 7 % 5 + 10)];
        wanted.extend(commit.decision.effects.clone());
        done(store, commit).await;
    }
    assert_eq!(store.effects_pending(id).await.expect("effects"), wanted);
    while !wanted.is_empty() {
        let gone = wanted.remove(wanted.len() / 2);
        for _ in 0..2 {
            store.effect_delivered(gone.id).await.expect("taking it out twice is no error");
        }
        assert_eq!(store.effects_pending(id).await.expect("effects"), wanted);
    }
    assert_eq!(store.effects_pending(flow_id(2)).await.expect("effects").len(), 1, "another flow keeps its own");
}

/// Flows that commit at the same time, with refusals and stale versions between, make positions without gaps; one who
/// follows them by cursor sees each once, in order.
pub async fn events_have_no_gaps_under_concurrent_commits(place: &dyn Place) {
    const FLOWS: u32 = 16;
    const COMMITS: u64 = 12;
    let store = place.open().await;
    prepare(store.as_ref()).await;
    let flows = join_all((0..FLOWS).map(|number| {
        let store = Arc::clone(&store);
        async move {
            let id = flow_id(number);
            done(store.as_ref(), create(id)).await;
            for version in 1..COMMITS {
                let mut refused = launch(id, version, 0);
                refused.slots = 0;
                let answer = store.commit(refused).await.expect("an answer");
                assert_eq!(answer, Committed::Refused(Refusal::Slot));
                done(store.as_ref(), carry_on(id, version, Vec::new())).await;
                let answer = store.commit(carry_on(id, version, Vec::new())).await.expect("an answer");
                assert_eq!(answer, Committed::Stale);
            }
        }
    }));
    let total = u64::from(FLOWS) * COMMITS;
    let follower = async {
        let mut seen: Vec<Event> = Vec::new();
        while (seen.len() as u64) < total {
            let page = store.events_after(seen.len() as u64, 7).await.expect("events");
            seen.extend(page);
            tokio::task::yield_now().await;
        }
        seen
    };
    let ((), seen) = join(async { drop(flows.await) }, follower).await;
    gapless(&seen, total);
    for number in 0..FLOWS {
        let of_flow: Vec<_> =
            seen.iter().filter(|event| event.flow == flow_id(number)).map(|event| &event.body).collect();
        let wanted: Vec<_> = (1..=COMMITS).map(scene::mark).collect();
        assert!(of_flow.iter().copied().eq(wanted.iter()), "events of a flow are in the order of its commits");
    }
}

fn gapless(events: &[Event], total: u64) {
    let positions: Vec<u64> = events.iter().map(|event| event.position).collect();
    let wanted: Vec<u64> = (1..=total).collect();
    assert_eq!(positions, wanted);
}

/// Whatever is committed is loaded again as it was, in every state of the vocabulary.
pub async fn what_is_loaded_is_what_was_committed(place: &dyn Place) {
    const FLOWS: u32 = 96;
    let store = place.open().await;
    prepare(store.as_ref()).await;
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for number in 0..FLOWS {
        let id = flow_id(number);
        let tree = shapes::flow(id).new_tree(&mut runner).expect("a flow can be made");
        let shapes::Shape { flow, runs, requests } = tree.current();
        seen.extend(flow.steps.iter().map(|step| variant(&step.state)));
        seen.extend(runs.iter().map(|run| variant(&run.state)));
        seen.extend(requests.iter().map(|request| variant(&request.state)));
        seen.insert(variant(&flow.head.state));
        let mut changes: Vec<Change> = flow.steps.iter().cloned().map(Change::Step).collect();
        changes.extend(runs.into_iter().map(Change::Run));
        changes.extend(requests.into_iter().map(Change::Request));
        changes.push(Change::Head(flow.head.clone()));
        let commit = Commit {
            flow: id,
            create: Some(flow.spec.clone()),
            expected: 0,
            decision: Decision { changes, ..Decision::default() },
            slots: 0,
        };
        done(store.as_ref(), commit).await;
        let loaded = store.flow_load(id).await.expect("read").expect("there");
        assert_eq!(loaded.flow, flow, "flow {number}");
        assert_eq!(loaded.claimed, []);
    }
    let wanted = [
        "Active", "Blocked", "Finished", "Live", "Open", "Pending", "Queued", "Ready", "Resolved", "Running", "Waiting",
    ];
    assert!(seen.iter().map(String::as_str).eq(wanted), "the flows were in every state: {seen:?}");
}

/// The name of a variant.
fn variant(state: &impl std::fmt::Debug) -> String {
    let text = format!("{state:?}");
    text.chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// Pages over unfinished flows give each once, in order, while others end and begin behind the cursor.
pub async fn paging_over_unfinished_flows_is_stable(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    for number in 10..40 {
        done(store, create(flow_id(number))).await;
    }
    let end = |number| {
        let mut end = carry_on(flow_id(number), 1, Vec::new());
        end.decision.changes = vec![Change::Head(finished(2))];
        end
    };
    done(store, end(12)).await;
    let mut seen = Vec::new();
    loop {
        let page = store.flows_unfinished(seen.last().copied(), 7).await.expect("a page");
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        if seen.is_empty() {
            // Behind the cursor one ends and one begins; before it one ends. None of that moves the pages.
            done(store, end(11)).await;
            done(store, create(flow_id(9))).await;
            done(store, end(30)).await;
        }
        seen.extend(page);
    }
    let wanted: Vec<_> = (10..40).filter(|number| ![12, 30].contains(number)).map(flow_id).collect();
    assert_eq!(seen, wanted);
}

/// A consumer that does not stand where it is believed to is not moved.
pub async fn a_cursor_moves_only_from_where_it_stands(place: &dyn Place) {
    let store = place.open().await;
    assert_eq!(store.consumer_cursor("one").await.expect("read"), 0);
    let advance = async |name, from, to| store.consumer_advance(name, from, to).await.expect("an answer");
    assert_eq!(advance("one", 3, 5).await, Guarded::Stale);
    assert_eq!(advance("one", 0, 5).await, Guarded::Updated);
    assert_eq!(advance("one", 0, 7).await, Guarded::Stale);
    assert_eq!(advance("one", 5, 7).await, Guarded::Updated);
    assert_eq!(store.consumer_cursor("one").await.expect("read"), 7);
    assert_eq!(store.consumer_cursor("two").await.expect("read"), 0);
}

/// An instance is open from its beginning to its end, and has one of each.
pub async fn instances_end_once(place: &dyn Place) {
    let store = place.open().await;
    let instance = |number| Instance {
        id: instance_id(number),
        pid: 7,
        command: "run".to_owned(),
        began_at: at(i64::from(number)),
    };
    for number in [1, 2] {
        store.instance_begin(instance(number)).await.expect("it begins");
    }
    let again = store.instance_begin(instance(1)).await;
    assert!(matches!(again, Err(StoreError::Contract { .. })), "{again:?}");
    assert_eq!(store.instances_open().await.expect("read"), [instance(1), instance(2)]);
    let end = async |number| store.instance_end(instance_id(number), at(9)).await.expect("an answer");
    assert_eq!(end(1).await, Guarded::Updated);
    assert_eq!(end(1).await, Guarded::Stale);
    assert_eq!(end(3).await, Guarded::Missing);
    assert_eq!(store.instances_open().await.expect("read"), [instance(2)]);
}

/// What was answered is there after closing and opening again, and work goes on where it stood.
pub async fn opening_again_finds_everything(place: &dyn Place) {
    let store = place.open().await;
    prepare(store.as_ref()).await;
    let id = flow_id(1);
    done(store.as_ref(), create(id)).await;
    done(store.as_ref(), launch(id, 1, 0)).await;
    done(store.as_ref(), launch(id, 2, 1)).await;
    let run = run_id(id, &path(0), 1);
    store.runs_claim(vec![(run, start_run(id, 0).id)], instance_id(1)).await.expect("claimed");
    store.consumer_advance("one", 0, 2).await.expect("moved");
    let before = everything(store.as_ref(), 1).await;
    store.close().await.expect("it closes");
    for answer in [store.commit(carry_on(id, 3, Vec::new())).await.map(drop), store.flow_load(id).await.map(drop)] {
        assert!(matches!(answer, Err(StoreError::Closed)), "{answer:?}");
    }
    drop(store);

    let store = place.open().await;
    assert_eq!(everything(store.as_ref(), 1).await, before);
    let loaded = store.flow_load(id).await.expect("read").expect("there");
    assert_eq!(loaded.claimed, [(run, instance_id(1))]);
    assert_eq!(loaded.flow.runs.len(), 2);
    assert_eq!(store.consumer_cursor("one").await.expect("read"), 2);
    assert_eq!(store.pipeline_get(pipeline().0).await.expect("read"), Some(pipeline().1));
    // Two slots are still held.
    let mut third = launch(id, 3, 2);
    third.slots = 2;
    assert_eq!(store.commit(third.clone()).await.expect("an answer"), Committed::Refused(Refusal::Slot));
    third.slots = 3;
    done(store.as_ref(), third).await;
    gapless(&store.events_after(0, 100).await.expect("events"), 4);
}

/// Commits that no decision makes are errors that name the flow; nothing of them is written, others go on.
pub async fn a_commit_outside_the_contract_leaves_nothing(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    let id = flow_id(1);
    let unknown = store.commit(create(id)).await;
    assert!(matches!(unknown, Err(StoreError::Contract { .. })), "its definition is not kept: {unknown:?}");
    prepare(store).await;
    done(store, create(id)).await;
    done(store, create(flow_id(2))).await;
    done(store, launch(id, 1, 0)).await;
    let before = everything(store, 1).await;

    let mut no_head = carry_on(id, 2, Vec::new());
    no_head.decision.changes = vec![Change::Step(step(1, StepState::Blocked))];
    let mut same_version = carry_on(id, 2, Vec::new());
    same_version.decision.changes = vec![Change::Head(live(2))];
    let foreign_run = carry_on(id, 2, vec![Change::Run(scene::pending(flow_id(2), 0))]);
    let mut twin = scene::pending(id, 0);
    twin.id = run_id(id, &path(0), 2);
    let twin_run = carry_on(id, 2, vec![Change::Run(twin)]);
    let mut moved = step(0, StepState::Blocked);
    moved.path = path(5);
    let moved_step = carry_on(id, 2, vec![Change::Step(moved)]);
    let mut namesake = step(1, StepState::Blocked);
    namesake.path = path(0);
    let namesake_step = carry_on(id, 2, vec![Change::Step(namesake)]);
    let mut second_slot = carry_on(id, 2, Vec::new());
    second_slot.decision.claims = vec![slot(id, 0)];
    let mut slot_of_nobody = carry_on(id, 2, Vec::new());
    slot_of_nobody.decision.claims = vec![slot(id, 8)];
    let mut same_effect = carry_on(id, 2, Vec::new());
    same_effect.decision.effects = vec![start_run(id, 0)];
    let wrong = [
        no_head,
        same_version,
        foreign_run,
        twin_run,
        moved_step,
        namesake_step,
        second_slot,
        slot_of_nobody,
        same_effect,
    ];
    // All at once, with a good one between: it must not suffer.
    let good = store.commit(carry_on(flow_id(2), 1, Vec::new()));
    let (answers, good) = join(join_all(wrong.iter().cloned().map(|commit| store.commit(commit))), good).await;
    for (answer, commit) in answers.iter().zip(&wrong) {
        match answer {
            Err(StoreError::Contract { id: named, .. }) => assert_eq!(*named, id.to_string()),
            other => panic!("{other:?} for {commit:?}"),
        }
    }
    assert_eq!(good.expect("an answer"), Committed::Done);
    let after = everything(store, 1).await;
    let events = store.events_after(0, 100).await.expect("events");
    gapless(&events, 4);
    assert_ne!(after, before, "the event of the good commit");
    assert_eq!(store.flow_load(id).await.expect("read").expect("there").flow.head, live(2));
    assert_eq!(store.effects_pending(id).await.expect("effects"), [start_run(id, 0)]);
}
