//! The executor with real processes: one module per promise. Each test has a directory and an executor of its own.
#![expect(clippy::disallowed_methods, reason = "tests start processes beside the executor and read the clock")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod ending;
mod feeding;
mod fixture;
mod output;
mod reaping;
mod starting;
