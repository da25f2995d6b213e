//! A run that is open: who it is, what its calls used, and which of them are in flight.
//!
//! Invariant: once a way is closed no call begins, and [`Way::close`] answers when the last one is in the ledger.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use orc_domain::agent::Usage;
use orc_domain::ids::{CallId, RunId};
use orc_domain::ledger::{Account, Settlement};
use orc_domain::meter::{Owner, Refusal};
use orc_ports::gateway::{Metered, Notice, Notices, Opening};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::flight::Flight;
use crate::limiter::Parked;
use crate::till::Watched;
use crate::token::Token;

/// Memory that the requests of a run may take at once, in [`BODY_UNIT`]s: four of the largest.
const BODY_UNITS: usize = 4 * (crate::face::BODY_BYTES >> 10);
/// Bytes that are counted as one.
pub(crate) const BODY_UNIT: usize = 1 << 10;

/// An open run.
pub(crate) struct Way {
    pub(crate) run: RunId,
    pub(crate) account: Account,
    /// The model that it is to ask for.
    pub(crate) model: String,
    pub(crate) token: Token,
    /// Said once, when it is closed.
    pub(crate) closed: CancellationToken,
    /// Room for requests that are being read.
    pub(crate) bodies: Arc<Semaphore>,
    watched: Watched,
    notices: Notices,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    /// Calls that are not in the ledger with their end.
    pending: usize,
    flights: BTreeMap<CallId, Weak<Flight>>,
    metered: Metered,
}

impl Way {
    pub(crate) fn new(opening: Opening, token: Token, watched: Watched, before: Usage) -> Arc<Self> {
        let state = State { metered: Metered { usage: before, ..Metered::default() }, ..State::default() };
        Arc::new(Self {
            run: opening.run,
            account: opening.account,
            model: opening.model,
            token,
            closed: CancellationToken::new(),
            bodies: Arc::new(Semaphore::new(BODY_UNITS)),
            watched,
            notices: opening.notices,
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose walls are above its calls.
    pub(crate) fn above(&self) -> &[Owner] {
        &self.watched.owners
    }

    /// A call begins; none when the way is closed.
    pub(crate) fn begin(self: &Arc<Self>, call: CallId) -> Option<Pending> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        state.pending += 1;
        Some(Pending { way: self.clone(), call })
    }

    /// A call is in flight, and is ended when the way is closed.
    pub(crate) fn enter(&self, call: CallId, flight: &Arc<Flight>) {
        self.state().flights.insert(call, Arc::downgrade(flight));
    }

    /// A call of it was refused.
    pub(crate) fn refused(&self, refusal: Refusal) {
        self.state().metered.refused = Some(refusal);
        self.notices.tell(self.run, Notice::Refused(refusal));
    }

    /// A call of it waits for a provider that takes nothing.
    pub(crate) fn parked(&self, provider: &str, parked: &Parked) {
        let (provider, until) = (provider.to_owned(), parked.until);
        self.state().metered.parked = Some((provider.clone(), until));
        self.notices.tell(self.run, Notice::Parked { provider, until, why: parked.why.clone() });
    }

    /// A call of it was answered: it waits for nobody.
    pub(crate) fn served(&self) {
        self.state().metered.parked = None;
    }

    /// What its calls used so far, and what became of them.
    pub(crate) fn metered(&self) -> Metered {
        self.state().metered.clone()
    }

    /// Ends it: gives up what is in flight, and waits until all of it is in the ledger.
    pub(crate) async fn close(&self) -> Metered {
        let flights: Vec<Arc<Flight>> = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.flights).into_values().filter_map(|flight| flight.upgrade()).collect()
        };
        self.closed.cancel();
        flights.iter().for_each(|flight| flight.end());
        drop(flights);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let state = self.state();
                if state.pending == 0 {
                    return state.metered.clone();
                }
            }
            changed.await;
        }
    }
}

/// A call that is not in the ledger with its end; it is when this is dropped.
pub(crate) struct Pending {
    way: Arc<Way>,
    call: CallId,
}

impl Pending {
    /// It used so much, and that is written.
    pub(crate) fn settled(self, settlement: &Settlement) {
        let usage = {
            let mut state = self.way.state();
            let used = settlement.tokens.as_usage(1, settlement.micros);
            state.metered.usage = state.metered.usage.plus(used);
            state.metered.usage
        };
        self.way.notices.tell(self.way.run, Notice::Used(usage));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut state = self.way.state();
        state.pending -= 1;
        state.flights.remove(&self.call);
        drop(state);
        self.way.changed.notify_waiters();
    }
}
