//! What waits: requests for people, flows and steps for a place in their group, flows for their alarm or for others.

use std::sync::Arc;

use futures_util::future::join_all;
use orc_domain::action::WaitEvent;
use orc_domain::claim::{Claim, Holder, Refusal};
use orc_domain::effect::Change;
use orc_domain::flow::{FlowHead, StepNo, StepState};
use orc_domain::ids::FlowId;
use orc_domain::request::{Answer, Request};
use orc_domain::time::Timestamp;
use orc_ports::store::{Commit, Committed, Guarded, Store, StoreError};

use super::scene::{
    at, carry_on, create, delivered, done, finished, flow_id, instance_id, launch, live, open, path, pending_agent,
    place, prepare, queued, resolved, run_id, start_agent, step, waiting_for,
};
use super::{Place, everything};

/// A commit on version `expected` that claims this.
fn claim(id: FlowId, expected: u64, claims: &[Claim]) -> Commit {
    let mut commit = carry_on(id, expected, Vec::new());
    commit.decision.claims = claims.to_vec();
    commit
}

/// A commit on version `expected` that gives this back.
fn release(id: FlowId, expected: u64, releases: &[Claim]) -> Commit {
    let mut commit = carry_on(id, expected, Vec::new());
    commit.decision.releases = releases.to_vec();
    commit
}

/// Commits with this head instead.
async fn with_head(store: &dyn Store, mut commit: Commit, head: FlowHead) {
    commit.decision.changes.pop();
    commit.decision.changes.push(Change::Head(head));
    done(store, commit).await;
}

async fn refused(store: &dyn Store, commit: Commit) -> Vec<Holder> {
    match store.commit(commit).await.expect("an answer") {
        Committed::Refused(Refusal::Group { name, mut holders }) => {
            assert_eq!(name, "deploy");
            holders.sort_unstable();
            holders
        }
        other => panic!("a group that is full is expected: {other:?}"),
    }
}

fn holder(flow: FlowId, step: Option<u32>) -> Holder {
    Holder { flow, step: step.map(StepNo) }
}

/// A request is with its flow while it is open, changes while it is, and is resolved once.
pub async fn a_request_is_resolved_once(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let id = flow_id(1);
    for number in [1, 2] {
        done(store, create(flow_id(number))).await;
    }
    let requests = async || -> Vec<Request> {
        let loaded = store.flow_load(id).await.expect("read").expect("there");
        assert!(loaded.flow.requests.iter().all(|(id, request)| *id == request.id));
        loaded.flow.requests.into_values().collect()
    };
    let commit = |expected, request| carry_on(id, expected, vec![Change::Request(request)]);
    done(store, commit(1, open(id, 0, 1))).await;
    assert_eq!(requests().await, [open(id, 0, 1)]);
    let mut told = open(id, 0, 1);
    told.message = "once more".to_owned();
    done(store, commit(2, told.clone())).await;
    assert_eq!(requests().await, [told]);
    // Asked and withdrawn in one decision: of both only the last is written.
    done(store, commit(3, resolved(id, 1, 3, "ada", Answer::Withdrawn))).await;
    done(store, commit(4, resolved(id, 0, 4, "ada", Answer::Approved))).await;
    assert_eq!(requests().await, []);

    let before = everything(store, 1).await;
    let again = [
        resolved(id, 0, 5, "bob", Answer::Denied),
        open(id, 0, 1),
        resolved(id, 1, 5, "bob", Answer::Denied),
        open(flow_id(2), 0, 1),
    ];
    for request in again {
        let answer = store.commit(commit(5, request)).await;
        assert!(matches!(answer, Err(StoreError::Contract { .. })), "{answer:?}");
    }
    assert_eq!(everything(store, 1).await, before);
}

/// A group that is full refuses the whole commit and names who is in it; whoever is in it stays in it.
pub async fn a_group_holds_as_many_as_its_limit(place_of_store: &dyn Place) {
    let store = place_of_store.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let (one, two, three) = (flow_id(1), flow_id(2), flow_id(3));
    for id in [one, two, three] {
        done(store, create(id)).await;
    }
    // A flow and a step of another.
    done(store, claim(one, 1, &[place(one, None, 2)])).await;
    done(store, claim(two, 1, &[place(two, Some(0), 2)])).await;
    let full = [holder(one, None), holder(two, Some(0))];
    let before = everything(store, 3).await;
    let mut late = launch(three, 1, 0);
    late.decision.claims.push(place(three, None, 2));
    assert_eq!(refused(store, late.clone()).await, full);
    assert_eq!(everything(store, 3).await, before, "nothing of it was written, its slot included");
    // Another step of a flow that is in it is somebody else.
    assert_eq!(refused(store, claim(two, 2, &[place(two, Some(1), 2)])).await, full);
    // Whoever is in it may say so again, also when it has fewer places by now.
    done(store, claim(two, 2, &[place(two, Some(0), 1)])).await;
    assert_eq!(refused(store, late.clone()).await, full);
    // Another group has places of its own.
    let other = Claim::Group { name: "deploy 2".to_owned(), limit: 1, holder: holder(three, None) };
    done(store, claim(three, 1, &[other])).await;
    // What was given back can be had, in the same commit too; what nobody holds is given back without a word.
    done(store, release(one, 2, &[place(one, None, 2), place(one, Some(7), 2)])).await;
    late.expected = 2;
    late.decision.changes.pop();
    late.decision.changes.push(Change::Head(live(3)));
    done(store, late).await;
    assert_eq!(
        refused(store, claim(one, 3, &[place(one, None, 2)])).await,
        [holder(two, Some(0)), holder(three, None)]
    );
    let mut pass_on = claim(two, 3, &[place(two, None, 2)]);
    pass_on.decision.releases = vec![place(two, Some(0), 2)];
    done(store, pass_on).await;
    assert_eq!(refused(store, claim(one, 3, &[place(one, None, 1)])).await, [holder(two, None), holder(three, None)]);
    done(store, claim(one, 3, &[place(one, None, 3)])).await;
}

/// Of many who claim the last place at once one gets it; places outlive the store that gave them.
pub async fn the_last_place_of_a_group_is_given_once(place_of_store: &dyn Place) {
    const FLOWS: u32 = 8;
    let store = place_of_store.open().await;
    prepare(store.as_ref()).await;
    for number in 0..FLOWS {
        done(store.as_ref(), create(flow_id(number))).await;
    }
    let claims = (0..FLOWS).map(|number| {
        let (store, id) = (Arc::clone(&store), flow_id(number));
        async move { store.commit(claim(id, 1, &[place(id, None, 1)])).await.expect("an answer") }
    });
    let answers = join_all(claims).await;
    let winner = answers.iter().position(|answer| *answer == Committed::Done).expect("one has it");
    let winner = flow_id(u32::try_from(winner).expect("a small number"));
    let holders = vec![holder(winner, None)];
    let refusal = Committed::Refused(Refusal::Group { name: "deploy".to_owned(), holders: holders.clone() });
    assert_eq!(answers.iter().filter(|answer| **answer == refusal).count(), FLOWS as usize - 1, "{answers:?}");
    store.close().await.expect("it closes");
    drop(store);

    let store = place_of_store.open().await;
    let id = flow_id(if winner == flow_id(0) { 1 } else { 0 });
    assert_eq!(refused(store.as_ref(), claim(id, 1, &[place(id, None, 1)])).await, holders);
}

/// Claims of groups that no decision makes are errors and leave nothing.
pub async fn a_place_belongs_to_the_flow_that_decides(place_of_store: &dyn Place) {
    let store = place_of_store.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let (one, two) = (flow_id(1), flow_id(2));
    done(store, create(one)).await;
    done(store, create(two)).await;
    done(store, claim(two, 1, &[place(two, None, 1)])).await;
    let wrong = [
        claim(one, 1, &[place(two, Some(1), 9)]),
        release(one, 1, &[place(two, None, 1)]),
        claim(one, 1, &[place(one, None, 0)]),
    ];
    for commit in wrong {
        let answer = store.commit(commit).await;
        assert!(matches!(answer, Err(StoreError::Contract { .. })), "{answer:?}");
    }
    assert_eq!(refused(store, claim(one, 1, &[place(one, None, 1)])).await, [holder(two, None)]);
}

/// A run of an agent is kept, claimed and fenced as one of a command.
pub async fn a_run_of_an_agent_is_claimed_once(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let id = flow_id(1);
    done(store, create(id)).await;
    let mut commit = launch(id, 1, 0);
    commit.decision.changes[1] = Change::Run(pending_agent(id, 0));
    commit.decision.effects = vec![start_agent(id, 0)];
    done(store, commit).await;
    assert_eq!(store.effects_pending(id).await.expect("effects"), [start_agent(id, 0)]);
    let run = run_id(id, &path(0), 1);
    let claim = async |instance| {
        let answer = store.runs_claim(vec![(run, start_agent(id, 0).id)], instance_id(instance)).await;
        answer.expect("an answer")
    };
    assert_eq!(claim(1).await, [Guarded::Updated]);
    assert_eq!(store.effects_pending(id).await.expect("effects"), []);
    assert_eq!(claim(2).await, [Guarded::Stale]);
    let loaded = store.flow_load(id).await.expect("read").expect("there");
    assert_eq!(loaded.claimed, [(run, instance_id(1))]);
    assert_eq!(loaded.flow.runs.into_values().collect::<Vec<_>>(), [pending_agent(id, 0)]);
}

/// Flows whose alarm has come are listed in order of it, in pages, and no others.
pub async fn due_flows_come_in_order_of_their_alarm(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let alarm = |version, wake_at| FlowHead { wake_at: Some(at(wake_at)), ..live(version) };
    // Flow 2 twice, so that its first alarm is no longer one; flow 6 is over, flow 7 waits in a queue.
    for (number, wake_at) in [(1, 30), (2, 5), (3, 10), (4, 10), (5, 31), (6, 3), (7, 20)] {
        with_head(store, create(flow_id(number)), alarm(1, wake_at)).await;
    }
    with_head(store, carry_on(flow_id(2), 1, Vec::new()), alarm(2, 20)).await;
    with_head(store, carry_on(flow_id(6), 1, Vec::new()), finished(2)).await;
    let waiting = FlowHead { wake_at: Some(at(20)), ..queued(2) };
    with_head(store, carry_on(flow_id(7), 1, Vec::new()), waiting.clone()).await;
    assert_eq!(store.flow_load(flow_id(7)).await.expect("read").expect("there").flow.head, waiting);

    let due = async |now, after: Option<(Timestamp, FlowId)>, limit| {
        store.flows_due(at(now), after, limit).await.expect("a page")
    };
    let entry = |wake_at, number| (at(wake_at), flow_id(number));
    let wanted = [entry(10, 3), entry(10, 4), entry(20, 2), entry(20, 7), entry(30, 1)];
    assert_eq!(due(30, None, 9).await, wanted);
    assert_eq!(due(29, None, 9).await, wanted[..4]);
    assert_eq!(due(9, None, 9).await, []);
    assert_eq!(due(30, None, 1).await, wanted[..1]);
    for seen in 1..=wanted.len() {
        let rest = &wanted[seen..];
        assert_eq!(due(30, Some(wanted[seen - 1]), 2).await, rest[..rest.len().min(2)]);
    }
    let all = store.flows_unfinished(None, 9).await.expect("a page");
    assert_eq!(all, [1, 2, 3, 4, 5, 7].map(flow_id), "a flow in a queue is not finished");
    with_head(store, carry_on(flow_id(7), 2, Vec::new()), alarm(3, 20)).await;
    assert_eq!(due(30, None, 9).await, wanted, "one that left its queue is due as before");
}

/// What recovery looks at: flows with a live run or with an effect, each once, in order, in pages.
pub async fn flows_with_work_are_found_without_the_others(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    for number in 1..=6 {
        done(store, create(flow_id(number))).await;
    }
    for number in [2, 4, 5] {
        let mut two = launch(flow_id(number), 1, 0);
        two.slots = 9;
        done(store, two).await;
        let mut second = launch(flow_id(number), 2, 1);
        second.slots = 9;
        done(store, second).await;
    }
    // Of flow 4 nothing runs any more and one effect is left; of flow 5 one runs and no effect is left.
    let over = vec![Change::Run(delivered(flow_id(4), 0)), Change::Run(delivered(flow_id(4), 1))];
    done(store, carry_on(flow_id(4), 3, over)).await;
    store.effect_delivered(super::start_run(flow_id(4), 0).id).await.expect("taken out");
    done(store, carry_on(flow_id(5), 3, vec![Change::Run(delivered(flow_id(5), 1))])).await;
    for no in [0, 1] {
        store.effect_delivered(super::start_run(flow_id(5), no).id).await.expect("taken out");
    }
    let runs = async |after, limit| store.flows_with_live_runs(after, limit).await.expect("a page");
    assert_eq!(runs(None, 9).await, [2, 5].map(flow_id));
    assert_eq!(runs(None, 1).await, [flow_id(2)]);
    assert_eq!(runs(Some(flow_id(2)), 9).await, [flow_id(5)]);
    assert_eq!(runs(Some(flow_id(5)), 9).await, []);
    let effects = async |after, limit| store.flows_with_effects(after, limit).await.expect("a page");
    assert_eq!(effects(None, 9).await, [2, 4].map(flow_id));
    assert_eq!(effects(None, 1).await, [flow_id(2)]);
    assert_eq!(effects(Some(flow_id(3)), 9).await, [flow_id(4)]);
    assert_eq!(effects(Some(flow_id(4)), 9).await, []);
}

/// Flows that wait for a kind of event are found while they do, each once.
pub async fn flows_that_wait_for_an_event_are_found(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let wait = |no, event| Change::Step(step(no, waiting_for(event)));
    for number in 1..=4 {
        done(store, create(flow_id(number))).await;
    }
    let both = vec![wait(0, WaitEvent::FlowFinished), wait(1, WaitEvent::FlowFinished)];
    done(store, carry_on(flow_id(3), 1, both)).await;
    done(store, carry_on(flow_id(1), 1, vec![wait(0, WaitEvent::FlowFinished)])).await;
    done(store, carry_on(flow_id(4), 1, vec![wait(0, WaitEvent::AgentRunCompleted)])).await;
    let waiting = async |event| store.flows_waiting_for(event).await.expect("read");
    assert_eq!(waiting(WaitEvent::FlowFinished).await, [1, 3].map(flow_id));
    assert_eq!(waiting(WaitEvent::AgentRunCompleted).await, [flow_id(4)]);
    let on = Change::Step(step(0, StepState::Blocked));
    done(store, carry_on(flow_id(3), 2, vec![on.clone()])).await;
    assert_eq!(waiting(WaitEvent::FlowFinished).await, [1, 3].map(flow_id), "its other step waits still");
    done(store, carry_on(flow_id(3), 3, vec![Change::Step(step(1, StepState::Blocked))])).await;
    done(store, carry_on(flow_id(1), 2, vec![wait(0, WaitEvent::AgentRunCompleted)])).await;
    assert_eq!(waiting(WaitEvent::FlowFinished).await, []);
    assert_eq!(waiting(WaitEvent::AgentRunCompleted).await, [1, 4].map(flow_id));
}
