//! Who may try a slot next. The store has the last word; this book only keeps flows from trying in vain, and serves those
//! that wait in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orc_domain::graph::PRIORITY_AGE;
use orc_domain::ids::FlowId;
use orc_domain::time::Timestamp;

/// The book of slots.
#[derive(Debug)]
pub(crate) struct Slots {
    capacity: u32,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    used: u32,
    /// Who waits, the first first: by when it got in line, as if earlier for its priority, then by arrival.
    waiting: BTreeSet<(Timestamp, u64, FlowId)>,
    places: BTreeMap<FlowId, (Timestamp, u64)>,
    arrivals: u64,
}

impl Slots {
    pub(crate) fn new(capacity: u32) -> Self {
        Self { capacity, book: Mutex::default() }
    }

    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How many slots a decision of `flow` may try, if it gives `released` back itself. None while others wait before it.
    pub(crate) fn hint(&self, flow: FlowId, released: u32) -> u32 {
        let book = self.book();
        let first = book.waiting.first().is_none_or(|(_, _, first)| *first == flow);
        if first { (self.capacity + released).saturating_sub(book.used) } else { 0 }
    }

    /// Writes down what a commit of `flow` claimed and released. Who got a slot has had its turn and leaves the queue.
    pub(crate) fn settle(&self, flow: FlowId, claimed: usize, released: usize) {
        let mut book = self.book();
        if claimed > 0 {
            book.leave(flow);
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        book.used = book.used.saturating_add(count(claimed)).saturating_sub(count(released));
    }

    /// Puts a flow in line at `now` unless it stands in it, or takes it out. A flow that waits keeps the place it got first;
    /// a higher priority counts as time waited, so that nobody waits for ever.
    pub(crate) fn wait(&self, flow: FlowId, priority: Option<i16>, now: Timestamp) {
        let mut book = self.book();
        match priority {
            None => book.leave(flow),
            Some(priority) if !book.places.contains_key(&flow) => book.line_up(flow, priority, now),
            Some(_) => {}
        }
    }

    /// The flow to wake if a slot is free. It stays the first, so that it may try, until it got one or wants none.
    pub(crate) fn next(&self) -> Option<FlowId> {
        let book = self.book();
        if book.used < self.capacity { book.waiting.first().map(|(_, _, flow)| *flow) } else { None }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn line_up(&mut self, flow: FlowId, priority: i16, now: Timestamp) {
        let worth = i64::from(priority) * i64::try_from(PRIORITY_AGE.as_millis()).unwrap_or(i64::MAX);
        let rank = Timestamp::from_millis(now.as_millis().saturating_sub(worth));
        self.arrivals += 1;
        self.places.insert(flow, (rank, self.arrivals));
        self.waiting.insert((rank, self.arrivals, flow));
    }

    fn leave(&mut self, flow: FlowId) {
        if let Some((rank, arrival)) = self.places.remove(&flow) {
            self.waiting.remove(&(rank, arrival, flow));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn flow(n: u128) -> FlowId {
        FlowId::from_uuid(Uuid::from_u128(n))
    }

    #[test]
    fn flows_that_wait_take_turns() {
        let slots = Slots::new(2);
        slots.settle(flow(3), 2, 0);
        slots.wait(flow(1), Some(0), NOW);
        slots.wait(flow(2), Some(0), NOW);
        slots.wait(flow(1), Some(0), NOW);
        assert_eq!(slots.next(), None, "nothing is free");
        // Flow 3 gives a slot back, but others were first.
        assert_eq!(slots.hint(flow(3), 1), 0);
        slots.settle(flow(3), 0, 1);
        assert_eq!(slots.next(), Some(flow(1)));
        assert_eq!(slots.hint(flow(1), 0), 1, "whose turn it is may try, although others wait");
        assert_eq!(slots.hint(flow(2), 0), 0);
        slots.settle(flow(1), 1, 0);
        slots.wait(flow(1), Some(0), NOW);
        assert_eq!(slots.next(), None, "it is taken");
        slots.settle(flow(3), 0, 1);
        assert_eq!(slots.next(), Some(flow(2)), "who got one and wants more stands at the end");
    }

    #[test]
    fn a_flow_that_no_longer_waits_does_not_block_others() {
        let slots = Slots::new(1);
        slots.wait(flow(1), Some(0), NOW);
        slots.wait(flow(1), None, NOW);
        assert_eq!(slots.hint(flow(2), 0), 1);
    }

    #[test]
    fn priority_counts_as_time_waited() {
        let slots = Slots::new(1);
        let later = |secs| NOW + orc_domain::time::Millis::from_secs(secs);
        slots.wait(flow(1), Some(0), NOW);
        slots.wait(flow(2), Some(1), later(299));
        assert_eq!(slots.next(), Some(flow(2)), "a point is worth five minutes");
        slots.wait(flow(2), None, later(299));
        slots.wait(flow(3), Some(1), later(301));
        assert_eq!(slots.next(), Some(flow(1)), "and no more");
    }
}
