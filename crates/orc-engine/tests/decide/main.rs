//! Tables about `start`, `decide` and `fork`: what is heard and what follows, whole values compared.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

mod agents;
mod cancel;
mod children;
mod clock;
mod finally;
mod foreach;
mod fork_from;
mod gateway;
mod groups;
mod holds;
mod joins;
mod matrix;
mod outputs;
mod priority;
mod properties;
mod recovery;
mod repeat;
mod requests;
mod retry;
mod runs;
mod scene;
mod slots;
mod trees;
mod waits;
mod walls;
