//! git outside of any box: only ever on repositories of our own, and to read from a source.
//!
//! Invariants: nothing of the environment reaches it; no configuration but ours and that of the repository it works on;
//! no hook, no file system monitor, no other protocol than reading a directory of this machine, and that only where it
//! was asked for. Every call ends: at its wall all of its processes are killed. Never call it on a directory that an
//! agent could have written to.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use orc_ports::worktrees::WorktreeError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::files;

/// The first git that private copies can be made with: its `merge-tree` writes trees and takes attributes from a commit
/// (release notes of 2.38 and 2.41).
const NEEDED: (u32, u32) = (2, 41);

/// How long one call may take. Reading a source of many gigabytes for the first time is the longest.
const WALL_SECONDS: i64 = 1800;
/// Bytes of output that are kept in memory.
const OUTPUT_BYTES: u64 = 64 << 20;
/// Bytes of error output that are kept.
const ERROR_BYTES: u64 = 16 << 10;

/// What every call is told. `safe.directory` has to be in a file: git takes no variable from us for the process that it
/// starts on a source. A merge never runs a driver: only those of this file could be known, and there is none.
const CONFIGURATION: &str = "\
[safe]
\tdirectory = *
[core]
\thooksPath = /dev/null
\tfsmonitor = false
\tfsync = committed
\tcommitGraph = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[protocol]
\tallow = never
[advice]
\tdetachedHead = false
[fetch]
\twriteCommitGraph = false
[uploadpack]
\tallowAnySHA1InWant = true
";

/// Runs git with an environment of ours.
#[derive(Debug)]
pub(crate) struct Git {
    program_path: String,
    home: PathBuf,
    configuration: PathBuf,
}

/// What a call said.
#[derive(Debug)]
pub(crate) struct Said {
    /// Its exit status; negative: the signal that ended it.
    pub(crate) code: i32,
    /// Its output.
    pub(crate) output: Vec<u8>,
    /// Its error output, cut.
    pub(crate) error: String,
}

impl Said {
    /// The output as one line of text.
    pub(crate) fn line(&self) -> String {
        String::from_utf8_lossy(&self.output).trim_end().to_owned()
    }
}

/// A call that is being put together.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    git: &'a Git,
    directory: &'a Path,
    repository: &'a str,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    input: Input,
    into: Option<File>,
}

#[derive(Debug)]
enum Input {
    Bytes(Vec<u8>),
    File(File),
}

impl Git {
    /// Writes the configuration below `root`. `program_path` is the `PATH` by which programs are found.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn new(root: &Path, program_path: String) -> Result<Self, WorktreeError> {
        let home = root.join("git");
        let configuration = home.join("config");
        files::make_directory(&home)?;
        files::write_whole(&configuration, CONFIGURATION.as_bytes())?;
        Ok(Self { program_path, home, configuration })
    }

    /// A call in `directory`; `repository` is its name in messages.
    pub(crate) fn at<'a>(&'a self, directory: &'a Path, repository: &'a str) -> Call<'a> {
        Call {
            git: self,
            directory,
            repository,
            arguments: Vec::new(),
            variables: Vec::new(),
            input: Input::Bytes(Vec::new()),
            into: None,
        }
    }

    /// The `PATH` by which programs are found.
    pub(crate) fn program_path(&self) -> &str {
        &self.program_path
    }
}

/// Why a git cannot be used that calls itself so (`git version 2.40.1`), if it cannot. A version that cannot be read is not
/// called old.
#[must_use]
pub fn too_old(said: &str) -> Option<String> {
    let version = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return None };
    let (least, least_minor) = NEEDED;
    ((major, minor) < NEEDED)
        .then(|| format!("git {version} is too old: private copies need {least}.{least_minor} or later"))
}

impl Call<'_> {
    /// Adds arguments.
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    pub(crate) fn var(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// What it reads.
    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// A file that it reads.
    pub(crate) fn input_file(mut self, file: File) -> Self {
        self.input = Input::File(file);
        self
    }

    /// Where its output goes instead of into memory.
    pub(crate) fn output_file(mut self, file: File) -> Self {
        self.into = Some(file);
        self
    }

    /// Runs it; its exit status is the caller's to judge.
    pub(crate) fn run(self, what: &'static str) -> Result<Said, WorktreeError> {
        let repository = self.repository.to_owned();
        let failed = |why: String| WorktreeError::Git { what, repository: repository.clone(), why };
        let (mut child, input) = self.spawn().map_err(|source| {
            failed(if source.kind() == std::io::ErrorKind::NotFound {
                format!("there is no program `git`; install git {}.{} or later", NEEDED.0, NEEDED.1)
            } else {
                source.to_string()
            })
        })?;
        match talk(&mut child, input) {
            Ok(said) => Ok(said),
            Err(why) => {
                end(&mut child);
                Err(failed(why))
            }
        }
    }

    /// Runs it; another exit status than 0 is an error.
    pub(crate) fn done(self, what: &'static str) -> Result<Said, WorktreeError> {
        let repository = self.repository.to_owned();
        let said = self.run(what)?;
        if said.code == 0 { Ok(said) } else { Err(WorktreeError::Git { what, repository, why: reason(&said) }) }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "git on repositories of our own: no agent's program, ended by its wall and waited for right here"
    )]
    fn spawn(self) -> std::io::Result<(Child, Vec<u8>)> {
        let Self { git, directory, arguments, variables, input, into, .. } = self;
        let mut command = Command::new("git");
        command.args(arguments).current_dir(directory).env_clear().process_group(0);
        command
            .env("PATH", &git.program_path)
            .env("HOME", &git.home)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", &git.configuration)
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .envs(variables);
        let mut bytes = Vec::new();
        match input {
            Input::File(file) => command.stdin(file),
            Input::Bytes(given) => {
                bytes = given;
                command.stdin(Stdio::piped())
            }
        };
        command.stdout(into.map_or_else(Stdio::piped, Stdio::from)).stderr(Stdio::piped());
        Ok((command.spawn()?, bytes))
    }
}

/// What git gave as its reason: its last lines without the word `fatal`.
pub(crate) fn reason(said: &Said) -> String {
    let lines: Vec<&str> = said.error.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join("; ");
    let plain = last.replace("fatal: ", "").replace("error: ", "");
    if plain.is_empty() { format!("it ended with status {}", said.code) } else { plain }
}

/// Feeds and hears a child until it is gone; `Err` when it has to be ended.
fn talk(child: &mut Child, input: Vec<u8>) -> Result<Said, String> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // A program that does not want to read any more says so by its exit status.
                let _ = stdin.write_all(&input);
            }
        });
        let heard = scope.spawn(move || stdout.map(|pipe| hear(pipe, OUTPUT_BYTES)).unwrap_or_default());
        let errors = scope.spawn(move || stderr.map(|pipe| hear(pipe, ERROR_BYTES)).unwrap_or_default());
        if let Err(why) = wait(child) {
            // The pipes close with the group, so that the threads end.
            end(child);
            return Err(why);
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        let (output, cut) = heard.join().unwrap_or_default();
        if cut {
            return Err(format!("it says more than {OUTPUT_BYTES} bytes"));
        }
        let (error, _) = errors.join().unwrap_or_default();
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap_or(1));
        Ok(Said { code, output, error: String::from_utf8_lossy(&error).into_owned() })
    })
}

/// Reads to the end, keeping at most `bytes`.
fn hear(mut pipe: impl Read, bytes: u64) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    let _ = pipe.by_ref().take(bytes).read_to_end(&mut kept);
    let rest = std::io::copy(&mut pipe, &mut std::io::sink()).unwrap_or(0);
    (kept, rest > 0)
}

fn wait(child: &Child) -> Result<(), String> {
    let pid = pid_of(child).ok_or("it has no process id")?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| error.to_string())?;
    let wall = Timespec { tv_sec: WALL_SECONDS, tv_nsec: 0 };
    loop {
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut fds, Some(&wall)) {
            Ok(0) => return Err(format!("it does not end within {WALL_SECONDS} s")),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn end(child: &mut Child) {
    if let Some(pid) = pid_of(child) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.wait();
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_git_is_known_by_its_number() {
        for (said, older) in [
            ("git version 2.40.9", true),
            ("git version 1.99", true),
            ("git version 2.41.0", false),
            ("git version 2.47.3 (Apple Git-1)", false),
            ("git version 3.0", false),
            ("git", false),
        ] {
            assert_eq!(too_old(said).is_some(), older, "{said}");
        }
        let why = too_old("git version 2.40.9").unwrap();
        assert_eq!(why, "git 2.40.9 is too old: private copies need 2.41 or later");
    }
}
