//! Where the tools of a run are done, as its loop sees it: a tool host in the run's box, or in tests something smaller.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use orc_domain::confine::Violation;
use orc_process::hands::{Use, Used};
use tokio_util::sync::CancellationToken;

/// Bounds of one use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most bytes of what the model is told.
    pub bytes: usize,
    /// Most milliseconds.
    pub millis: u64,
}

/// Why a use has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// What did it is gone; the next use finds another.
    #[error("what does the tools ended in the middle: {why}")]
    Lost {
        /// What is known.
        why: String,
    },
    /// There is none to be had.
    #[error("the place of the run cannot be used: {why}")]
    Broken {
        /// What is known.
        why: String,
    },
}

/// A program that ran to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Whether it ended with 0.
    pub ok: bool,
    /// Its output.
    pub stdout: String,
}

/// A file that the loop looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// There is none, or only a link.
    Nothing,
    /// What is in it.
    File(Vec<u8>),
    /// It is there and cannot be read, for this reason.
    Unread(String),
}

/// Hears that a use goes on.
pub type Progress = Arc<dyn Fn(String) + Send + Sync>;

/// Does tools, several at once.
pub trait Place: Send + Sync {
    /// Does one to its end. Cancelled, it ends what it began and answers all the same.
    fn lift<'a>(
        &'a self,
        wanted: Use,
        bounds: Bounds,
        progress: Progress,
        cancel: CancellationToken,
    ) -> BoxFuture<'a, Result<Used, PlaceError>>;

    /// Reads a file that the loop wants to know.
    fn read<'a>(&'a self, path: PathBuf) -> BoxFuture<'a, Result<Seen, PlaceError>>;

    /// Runs a short program that the loop wants to know the output of.
    fn run<'a>(&'a self, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Ran, PlaceError>>;

    /// Ends everything in it, at once if `now`, and returns when all of it is gone; what it refused.
    fn close<'a>(&'a self, now: bool) -> BoxFuture<'a, Vec<Violation>>;
}
