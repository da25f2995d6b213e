//! What is old may be forgotten: only flows that are over, only events that everybody has read.

use orc_domain::effect::Change;
use orc_domain::flow::FlowState;
use orc_domain::request::Answer;
use orc_ports::store::Store;

use super::scene::{
    at, carry_on, create, delivered, done, finished, flow_id, launch, prepare, resolved, slot, start_run,
};
use super::{Place, everything};

/// A flow with a run and a request that was answered, on version 3; over if `is_over`, then on version 4.
async fn flow(store: &dyn Store, number: u32, is_over: bool) {
    let id = flow_id(number);
    done(store, create(id)).await;
    done(store, launch(id, 1, 0)).await;
    let answered = Change::Request(resolved(id, 0, 5, "ada", Answer::Approved));
    let mut end = carry_on(id, 2, vec![Change::Run(delivered(id, 0)), answered]);
    end.decision.releases = vec![slot(id, 0)];
    done(store, end).await;
    if is_over {
        let mut end = carry_on(id, 3, Vec::new());
        end.decision.changes = vec![Change::Head(finished(4))];
        done(store, end).await;
    } else {
        store.effect_delivered(start_run(id, 0).id).await.expect("delivered");
    }
}

/// A live flow, one that ended later and one that does not exist stay as they are; what goes leaves nothing but its events,
/// and its id may be used again.
pub async fn only_what_is_over_is_removed(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    flow(store, 1, true).await;
    flow(store, 2, false).await;
    flow(store, 3, true).await;
    let ended = store.flow_load(flow_id(1)).await.expect("read").expect("there").flow.head.state;
    let FlowState::Finished { at: ended, .. } = ended else { panic!("it is over") };
    let (one, live, other) = (everything(store, 1).await, everything(store, 2).await, everything(store, 3).await);
    let remove = async |number, before| store.flow_remove(flow_id(number), before).await.expect("an answer");
    assert!(!remove(1, ended).await, "it ended at that time, not before");
    assert!(!remove(2, at(i64::MAX / 2)).await, "it is not over");
    assert!(!remove(9, at(i64::MAX / 2)).await, "there is no such flow");
    assert_eq!(everything(store, 1).await, one);
    assert!(remove(1, at(i64::MAX / 2)).await);
    assert!(!remove(1, at(i64::MAX / 2)).await, "it is gone");
    let (flow_left, effects, events) = everything(store, 1).await;
    assert_eq!((flow_left, effects), (None, Vec::new()));
    assert_eq!(events, one.2, "events stay");
    assert_eq!((everything(store, 2).await, everything(store, 3).await), (live, other));
    flow(store, 1, true).await;
}

/// No event goes before every consumer has passed it, the newest one stays, and positions count on.
pub async fn events_are_removed_from_the_oldest_on(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let positions = async |after| -> Vec<u64> {
        let events = store.events_after(after, 100).await.expect("events");
        events.iter().map(|event| event.position).collect()
    };
    let remove = async |up_to| store.events_remove(up_to).await.expect("an answer");
    remove(5).await;
    flow(store, 1, true).await;
    remove(5).await;
    assert_eq!(positions(0).await, [1, 2, 3, 4], "a consumer that never read has passed nothing");
    store.consumer_advance("one", 0, 4).await.expect("moved");
    store.consumer_advance("two", 0, 2).await.expect("moved");
    remove(1).await;
    assert_eq!(positions(0).await, [2, 3, 4]);
    remove(9).await;
    assert_eq!(positions(0).await, [3, 4], "the second consumer stands at 2");
    store.consumer_advance("two", 2, 4).await.expect("moved");
    remove(9).await;
    assert_eq!(positions(0).await, [4], "the newest stays");
    flow(store, 2, false).await;
    assert_eq!(positions(0).await, [4, 5, 6, 7]);
    assert_eq!(positions(5).await, [6, 7]);
}
