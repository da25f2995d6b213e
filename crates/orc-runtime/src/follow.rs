//! Following a flow: its events, in order, from any point on, until it is over. Nothing is missed by whoever comes late
//! and nothing is kept in memory for whoever is slow, because the event log is read again after each commit.

use std::sync::Arc;

use orc_domain::event::{Event, Fact};
use orc_domain::ids::FlowId;
use orc_domain::time::Millis;
use orc_ports::reader::Reader;
use orc_ports::store::StoreError;
use tokio::sync::watch;

use crate::dispatcher::Dispatcher;
use crate::shell::Trouble;

/// Events read at once.
const PAGE: u32 = 512;

/// Pause between two reads of a flow that keeps changing: each read costs the store more than it tells.
const REST: Millis = Millis::from_millis(30);

/// Something to show.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// The next events, in order.
    Events(Vec<Event>),
    /// What keeps the instance from going on, or that nothing does any more.
    Trouble(Option<Trouble>),
    /// Nothing happened for a while: time to draw ages again.
    Quiet,
    /// The flow is over and all its events were given.
    End,
}

/// A reader of one flow's events.
pub struct Follower {
    reader: Arc<dyn Reader>,
    clock: Arc<dyn orc_ports::clock::Clock>,
    commits: watch::Receiver<u64>,
    trouble: watch::Receiver<Option<Trouble>>,
    flow: FlowId,
    position: u64,
    live: watch::Receiver<usize>,
    over: bool,
    /// Events were given a moment ago.
    is_resting: bool,
}

impl Follower {
    /// Follows `flow` from the event after `position`.
    #[must_use]
    pub fn new(dispatcher: &Dispatcher, flow: FlowId, position: u64) -> Self {
        let (commits, mut trouble) = (dispatcher.commits(), dispatcher.trouble());
        if trouble.borrow().is_some() {
            // Whoever comes late is told what everybody else knows.
            trouble.mark_changed();
        }
        let (reader, clock) = (Arc::clone(dispatcher.reader()), Arc::clone(dispatcher.clock()));
        Self {
            reader,
            clock,
            commits,
            trouble,
            flow,
            position,
            live: dispatcher.live_flows(),
            over: false,
            is_resting: false,
        }
    }

    /// Waits for the next thing to show, at most `patience`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next(&mut self, patience: Millis) -> Result<Seen, StoreError> {
        if std::mem::take(&mut self.is_resting) && !self.over {
            // A flow that ends is told at once; other news may wait for the next drawing.
            tokio::select! {
                () = self.clock.sleep(REST) => {}
                _ = self.live.changed() => {}
            }
        }
        loop {
            // Marked as seen before the read: a commit during the read wakes the next wait.
            self.commits.borrow_and_update();
            let events = self.reader.events(Some(self.flow), self.position, PAGE).await?;
            if let Some(last) = events.last() {
                self.position = last.position;
                self.over |= events.iter().any(|event| matches!(event.body.fact, Fact::FlowFinished { .. }));
                self.is_resting = true;
                return Ok(Seen::Events(events));
            }
            if self.over {
                return Ok(Seen::End);
            }
            tokio::select! {
                changed = self.commits.changed() => if changed.is_err() { return Ok(Seen::End) },
                changed = self.trouble.changed() => if changed.is_ok() {
                    let trouble = self.trouble.borrow_and_update().clone();
                    return Ok(Seen::Trouble(trouble));
                },
                () = self.clock.sleep(patience) => return Ok(Seen::Quiet),
            }
        }
    }
}
