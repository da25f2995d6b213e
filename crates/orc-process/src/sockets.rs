//! Places for the sockets of proxies: short, because the path of a unix socket holds 108 bytes (unix(7)) and data directories
//! may lie deep, and closed to other users.

use std::cell::{Cell, OnceCell};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory of this process, made when the first socket is wanted and removed with this.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    directory: OnceCell<PathBuf>,
    count: Cell<u64>,
}

impl Sockets {
    /// A path at which nothing is.
    pub(crate) fn next(&self) -> io::Result<PathBuf> {
        let directory = match self.directory.get() {
            Some(directory) => directory,
            None => {
                let made = make()?;
                self.directory.get_or_init(|| made)
            }
        };
        self.count.set(self.count.get() + 1);
        Ok(directory.join(self.count.get().to_string()))
    }
}

/// In a directory that everybody may write to only a name that was free is safe.
fn make() -> io::Result<PathBuf> {
    let pid = std::process::id();
    let mut last = io::Error::other("no name is free");
    for turn in 0..100 {
        let directory = Path::new("/tmp").join(format!(".orchestrator-{pid}-{turn}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Drop for Sockets {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.get() {
            // A socket that is left in it is of no use to anybody.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}
