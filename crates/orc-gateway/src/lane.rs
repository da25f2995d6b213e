//! The calls that are sent with one key: they wait for what the limiter says, in the order in which they came.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orc_domain::time::Timestamp;
use orc_ports::clock::Clock;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::limiter::{Admission, Failure, Limiter, Next, Parked, Ticket, Tries};
use crate::shape::{RateLimits, Times};

/// All that is sent with one key.
pub(crate) struct Lane {
    limiter: Mutex<Limiter>,
    changed: Notify,
    clock: Arc<dyn Clock>,
}

impl Lane {
    pub(crate) fn new(limits: RateLimits, times: Times, clock: Arc<dyn Clock>) -> Arc<Self> {
        let limiter = Mutex::new(Limiter::new(limits, times, clock.now()));
        Arc::new(Self { limiter, changed: Notify::new(), clock })
    }

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is sent now.
    pub(crate) fn parked(&self) -> Option<Parked> {
        self.limiter().parked(self.clock.now()).cloned()
    }

    /// Waits until a call may be sent that probably has so many tokens.
    pub(crate) async fn admit(self: &Arc<Self>, tokens: u64) -> Result<Permit, Parked> {
        let queued = Queued { lane: self, ticket: self.limiter().queue() };
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let now = self.clock.now();
            let admission = self.limiter().admit(queued.ticket, tokens, now);
            match admission {
                Admission::Go => {
                    // The next one may go, too.
                    self.changed.notify_waiters();
                    return Ok(Permit { lane: self.clone(), sent: now, guessed: tokens, used: 0 });
                }
                Admission::Parked(parked) => return Err(parked),
                Admission::Busy => changed.await,
                Admission::At(at) => {
                    tokio::select! {
                        () = changed => {}
                        () = self.clock.sleep(at.since(now)) => {}
                    }
                }
            }
        }
    }
}

impl Lane {
    /// Waits until a time, and no longer than until nothing is sent any more.
    pub(crate) async fn rest(&self, until: Timestamp) -> Result<(), Parked> {
        let mut slept = self.clock.sleep(until.since(self.clock.now()));
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(parked) = self.parked() {
                return Err(parked);
            }
            tokio::select! {
                () = &mut slept => return Ok(()),
                () = changed => {}
            }
        }
    }
}

struct Queued<'a> {
    lane: &'a Lane,
    ticket: Ticket,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.lane.limiter().leave(self.ticket);
        self.lane.changed.notify_waiters();
    }
}

/// A call that was let go; dropping it says that it is over.
pub(crate) struct Permit {
    lane: Arc<Lane>,
    sent: Timestamp,
    guessed: u64,
    used: u64,
}

impl Permit {
    /// It was taken.
    pub(crate) fn succeeded(&self) {
        self.lane.limiter().succeeded(self.sent);
        self.lane.changed.notify_waiters();
    }

    /// It was not taken, and is over.
    pub(crate) fn failed(self, tries: &mut Tries, failure: &Failure) -> Next {
        let times = (self.sent, self.lane.clock.now());
        self.lane.limiter().failed(tries, failure, times, dice())
        // Dropped here: all who wait ask again.
    }

    /// It used so many tokens, and is over.
    pub(crate) fn over(mut self, used: u64) {
        self.used = used;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.lane.limiter().over(self.sent, self.guessed, self.used);
        self.lane.changed.notify_waiters();
    }
}

/// Any number: the last bits of a fresh id are random.
fn dice() -> u32 {
    let bytes = Uuid::now_v7().into_bytes();
    u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]])
}
