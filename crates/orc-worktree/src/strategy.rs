//! How copies are made on this machine, found out by doing it.
//!
//! The choice is stated, never a silent fallback: whoever wants a plain copy, which costs time and disk for every run,
//! says so.

use std::fmt;
use std::path::{Path, PathBuf};

use orc_domain::time::Millis;
use orc_ports::executor::{Mount, Source};
use serde::{Deserialize, Serialize};

use crate::files::{self, Owner};
use crate::inside::{self, Boxes, Exchange, Script, with_cause};

/// How a copy is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// A layer for changes over layers that nobody changes, mounted by each box for itself. Needs root.
    Overlay,
    /// A snapshot of a btrfs subvolume.
    Btrfs,
    /// A plain copy of all files.
    Clone,
}

impl Strategy {
    /// The word in settings, manifests and lists.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Btrfs => "btrfs",
            Self::Clone => "clone",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What the settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The best of those that share what is not changed.
    Auto {
        /// Whether a plain copy will do when there is none.
        allow_clone: bool,
    },
    /// This one and no other.
    Fixed(Strategy),
}

/// What this machine can do in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Whether overlays work; if not, why.
    pub overlay: Result<(), String>,
    /// Whether snapshots work; if not, why.
    pub btrfs: Result<(), String>,
}

/// Why there is no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategyError {
    /// The one that was asked for does not work here.
    #[error("`{strategy}` does not work in `{}`: {why}", directory.display())]
    Impossible {
        /// Which.
        strategy: Strategy,
        /// Where.
        directory: PathBuf,
        /// Why.
        why: String,
    },
    /// Only plain copies would work, and nobody allowed them.
    #[error(
        "no private copies without copying every file in `{}`: overlay: {overlay}; btrfs: {btrfs}. Start as root, move the \
         data directory to a btrfs file system, or allow it with `strategy: clone`",
        directory.display()
    )]
    NoSharing {
        /// Where.
        directory: PathBuf,
        /// Why no overlay.
        overlay: String,
        /// Why no snapshot.
        btrfs: String,
    },
}

impl Probed {
    /// Decides.
    ///
    /// # Errors
    /// When what was asked for is impossible, or nothing is left that was allowed.
    pub fn choose(&self, choice: Choice, directory: &Path) -> Result<Strategy, StrategyError> {
        let impossible = |strategy: Strategy| {
            move |why: &String| StrategyError::Impossible {
                strategy,
                directory: directory.to_owned(),
                why: why.clone(),
            }
        };
        match choice {
            Choice::Fixed(Strategy::Clone) => Ok(Strategy::Clone),
            Choice::Fixed(Strategy::Overlay) => {
                self.overlay.as_ref().map(|()| Strategy::Overlay).map_err(impossible(Strategy::Overlay))
            }
            Choice::Fixed(Strategy::Btrfs) => {
                self.btrfs.as_ref().map(|()| Strategy::Btrfs).map_err(impossible(Strategy::Btrfs))
            }
            Choice::Auto { allow_clone } => match (&self.overlay, &self.btrfs) {
                (Ok(()), _) => Ok(Strategy::Overlay),
                (_, Ok(())) => Ok(Strategy::Btrfs),
                _ if allow_clone => Ok(Strategy::Clone),
                (Err(overlay), Err(btrfs)) => Err(StrategyError::NoSharing {
                    directory: directory.to_owned(),
                    overlay: overlay.clone(),
                    btrfs: btrfs.clone(),
                }),
            },
        }
    }
}

/// What an overlay has to be able to do: to move a directory of a lower layer, and to replace one.
const OVERLAY: &str = "\
set -e
cd \"$W\"
mv kept moved
[ -f moved/file ]
rm -r gone
mkdir gone
[ -z \"$(ls gone)\" ]
";

/// Finds out what works in `root`.
pub(crate) fn probe(root: &Path, boxes: &dyn Boxes, owner: Option<Owner>, snapshots: &Snapshots) -> Probed {
    Probed { overlay: probe_overlay(root, boxes, owner), btrfs: snapshots.probe(root) }
}

fn probe_overlay(root: &Path, boxes: &dyn Boxes, owner: Option<Owner>) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it needs root".to_owned());
    }
    let told = |error: orc_ports::worktrees::WorktreeError| with_cause(&error);
    let exchange = Exchange::new(root, owner).map_err(told)?;
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| exchange.path.join(name));
    for directory in [&lower, &upper, &work, &lower.join("kept"), &lower.join("gone")] {
        files::make_open(directory, owner).map_err(told)?;
    }
    for file in ["kept/file", "gone/file"] {
        std::fs::write(lower.join(file), "x").map_err(|error| error.to_string())?;
    }
    let script = Script {
        text: OVERLAY,
        env: vec![("W", crate::WORK.to_owned())],
        mounts: vec![Mount {
            source: Source::Layers { lower: vec![lower.clone()], upper, work },
            at: PathBuf::from(crate::WORK),
            writable: true,
        }],
        exchange: &exchange.path,
        wall: Millis::from_secs(30),
    };
    inside::run(boxes, "move a directory", "an overlay", script).map_err(told)?;
    if lower.join("kept/file").exists() { Ok(()) } else { Err("it changed its lower layer".to_owned()) }
}

/// Snapshots of btrfs subvolumes, made by its own program.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    program_path: String,
}

/// What a btrfs file system calls itself in `statfs`.
const BTRFS_MAGIC: u64 = 0x9123_683e;

impl Snapshots {
    /// `program_path` is the `PATH` by which `btrfs` is found.
    pub(crate) const fn new(program_path: String) -> Self {
        Self { program_path }
    }

    fn probe(&self, root: &Path) -> Result<(), String> {
        let found = rustix::fs::statfs(root).map_err(|error| error.to_string())?;
        if u64::try_from(found.f_type).ok() != Some(BTRFS_MAGIC) {
            return Err("the file system is not btrfs".to_owned());
        }
        let trash = root.join("trash");
        let one = files::beside(&trash.join("probe"));
        let two = files::beside(&trash.join("probe"));
        let done = self.make(&one).and_then(|()| self.snapshot(&one, &two));
        self.remove(&two);
        self.remove(&one);
        for left in [&one, &two] {
            files::remove_tree(left, &trash).map_err(|error| with_cause(&error))?;
        }
        done
    }

    /// Makes an empty subvolume.
    pub(crate) fn make(&self, path: &Path) -> Result<(), String> {
        self.run(&["subvolume", "create"], &[path])
    }

    /// Makes a snapshot that can be written to.
    pub(crate) fn snapshot(&self, of: &Path, path: &Path) -> Result<(), String> {
        self.run(&["subvolume", "snapshot"], &[of, path])
    }

    /// Lets nobody write to it any more.
    pub(crate) fn seal(&self, path: &Path) -> Result<(), String> {
        self.run(&["property", "set", "-ts"], &[path, Path::new("ro"), Path::new("true")])
    }

    /// Removes a subvolume at once; one that cannot be removed so is left to be removed file by file.
    pub(crate) fn remove(&self, path: &Path) {
        let _ = self.run(&["property", "set", "-ts"], &[path, Path::new("ro"), Path::new("false")]);
        let _ = self.run(&["subvolume", "delete"], &[path]);
    }

    /// Removes a subvolume, and leaves everything else alone.
    pub(crate) fn remove_if(&self, path: &Path) {
        let on_btrfs =
            rustix::fs::statfs(path).is_ok_and(|found| u64::try_from(found.f_type).ok() == Some(BTRFS_MAGIC));
        if on_btrfs {
            self.remove(path);
        }
    }

    /// Bytes that no other snapshot has.
    pub(crate) fn own_bytes(&self, path: &Path) -> u64 {
        let said = self.say(&["filesystem", "du", "-s", "--raw"], &[path]).unwrap_or_default();
        let last = said.lines().last().unwrap_or_default();
        last.split_whitespace().nth(1).and_then(|exclusive| exclusive.parse().ok()).unwrap_or(0)
    }

    fn run(&self, arguments: &[&str], paths: &[&Path]) -> Result<(), String> {
        self.say(arguments, paths).map(|_| ())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "btrfs on directories of our own: no agent's program, and waited for right here"
    )]
    fn say(&self, arguments: &[&str], paths: &[&Path]) -> Result<String, String> {
        let said = std::process::Command::new("btrfs")
            .args(arguments)
            .args(paths)
            .env_clear()
            .env("PATH", &self.program_path)
            .env("LC_ALL", "C")
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(|error| format!("`btrfs` cannot be started ({error}); install btrfs-progs"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if said.status.success() { Ok(text(&said.stdout)) } else { Err(text(&said.stderr)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_copy_is_made_only_when_it_was_allowed() {
        let nothing = Probed { overlay: Err("no root".to_owned()), btrfs: Err("ext4".to_owned()) };
        let everything = Probed { overlay: Ok(()), btrfs: Ok(()) };
        let at = Path::new("data");
        assert!(matches!(
            nothing.choose(Choice::Auto { allow_clone: false }, at),
            Err(StrategyError::NoSharing { .. })
        ));
        assert_eq!(nothing.choose(Choice::Auto { allow_clone: true }, at), Ok(Strategy::Clone));
        for strategy in [Strategy::Overlay, Strategy::Btrfs] {
            assert!(matches!(
                nothing.choose(Choice::Fixed(strategy), at),
                Err(StrategyError::Impossible { strategy: refused, .. }) if refused == strategy
            ));
        }
        assert_eq!(everything.choose(Choice::Fixed(Strategy::Clone), at), Ok(Strategy::Clone));
        assert_eq!(everything.choose(Choice::Auto { allow_clone: true }, at), Ok(Strategy::Overlay));
    }
}
