//! The data directory: what lies where, and the lock that says who holds it.
//!
//! ```text
//! orchestrator.db      the store
//! lock                 held by the one process that writes; says which
//! control.sock         that process's ear (0600)
//! logs/FLOW/RUN.jsonl  output of a run
//! artifacts/FLOW/RUN/  files that were kept of a run
//! worktrees/           private copies of repositories, and what they are made from
//! temp/FLOW/STEP/      $ORC_TEMP: private to a step, kept over its attempts, removed after the flow
//! temp/FLOW/STEP.home/ the home of its boxes, likewise
//! temp/FLOW/STEP.work/ where a step without a copy works, likewise
//! temp/FLOW/RUN.out    $ORC_OUTPUT
//! ```

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::path::StepPath;
use orc_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Paths below one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir {
    root: PathBuf,
}

/// Who holds the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Its instance.
    pub instance: InstanceId,
    /// The subcommand: `run`, `flows resume`.
    pub command: String,
    /// Since when.
    pub since: Timestamp,
}

/// The lock, held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct DataLock {
    _file: File,
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It cannot be made.
    #[error("cannot make the data directory `{}`", path.display())]
    Make {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Its lock file cannot be used.
    #[error("cannot use the lock file `{}`", path.display())]
    Lock {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What became of an attempt to take the lock.
#[derive(Debug)]
pub enum Taken {
    /// It is ours.
    Ours(DataLock),
    /// Somebody else has it; `None` when they have not yet said who they are.
    Held(Option<Holder>),
}

impl DataDir {
    /// The directory at `root`; nothing is touched yet.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The store's file.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join("orchestrator.db")
    }

    /// The control socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    fn lock_file(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Logs, a directory for each flow.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The log of a run.
    #[must_use]
    pub fn log(&self, flow: FlowId, run: RunId) -> PathBuf {
        self.logs().join(flow.file_name()).join(run.file_name() + ".jsonl")
    }

    /// Conversations of built-in agents, a directory for each flow.
    #[must_use]
    pub fn conversations(&self) -> PathBuf {
        self.root.join("conversations")
    }

    /// The record of a conversation.
    #[must_use]
    pub fn conversation(&self, flow: FlowId, path: &StepPath) -> PathBuf {
        self.conversations().join(flow.file_name()).join(path.file_name() + ".jsonl")
    }

    /// Files that were kept of steps, a directory for each flow.
    #[must_use]
    pub fn kept(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// Files that were kept of a flow's steps.
    #[must_use]
    pub fn artifacts(&self, flow: FlowId) -> PathBuf {
        self.kept().join(flow.file_name())
    }

    /// One of them: of an attempt at a step, under its name.
    #[must_use]
    pub fn artifact(&self, flow: FlowId, run: RunId, name: &str) -> PathBuf {
        self.artifacts(flow).join(run.file_name()).join(name)
    }

    /// Private files of steps, a directory for each flow.
    #[must_use]
    pub fn temp(&self) -> PathBuf {
        self.root.join("temp")
    }

    /// Private files of a flow's steps; removed after the flow.
    #[must_use]
    pub fn flow_temp(&self, flow: FlowId) -> PathBuf {
        self.temp().join(flow.file_name())
    }

    /// `$ORC_TEMP` of a step.
    #[must_use]
    pub fn step_temp(&self, flow: FlowId, path: &StepPath) -> PathBuf {
        self.flow_temp(flow).join(path.file_name())
    }

    /// The home of a step's boxes.
    #[must_use]
    pub fn home(&self, flow: FlowId, path: &StepPath) -> PathBuf {
        self.flow_temp(flow).join(path.file_name() + ".home")
    }

    /// Where a step without a copy works in its box.
    #[must_use]
    pub fn work(&self, flow: FlowId, path: &StepPath) -> PathBuf {
        self.flow_temp(flow).join(path.file_name() + ".work")
    }

    /// Copies of repositories and what they are made from.
    #[must_use]
    pub fn worktrees(&self) -> PathBuf {
        self.root.join("worktrees")
    }

    /// `$ORC_OUTPUT` of a run.
    #[must_use]
    pub fn output(&self, flow: FlowId, run: RunId) -> PathBuf {
        self.flow_temp(flow).join(run.file_name() + ".out")
    }

    /// Makes the root if it is missing, closed to other users.
    ///
    /// # Errors
    /// [`DataDirError::Make`].
    pub fn make(&self) -> Result<(), DataDirError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root);
        made.map_err(|source| DataDirError::Make { path: self.root.clone(), source })
    }

    /// Tries to take the lock and writes down who has it. Never waits.
    ///
    /// # Errors
    /// [`DataDirError`] when the lock file cannot be opened, locked or written.
    pub fn lock(&self, holder: &Holder) -> Result<Taken, DataDirError> {
        let path = self.lock_file();
        let fail = |source| DataDirError::Lock { path: path.clone(), source };
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = opened.map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Taken::Held(self.holder())),
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
        let line = serde_json::to_string(holder).map_err(|error| fail(error.into()))?;
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(line.as_bytes())).map_err(fail)?;
        Ok(Taken::Ours(DataLock { _file: file }))
    }

    /// Who wrote the lock file last. Whether they still hold it only [`Self::is_held`] knows.
    #[must_use]
    pub fn holder(&self) -> Option<Holder> {
        let mut text = String::new();
        File::open(self.lock_file()).ok()?.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Whether some process holds the lock now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let Ok(file) = OpenOptions::new().read(true).open(self.lock_file()) else {
            return false;
        };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn holder() -> Holder {
        let instance = InstanceId::from_uuid(Uuid::from_u128(9));
        Holder { pid: 4, instance, command: "run".to_owned(), since: Timestamp::from_millis(5) }
    }

    #[test]
    fn the_second_taker_learns_who_was_first() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::at(dir.path().join("deep/data"));
        data.make().unwrap();
        assert!(!data.is_held());
        let Taken::Ours(lock) = data.lock(&holder()).unwrap() else { panic!("nobody else is here") };
        assert!(data.is_held());
        match data.lock(&holder()).unwrap() {
            Taken::Held(who) => assert_eq!(who, Some(holder())),
            Taken::Ours(_) => panic!("two holders"),
        }
        drop(lock);
        assert!(!data.is_held());
        assert!(matches!(data.lock(&holder()).unwrap(), Taken::Ours(_)));
    }

    #[test]
    fn a_data_directory_that_cannot_be_made_says_which() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = DataDir::at(file.join("data")).make().unwrap_err();
        assert!(error.to_string().contains("file/data"), "{error}");
    }
}
