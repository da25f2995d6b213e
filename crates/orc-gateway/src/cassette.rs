//! Cassettes: calls of a model with their answers, written down as they come, and played again without a provider.
//!
//! A cassette is a file of JSON lines: what was asked, the head of the answer, each piece of it as it came, how it ended.
//! A call whose end is missing was cut by a crash. Which recorded call answers a request is found by its **track** (model,
//! system text, first words of the user, tools; ids, dates and places left out) and by its **position** in it: calls of a
//! track are played in their order, one that asks exactly the same first, because conversations that begin alike may run
//! side by side. Then the whole request is compared.
//!
//! It must never: hold an answer in memory, keep a credential (they are put in behind the seam; known values are taken out
//! all the same), or answer with a call of another conversation. Where to go next: `tape` for the file, `recorder`,
//! `player`, `canonical` for what counts as the same request, `normal` for what is left out of tracks.

mod canonical;
mod masked;
mod normal;
mod player;
mod recorder;
mod tape;

use std::path::PathBuf;

pub use self::player::{Player, Strictness};
pub use self::recorder::{Place, Recorder, Tapes};

/// Why a cassette cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// Its file cannot be opened.
    #[error("cannot open the cassette `{}`", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Somebody else records into it.
    #[error("the cassette `{}` is being recorded by another process", path.display())]
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// Its file cannot be read.
    #[error("cannot read the cassette `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Its file cannot be written.
    #[error("cannot write the cassette `{}`", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line of it is not what a cassette has.
    #[error("line {line} of `{}` is no line of a cassette: {why}", path.display())]
    Line {
        /// Which.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

#[cfg(test)]
mod tests;
