//! Suites that every implementation of a port passes, the fakes included.
#![expect(clippy::expect_used, clippy::panic, reason = "a property that does not hold fails its test by a panic")]

pub mod ledger;
pub mod store;
