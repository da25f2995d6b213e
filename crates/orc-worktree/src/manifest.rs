//! The row of a copy: a file beside its layers, written whole and flushed before anything that depends on it happens.
//!
//! It says who has the copy, where it started and whether what is in it is saved. Only this module reads and writes it.
//! A directory without a row that can be read is not ours to touch: it counts as live.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orc_domain::ids::{InstanceId, RunId};
use orc_domain::time::Timestamp;
use orc_domain::tree::{CommitId, Conflict, Repository, Tree};
use orc_ports::worktrees::{Conversation, WorktreeError};
use serde::{Deserialize, Serialize};

use crate::files;
use crate::strategy::Strategy;

const FILE: &str = "copy.json";

/// A copy of the repositories of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The flow.
    pub(crate) flow: orc_domain::ids::FlowId,
    /// The step.
    pub(crate) path: orc_domain::path::StepPath,
    /// The run that has it, or had it last.
    pub(crate) run: RunId,
    /// The instance whose run has it; none: nobody has it.
    pub(crate) lease: Option<InstanceId>,
    /// What is in it.
    pub(crate) content: Content,
    /// When it was made.
    pub(crate) since: Timestamp,
    /// How it was made.
    pub(crate) strategy: Strategy,
    /// Its repositories.
    pub(crate) parts: Vec<Part>,
    /// The conflict that was left in it.
    pub(crate) conflict: Option<Conflict>,
    /// What people should know of its last harvest.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

/// What is known about the content of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Content {
    /// It is being made; no program of a run has seen it.
    Making,
    /// A run works or worked in it, and what it did is not saved.
    Unsaved,
    /// References hold it.
    Saved,
}

/// A repository in a copy. Paths are relative to the root of all of this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Which.
    pub(crate) repository: Repository,
    /// Where it is in the box.
    pub(crate) at: PathBuf,
    /// The commit that it started from.
    pub(crate) start: CommitId,
    /// The second side of the merge that was left in it.
    pub(crate) theirs: Option<CommitId>,
    /// The commit of the ground that it stands on.
    pub(crate) ground: CommitId,
    /// The ground and those below it, the topmost first. With a strategy other than `overlay` the first alone counts.
    pub(crate) layers: Vec<PathBuf>,
    /// Its directory: with `overlay` that of its changes.
    pub(crate) directory: PathBuf,
}

impl Manifest {
    /// Reads the row in the directory of a copy; none: there is no copy.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, WorktreeError> {
        let path = directory.join(FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(files::failed("read", &path)(error)),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| files::failed("read", &path)(error.into()))
    }

    /// Writes the row.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), WorktreeError> {
        let path = directory.join(FILE);
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| files::failed("write", &path)(error.into()))?;
        files::write_whole(&path, &bytes)
    }

    /// Whose it is.
    pub(crate) fn conversation(&self) -> Conversation {
        Conversation { flow: self.flow, path: self.path.clone() }
    }

    /// What it started from.
    pub(crate) fn start(&self) -> Tree {
        Tree(self.parts.iter().map(|part| (part.repository.path.clone(), part.start.clone())).collect())
    }
}
