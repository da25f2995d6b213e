//! The till: sets aside what a call could use and counts what it used, in the meter and in the ledger.
//!
//! A call that has to wait for what others in flight hold waits in the order in which calls came, for the wall at which it
//! stands; calls below other walls pass it by. What was set aside is given back whatever becomes of the call: by its
//! settlement, or when [`Aside`] is dropped. The entries of a call are written by one task of its own, which nobody can
//! give up half-way: first its reservation, then, whenever that comes, its settlement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orc_domain::ids::CallId;
use orc_domain::ledger::{Reservation, Settlement};
use orc_domain::meter::{Amount, Ask, Grant, Limits, Meter, Owner, Refusal, Verdict};
use orc_domain::time::Millis;
use orc_ports::clock::Clock;
use orc_ports::ledger::Ledger;
use orc_ports::store::{Guarded, StoreError};
use tokio::sync::oneshot;

use crate::beside::Beside;

/// How often a settlement is written before it is left to the next start, which counts the call as lost.
const TRIES: u32 = 6;
/// How long after the first failure; each time it is twice as long.
const PAUSE: Millis = Millis::from_millis(100);

/// The till.
pub(crate) struct Till {
    state: Mutex<State>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    beside: Beside,
}

#[derive(Default)]
struct State {
    meter: Meter,
    /// How many runs have a wall above them.
    watched: BTreeMap<Owner, usize>,
    waiting: Vec<Waiter>,
}

struct Waiter {
    call: CallId,
    above: Vec<Owner>,
    ask: Ask,
    tell: oneshot::Sender<Result<Aside, Refusal>>,
}

/// What was set aside in the meter. Dropping it says that nothing was used.
pub(crate) struct Aside {
    till: Arc<Till>,
    call: CallId,
    /// What was granted.
    pub(crate) grant: Grant,
    is_over: bool,
}

impl Aside {
    /// The call used so much.
    pub(crate) fn settle(mut self, used: Amount) {
        self.give_back(used);
    }

    fn give_back(&mut self, used: Amount) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.till.state().meter.settle(self.call, used);
            self.till.serve();
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.give_back(Amount::default());
    }
}

/// Walls that are watched for a run.
pub(crate) struct Watched {
    till: Arc<Till>,
    /// Whose they are, each once.
    pub(crate) owners: Vec<Owner>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let State { meter, watched, .. } = &mut *self.till.state();
        for owner in &self.owners {
            let left = watched.get_mut(owner).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                watched.remove(owner);
                meter.forget(*owner);
            }
        }
    }
}

/// The entries of one call.
pub(crate) struct Book {
    /// Answers when the reservation is written, or was not.
    pub(crate) reserved: oneshot::Receiver<Result<(), Unwritten>>,
    /// Takes the settlement.
    pub(crate) settle: oneshot::Sender<Settlement>,
}

/// Why a call has no reservation in the ledger.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unwritten {
    /// The ledger failed.
    #[error("the ledger cannot be written")]
    Ledger {
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The ledger has the call already.
    #[error("the ledger has the call `{call}` already")]
    Known {
        /// Which.
        call: CallId,
    },
}

impl Till {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, clock: Arc<dyn Clock>, beside: Beside) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), ledger, clock, beside })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the walls above a run, knowing what was spent below them before, until the answer is dropped; by then all
    /// calls of the run have to be in the ledger.
    pub(crate) async fn watch(self: &Arc<Self>, walls: &[(Owner, Limits)]) -> Result<Watched, StoreError> {
        let mut owners: Vec<Owner> = walls.iter().map(|(owner, _)| *owner).collect();
        owners.sort_unstable();
        owners.dedup();
        {
            // Counted first: nobody forgets what was spent below a wall while it is asked for.
            let watched = &mut self.state().watched;
            owners.iter().for_each(|owner| *watched.entry(*owner).or_default() += 1);
        }
        let watched = Watched { till: self.clone(), owners };
        for (owner, limits) in walls {
            let knows = self.state().meter.knows(*owner);
            let spent = if knows { Amount::default() } else { self.ledger.spent(*owner).await?.amount() };
            self.state().meter.watch(*owner, *limits, spent);
        }
        // Limits that were raised may let somebody go.
        self.serve();
        Ok(watched)
    }

    /// Sets aside what a call could use, as soon as that is there.
    pub(crate) async fn set_aside(
        self: &Arc<Self>,
        call: CallId,
        above: Vec<Owner>,
        ask: Ask,
    ) -> Result<Aside, Refusal> {
        let (tell, told) = oneshot::channel();
        self.state().waiting.push(Waiter { call, above, ask, tell });
        self.serve();
        match told.await {
            Ok(told) => told,
            // The till keeps every sender until it has answered.
            Err(_) => std::future::pending().await,
        }
    }

    /// Answers all who wait and for whom there is an answer.
    fn serve(self: &Arc<Self>) {
        let mut answers = Vec::new();
        {
            let State { meter, waiting, .. } = &mut *self.state();
            let mut full: BTreeSet<Owner> = BTreeSet::new();
            for waiter in std::mem::take(waiting) {
                if waiter.tell.is_closed() {
                    continue;
                }
                let verdict = if waiter.above.iter().any(|owner| full.contains(owner)) {
                    meter.refusal(&waiter.above, &waiter.ask).map(Verdict::Refused)
                } else {
                    Some(meter.reserve(waiter.call, &waiter.above, &waiter.ask))
                };
                match verdict {
                    Some(Verdict::Granted(grant)) => {
                        answers.push((
                            waiter.tell,
                            Ok(Aside { till: self.clone(), call: waiter.call, grant, is_over: false }),
                        ));
                    }
                    Some(Verdict::Refused(refusal)) => answers.push((waiter.tell, Err(refusal))),
                    Some(Verdict::Wait(owner)) => {
                        full.insert(owner);
                        waiting.push(waiter);
                    }
                    None => waiting.push(waiter),
                }
            }
        }
        for (tell, answer) in answers {
            // Whoever went meanwhile: what was set aside is dropped here, and with it given back.
            let _ = tell.send(answer);
        }
    }

    /// Writes a call down, and its settlement when that comes; then `written` is called.
    pub(crate) fn book(
        self: &Arc<Self>,
        reservation: Reservation,
        written: impl FnOnce(Option<Settlement>) + Send + 'static,
    ) -> Book {
        let (tell, reserved) = oneshot::channel();
        let (settle, settled) = oneshot::channel::<Settlement>();
        let till = self.clone();
        self.beside.spawn("entries of a call", async move {
            let call = reservation.call;
            let answer = match till.ledger.reserve(reservation).await {
                Ok(Guarded::Updated) => Ok(()),
                Ok(Guarded::Stale | Guarded::Missing) => Err(Unwritten::Known { call }),
                Err(source) => Err(Unwritten::Ledger { source }),
            };
            let is_written = answer.is_ok();
            // Whoever asked may have gone: the settlement comes all the same.
            let _ = tell.send(answer);
            let settlement = if is_written { settled.await.ok() } else { None };
            if let Some(settlement) = &settlement {
                till.write(settlement).await;
            }
            written(settlement);
        });
        Book { reserved, settle }
    }

    async fn write(&self, settlement: &Settlement) {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match self.ledger.settle(settlement.clone()).await {
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(call = %settlement.call, %error, "cannot write what a call used; trying again")
                }
            }
            self.clock.sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
        if let Err(error) = self.ledger.settle(settlement.clone()).await {
            tracing::error!(call = %settlement.call, %error, "what a call used is not written: it will count as lost");
        }
    }
}
