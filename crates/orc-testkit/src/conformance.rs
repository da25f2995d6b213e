//! Suites that every implementation of a port passes, the fakes included.

pub mod store;
