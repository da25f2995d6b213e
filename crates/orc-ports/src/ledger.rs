//! Where the meter writes down what calls may use and have used, and where costs are read.
//!
//! Contract: an answer of [`Ledger::reserve`] means that the reservation survives the end of the process. Entries are only added. The
//! maintained sums are, at every moment, what a fold of the entries gives. A settlement counts once, whatever is repeated.

use orc_domain::ids::{CallId, InstanceId};
use orc_domain::ledger::{CostsBy, EntryKind, Reservation, Settlement, Sum};
use orc_domain::meter::Owner;
use orc_domain::time::Timestamp;

use crate::store::{Guarded, StoreResult};

/// Which entries are meant; `None` does not narrow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostFilter {
    /// Calls that were reserved then or later.
    pub since: Option<Timestamp>,
    /// Calls that were reserved before.
    pub before: Option<Timestamp>,
    /// Calls whose value by each of these is exactly this.
    pub only: Vec<(CostsBy, String)>,
}

/// What was spent by one agent, model and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostLine {
    /// The value of each of what was asked for, in that order: a name, an id, a day as `2026-12-01`; `None`: calls without one.
    pub by: Vec<Option<String>>,
    /// The sum.
    pub sum: Sum,
}

/// A call as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// What was set aside.
    pub reservation: Reservation,
    /// What became of it: none while it is in flight.
    pub end: Option<CallEnd>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// Settled, estimated or lost.
    pub kind: EntryKind,
    /// The settlement; none when it was lost.
    pub settlement: Option<Settlement>,
    /// When.
    pub at: Timestamp,
}

/// Reads what calls used and cost, for the gateway, for budgets and for people.
pub trait CostReader: Send + Sync {
    /// What counts below a wall: calls of the run, of the flow, of those who named it in [`Reservation::above`]; below
    /// [`Owner::Gateway`] what belongs to no run. From the maintained sums, with what is in flight.
    fn spent(&self, owner: Owner) -> StoreResult<'_, Sum>;

    /// Costs by what is asked for, at most `limit` lines: the dearest first, of equal ones by their values in the order of
    /// [`CostsBy::ALL`], calls without a value first. The last answer is the sum of all lines, shown or not.
    fn costs(&self, by: Vec<CostsBy>, filter: CostFilter, limit: u32) -> StoreResult<'_, (Vec<CostLine>, Sum)>;

    /// Calls, the newest id first, those before `before`, at most `limit`.
    fn calls(&self, filter: CostFilter, before: Option<CallId>, limit: u32) -> StoreResult<'_, Vec<CallRecord>>;
}

/// Keeps the ledger. No figure of an entry is beyond [`orc_domain::ledger::MOST`]: what is, is kept as that.
pub trait Ledger: CostReader {
    /// Writes down what is set aside for a call of an instance that has begun and is not over; anything else breaks the
    /// contract, for nobody would find the call again. The same call twice is `Stale` and writes nothing.
    fn reserve(&self, reservation: Reservation) -> StoreResult<'_, Guarded>;

    /// Writes down what a call used. `Missing` without a reservation, `Stale` when it is over already. A kind that no
    /// settlement has breaks the contract.
    fn settle(&self, settlement: Settlement) -> StoreResult<'_, Guarded>;

    /// Ends every call in flight of an instance as lost; how many there were. The end of an instance
    /// ([`crate::store::Store::instance_end`]) does the same.
    fn lose(&self, instance: InstanceId, at: Timestamp) -> StoreResult<'_, u64>;
}
