//! Traits to the outside world, one file each; ring 2. No implementation lives here, only contracts and the shapes that
//! cross them. `orc-testkit` holds a conformance suite per trait; every implementation, fakes included, passes it.

pub mod adapter;
pub mod clock;
pub mod executor;
pub mod gateway;
pub mod harness;
pub mod ledger;
pub mod log;
pub mod notifier;
pub mod reader;
pub mod rulebook;
pub mod store;
pub mod worktrees;
