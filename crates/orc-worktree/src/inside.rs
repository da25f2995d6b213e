//! git in a box: everything that touches a copy or a ground.
//!
//! What comes back is written by programs that may have met an agent's files, so it is data to check: lengths are
//! bounded, names are parsed, and the box has no network, no secret and nothing of the machine but what it is to work on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orc_domain::time::Millis;
use orc_ports::executor::{Mount, Source};
use orc_ports::worktrees::WorktreeError;

use crate::files;

/// Where the directory lies by which a box and we exchange files.
pub(crate) const EXCHANGE: &str = "/orc/trees";

/// A command for a box without network.
#[derive(Clone, Debug)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// What is mounted, in this order.
    pub mounts: Vec<Mount>,
    /// The home of its user, a directory of the machine.
    pub home: PathBuf,
    /// How long it may take; then everything in the box is killed.
    pub wall: Millis,
    /// Bytes of output that are kept.
    pub output_bytes: u64,
}

/// What a command in a box said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its exit status; none: it was ended, by a signal or at its wall.
    pub code: Option<i32>,
    /// Its output.
    pub output: Vec<u8>,
    /// Its error output, cut.
    pub error: String,
}

/// Runs commands in boxes and waits for them; nothing of a command is left when it returns.
pub trait Boxes: Send + Sync {
    /// Runs one.
    ///
    /// # Errors
    /// Why there is no box, and what helps.
    fn run(&self, command: Command) -> Result<Said, String>;
}

/// A script of ours, to be run in a box.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    /// The text, for `/bin/sh`.
    pub(crate) text: &'static str,
    /// Variables.
    pub(crate) env: Vec<(&'static str, String)>,
    /// What is mounted beside the exchange.
    pub(crate) mounts: Vec<Mount>,
    /// The directory of the machine that is the exchange.
    pub(crate) exchange: &'a Path,
    /// How long it may take.
    pub(crate) wall: Millis,
}

/// What a script said, field by field: each is a key, a space and a value, ended by a zero byte.
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// The last value of a key.
    pub(crate) fn get<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.all(key).last()
    }

    /// All values of a key.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Bytes of the fields of a script.
const FIELD_BYTES: u64 = 1 << 20;

/// Runs a script; another end than by exit status 0 is an error.
pub(crate) fn run(
    boxes: &dyn Boxes,
    what: &'static str,
    of: &str,
    script: Script<'_>,
) -> Result<Fields, WorktreeError> {
    let mut env: BTreeMap<String, String> = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("LC_ALL", "C"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("E", EXCHANGE),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    env.extend(script.env.into_iter().map(|(name, value)| (name.to_owned(), value)));
    let mut mounts = script.mounts;
    mounts.push(Mount {
        source: Source::Path(script.exchange.to_owned()),
        at: PathBuf::from(EXCHANGE),
        writable: true,
    });
    let command = Command {
        argv: ["/bin/sh", "-c", script.text].map(str::to_owned).to_vec(),
        env,
        mounts,
        home: script.exchange.join("home"),
        wall: script.wall,
        output_bytes: FIELD_BYTES,
    };
    let said = boxes.run(command).map_err(|what| WorktreeError::Box { what })?;
    if said.code == Some(0) {
        return Ok(fields(&said.output));
    }
    let lines: Vec<&str> = said.error.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut why = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join("; ");
    if why.is_empty() {
        why = said.code.map_or_else(
            || format!("it was ended, or took longer than {} s", script.wall.as_millis() / 1000),
            |code| format!("it ended with status {code}"),
        );
    }
    Err(WorktreeError::Git { what, repository: of.to_owned(), why })
}

/// An error with its causes in one line.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {}", with_cause(cause)))
}

fn fields(output: &[u8]) -> Fields {
    let text = String::from_utf8_lossy(output);
    let read = |field: &str| field.split_once(' ').map(|(key, value)| (key.to_owned(), value.to_owned()));
    Fields(text.split('\0').filter_map(read).collect())
}

/// A directory for one exchange; it goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Where.
    pub(crate) path: PathBuf,
    trash: PathBuf,
}

impl Exchange {
    /// Makes one below `root`.
    pub(crate) fn new(root: &Path, owner: Option<files::Owner>) -> Result<Self, WorktreeError> {
        let trash = root.join("trash");
        let path = files::beside(&trash.join("exchange"));
        files::make_open(&path, owner)?;
        Ok(Self { path, trash })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if let Err(error) = files::remove_tree(&self.path, &self.trash) {
            tracing::warn!(%error, "an exchange with a box stays until the next start");
        }
    }
}
