//! Flows that only wait: for people, a time, an event, a child flow. They are not in memory; of each, only its alarm is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orc_domain::ids::FlowId;
use orc_domain::time::{Millis, Timestamp};
use tokio::sync::Notify;

use crate::router::What;
use crate::shell::Shell;

/// Longest sleep: a wall clock that was set forward is noticed within this time.
const LONGEST_SLEEP: Millis = Millis::from_secs(60);

/// Their alarms.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Book {
    alarms: BTreeSet<(Timestamp, FlowId)>,
    of: BTreeMap<FlowId, Timestamp>,
}

impl Parked {
    /// Takes a flow in.
    pub(crate) fn park(&self, flow: FlowId, alarm: Timestamp) {
        let mut book = self.book();
        if let Some(before) = book.of.insert(flow, alarm) {
            book.alarms.remove(&(before, flow));
        }
        book.alarms.insert((alarm, flow));
        drop(book);
        self.changed.notify_one();
    }

    /// Gives a flow back to memory. False when it is not here.
    pub(crate) fn unpark(&self, flow: FlowId) -> bool {
        let mut book = self.book();
        let found = book.of.remove(&flow);
        if let Some(alarm) = found {
            book.alarms.remove(&(alarm, flow));
        }
        found.is_some()
    }

    /// Whether a flow is here.
    pub(crate) fn holds(&self, flow: FlowId) -> bool {
        self.book().of.contains_key(&flow)
    }

    /// All of them, in order.
    pub(crate) fn flows(&self) -> Vec<FlowId> {
        self.book().of.keys().copied().collect()
    }

    fn first(&self) -> Option<Timestamp> {
        self.book().alarms.first().map(|(at, _)| *at)
    }

    fn due(&self, now: Timestamp) -> Vec<FlowId> {
        self.book().alarms.iter().take_while(|(at, _)| *at <= now).map(|(_, flow)| *flow).collect()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rings the alarms until the program ends.
pub(crate) async fn run(shell: Arc<Shell>) {
    let ending = shell.tasks.ending();
    loop {
        let now = shell.clock.now();
        for flow in shell.parked.due(now) {
            shell.wake(flow, What::Look).await;
        }
        let sleep = shell.parked.first().map_or(LONGEST_SLEEP, |at| at.since(now).min(LONGEST_SLEEP));
        tokio::select! {
            () = ending.cancelled() => return,
            () = shell.parked.changed.notified() => {}
            () = shell.clock.sleep(sleep) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn alarms_are_those_of_the_flows_that_are_there() {
        let flow = |n| FlowId::from_uuid(Uuid::from_u128(n));
        let at = Timestamp::from_millis;
        let parked = Parked::default();
        parked.park(flow(1), at(10));
        parked.park(flow(2), at(5));
        parked.park(flow(1), at(7));
        assert_eq!(
            (parked.first(), parked.due(at(6)), parked.due(at(7))),
            (Some(at(5)), vec![flow(2)], vec![flow(2), flow(1)])
        );
        assert!(parked.unpark(flow(2)) && !parked.unpark(flow(2)) && parked.holds(flow(1)));
        assert_eq!((parked.first(), parked.flows()), (Some(at(7)), vec![flow(1)]));
    }
}
