//! Tools that a tool host has beyond programs and files, as whoever puts the binary together brings them.
//!
//! They run inside the box, on a thread of their call, and may block. What a model knows about them (names, schemas, when
//! to use them) is not here: they get a name and an input that was checked against a schema outside, by somebody who is
//! not in the box, and check again whatever they rely on.

//!
//! Where to go next: [`Hands`] (what a tool host is given), [`Floor`] (what it gives to a call), [`Running`] (programs).

mod running;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::running::{Group, Heard, Program, Running};
pub(crate) use self::running::{ended, is_later};
use crate::protocol::Failure;

/// Tools that a host has beyond its own.
pub trait Hands: Sync {
    /// Their names.
    fn names(&self) -> Vec<String>;

    /// Uses one of them; on a thread of the call, which may wait. A tool that is unknown, and an input that does not fit,
    /// are failures like others.
    fn lift(&self, wanted: &Use, floor: &dyn Floor) -> Used;
}

/// What a host gives to a call.
pub trait Floor: Sync {
    /// Where relative paths count from.
    fn cwd(&self) -> &Path;

    /// The host's environment, which is what the box gives to its program.
    fn env(&self) -> &BTreeMap<String, String>;

    /// Most bytes of [`Used::text`], and what is more is cut off; none: whoever asked leaves it to the tool.
    fn bound(&self) -> Option<usize>;

    /// What is left of its time; none: no bound.
    fn left(&self) -> Option<Duration>;

    /// Whether it is to end: nobody needs its result any more.
    fn is_cancelled(&self) -> bool;

    /// Tells how far it is, in a line.
    fn progress(&self, text: &str);

    /// Starts a program, which is asked to end when the call is, and which is to be finished before the call is.
    ///
    /// # Errors
    /// When it cannot be started.
    fn start(&self, program: Program<'_>) -> Result<Running, Failure>;
}

/// No tools beyond a host's own.
#[derive(Clone, Copy, Debug)]
pub struct NoHands;

impl Hands for NoHands {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn lift(&self, wanted: &Use, _: &dyn Floor) -> Used {
        let text = format!("there is no tool `{}` here", wanted.name);
        Used { text, failed: true, ..Used::default() }
    }
}

/// A use of such a tool, as it goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Which tool.
    pub name: String,
    /// Its input.
    pub input: serde_json::Value,
    /// Files that the conversation has read or written, by their canonical path, each with the stamp that the tool gave
    /// when it did. A tool that would overwrite what was never seen, or was changed since, refuses.
    #[serde(default)]
    pub seen: BTreeMap<String, String>,
    /// What a search leaves out, as lines of an ignore file at the working directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// What came of a use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// What the model is told, already cut to the bound of the call.
    pub text: String,
    /// Whether it failed: the text says why and what helps.
    #[serde(default)]
    pub failed: bool,
    /// Files that are seen now, with their stamps; they replace what was known of them.
    #[serde(default)]
    pub seen: BTreeMap<String, String>,
    /// Where the whole result is, when the text is a part of it; a path inside.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Shells that run in the background now: as long as there are any, the host must not be let go.
    #[serde(default)]
    pub shells: u32,
}
