//! Tools that a tool host has beyond programs and files, as whoever puts the binary together brings them.
//!
//! They run inside the box, on a thread of their call, and may block. What a model knows about them (names, schemas, when
//! to use them) is not here: they get a name and an input that was checked against a schema outside, by somebody who is
//! not in the box, and check again whatever they rely on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
