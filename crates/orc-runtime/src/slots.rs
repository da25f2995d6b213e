//! Who may try a slot next. The store has the last word; this book only keeps flows from trying in vain, and serves those
//! that wait in turn.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use orc_domain::ids::FlowId;

/// The book of slots.
#[derive(Debug)]
pub(crate) struct Slots {
    capacity: u32,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    used: u32,
    waiting: VecDeque<FlowId>,
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
        let first = book.waiting.front().is_none_or(|front| *front == flow);
        if first { (self.capacity + released).saturating_sub(book.used) } else { 0 }
    }

    /// Writes down what a commit of `flow` claimed and released. Who got a slot has had its turn and leaves the queue.
    pub(crate) fn settle(&self, flow: FlowId, claimed: usize, released: usize) {
        let mut book = self.book();
        if claimed > 0 {
            book.waiting.retain(|other| *other != flow);
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        book.used = book.used.saturating_add(count(claimed)).saturating_sub(count(released));
    }

    /// Puts a flow at the end of the queue unless it is in it, or takes it out.
    pub(crate) fn wait(&self, flow: FlowId, waits: bool) {
        let mut book = self.book();
        let listed = book.waiting.iter().position(|other| *other == flow);
        match (listed, waits) {
            (None, true) => book.waiting.push_back(flow),
            (Some(at), false) => {
                book.waiting.remove(at);
            }
            (None, false) | (Some(_), true) => {}
        }
    }

    /// The flow to wake if a slot is free. It stays the first, so that it may try, until it got one or wants none.
    pub(crate) fn next(&self) -> Option<FlowId> {
        let book = self.book();
        if book.used < self.capacity { book.waiting.front().copied() } else { None }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn flow(n: u128) -> FlowId {
        FlowId::from_uuid(Uuid::from_u128(n))
    }

    #[test]
    fn flows_that_wait_take_turns() {
        let slots = Slots::new(2);
        slots.settle(flow(3), 2, 0);
        slots.wait(flow(1), true);
        slots.wait(flow(2), true);
        slots.wait(flow(1), true);
        assert_eq!(slots.next(), None, "nothing is free");
        // Flow 3 gives a slot back, but others were first.
        assert_eq!(slots.hint(flow(3), 1), 0);
        slots.settle(flow(3), 0, 1);
        assert_eq!(slots.next(), Some(flow(1)));
        assert_eq!(slots.hint(flow(1), 0), 1, "whose turn it is may try, although others wait");
        assert_eq!(slots.hint(flow(2), 0), 0);
        slots.settle(flow(1), 1, 0);
        slots.wait(flow(1), true);
        assert_eq!(slots.next(), None, "it is taken");
        slots.settle(flow(3), 0, 1);
        assert_eq!(slots.next(), Some(flow(2)), "who got one and wants more stands at the end");
    }

    #[test]
    fn a_flow_that_no_longer_waits_does_not_block_others() {
        let slots = Slots::new(1);
        slots.wait(flow(1), true);
        slots.wait(flow(1), false);
        assert_eq!(slots.hint(flow(2), 0), 1);
    }
}
