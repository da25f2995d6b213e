//! From a [`Launch`] to a process: its files, its program, the spawn itself.
//!
//! Nothing runs between fork and exec (no `pre_exec`), so that the standard library can use `posix_spawn`: forking a
//! process of a gigabyte is fifty times slower. It does so only for a program given by its path, hence our own look-up.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use orc_ports::executor::{Hosting, Launch, StartError};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::boxed::{Begun, Control};
use crate::proc::{self, Seen};

/// A process that was just started, with everything that tells of it.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: Pid,
    pub(crate) seen: Seen,
    /// Readable once the process has ended.
    pub(crate) handle: AsyncFd<OwnedFd>,
    /// `None` when it reads nothing.
    pub(crate) stdin: Option<AsyncFd<OwnedFd>>,
    /// `None` when it is spoken with.
    pub(crate) stdout: Option<AsyncFd<OwnedFd>>,
    pub(crate) stderr: AsyncFd<OwnedFd>,
}

/// A process that was just made, and our ends of its streams.
#[derive(Debug)]
pub(crate) struct Newborn {
    pub(crate) pid: Pid,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: OwnedFd,
}

/// Makes the folder of `$ORC_OUTPUT`, and the private directory if the command line names it: a directory for each of a
/// thousand steps that want none costs more than the steps. The output file is the program's to make; what somebody else
/// put in its place is not its output.
pub(crate) fn prepare(launch: &Launch) -> Result<(), StartError> {
    let failed = |file: &Path| {
        let file = file.to_owned();
        move |source| exhausted(source).unwrap_or_else(|source| StartError::File { file, source })
    };
    let make = |folder: &Path| DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder));
    if let Some(folder) = launch.output.parent() {
        make(folder)?;
    }
    if launch.argv.iter().any(|argument| argument.contains("ORC_TEMP")) {
        make(&launch.temp)?;
    }
    match fs::remove_file(&launch.output) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&launch.output)(error)),
        _ => Ok(()),
    }
}

/// Starts the process; must be called on the executor's own thread, inside its event loop.
pub(crate) fn spawn(launch: &Launch, instance: &str) -> Result<Started, StartError> {
    let wanted = Wanted { argv: &launch.argv, env: &launch.env, directory: &launch.directory };
    let path = find_program(&wanted).map_err(|source| refusal(launch, Cause::Program(source)))?;
    let mut command = build_command(launch, &path, instance).map_err(|source| StartError::Exhausted { source })?;
    let child = command.spawn().map_err(|source| refusal(launch, explain(&wanted, &path, source)))?;
    Newborn::of(child).and_then(adopt).map_err(|source| StartError::Exhausted { source })
}

#[expect(clippy::disallowed_methods, reason = "this is the place that starts children")]
fn build_command(launch: &Launch, path: &Path, instance: &str) -> io::Result<Command> {
    let mut command = Command::new(path);
    command
        .args(launch.argv.iter().skip(1))
        .current_dir(&launch.directory)
        .env_clear()
        .envs(&launch.env)
        .env("ORC_INSTANCE", instance)
        .env("ORC_RUN_ID", launch.run.to_string())
        .env("ORC_OUTPUT", &launch.output)
        .env("ORC_TEMP", &launch.temp)
        .process_group(0)
        .stderr(Stdio::piped());
    match &launch.host {
        Some(Hosting { socket, .. }) => command.stdin(socket.try_clone()?).stdout(socket.try_clone()?),
        None => command.stdin(if is_fed(launch) { Stdio::piped() } else { Stdio::null() }).stdout(Stdio::piped()),
    };
    if let Some(name) = launch.argv.first() {
        command.arg0(name);
    }
    Ok(command)
}

/// Whether there is anything to read for it.
fn is_fed(launch: &Launch) -> bool {
    launch.stdin.as_ref().is_some_and(|bytes| !bytes.is_empty())
}

/// Takes over a box that was begun.
pub(crate) fn adopt_box(begun: Begun) -> Result<(Started, Control), StartError> {
    let Begun { newborn, control } = begun;
    let started = adopt(newborn).map_err(|source| StartError::Exhausted { source })?;
    Ok((started, control))
}

impl Newborn {
    fn of(mut child: Child) -> io::Result<Self> {
        let pid = Pid::from_raw(child.id().cast_signed()).ok_or(Errno::SRCH)?;
        let (stdin, stdout) = (child.stdin.take().map(OwnedFd::from), child.stdout.take().map(OwnedFd::from));
        let stderr = child.stderr.take().ok_or(Errno::BADF)?.into();
        Ok(Self { pid, stdin, stdout, stderr })
    }
}

/// Takes a process over, or ends it.
fn adopt(newborn: Newborn) -> io::Result<Started> {
    let pid = newborn.pid;
    watch(newborn).inspect_err(|_| abandon(pid))
}

fn watch(newborn: Newborn) -> io::Result<Started> {
    let Newborn { pid, stdin, stdout, stderr } = newborn;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let number = pid.as_raw_pid();
    let start_ticks = proc::stat(number)?.start_ticks;
    Ok(Started {
        pid,
        seen: Seen { pid: number, start_ticks },
        handle: proc::watch(handle)?,
        stdin: stdin.map(|fd| unblocked(fd, Interest::WRITABLE)).transpose()?,
        stdout: stdout.map(|fd| unblocked(fd, Interest::READABLE)).transpose()?,
        stderr: unblocked(stderr, Interest::READABLE)?,
    })
}

fn unblocked(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // Of our end only: the program keeps a pipe that blocks, as programs expect.
    rustix::fs::fcntl_setfl(&fd, OFlags::NONBLOCK)?;
    proc::watch_for(fd, interest)
}

/// Ends a process that cannot be watched; it has hardly begun.
fn abandon(pid: Pid) {
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
}

/// A program that is wanted, here or in a box.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) argv: &'a [String],
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) directory: &'a Path,
}

/// What is to blame for a program that did not start.
#[derive(Debug)]
pub(crate) enum Cause {
    Directory(io::Error),
    Program(io::Error),
    Exhausted(io::Error),
}

/// The path of the program: as given when it has a `/`, else from the `PATH` that the process will see. Relative paths
/// count from the working directory.
pub(crate) fn find_program(wanted: &Wanted<'_>) -> io::Result<PathBuf> {
    let program = wanted.argv.first().map_or("", String::as_str);
    let refuse = |kind: ErrorKind, why: &str| Err(io::Error::new(kind, why));
    if program.is_empty() {
        return refuse(ErrorKind::InvalidInput, "no program is named");
    }
    if program.contains('/') {
        return Ok(wanted.directory.join(program));
    }
    let Some(path) = wanted.env.get("PATH") else {
        return refuse(ErrorKind::NotFound, "it is not a path, and its environment has no PATH to look it up in");
    };
    let mut closed = false;
    for directory in path.split(':') {
        let candidate = wanted.directory.join(directory).join(program);
        match fs::metadata(&candidate) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => return Ok(candidate),
            Ok(found) => closed |= found.is_file(),
            Err(error) => closed |= error.kind() == ErrorKind::PermissionDenied,
        }
    }
    if closed {
        return refuse(ErrorKind::PermissionDenied, "it is in PATH but may not be executed");
    }
    refuse(ErrorKind::NotFound, &format!("not found in PATH `{path}`"))
}

/// Says which of program, directory and machine is to blame; the system gives one number for all of them.
pub(crate) fn explain(wanted: &Wanted<'_>, path: &Path, source: io::Error) -> Cause {
    if is_exhausted(&source) {
        return Cause::Exhausted(source);
    }
    if let Err(source) = rustix::fs::access(wanted.directory.join("."), rustix::fs::Access::EXEC_OK) {
        return Cause::Directory(source.into());
    }
    Cause::Program(if source.kind() == ErrorKind::NotFound && path.exists() {
        io::Error::new(ErrorKind::NotFound, "the interpreter named in its first line does not exist")
    } else {
        source
    })
}

fn refusal(launch: &Launch, cause: Cause) -> StartError {
    match cause {
        Cause::Directory(source) => StartError::Directory { directory: launch.directory.clone(), source },
        Cause::Program(source) => {
            StartError::Program { program: launch.argv.first().cloned().unwrap_or_default(), source }
        }
        Cause::Exhausted(source) => StartError::Exhausted { source },
    }
}

fn is_exhausted(source: &io::Error) -> bool {
    matches!(Errno::from_io_error(source), Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE))
}

/// `Ok` when the machine has run out of processes, memory or descriptors; else the error again.
fn exhausted(source: io::Error) -> Result<StartError, io::Error> {
    if is_exhausted(&source) { Ok(StartError::Exhausted { source }) } else { Err(source) }
}
