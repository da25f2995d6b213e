//! Tables about `start`, `decide` and `fork`: what is heard and what follows, whole values compared.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests say what went wrong by panicking")]

mod cancel;
mod clock;
mod finally;
mod foreach;
mod joins;
mod properties;
mod recovery;
mod retry;
mod runs;
mod scene;
mod slots;
