//! A program in a box from its beginning to its end, for whoever may wait: `git` on a copy, mostly.
//!
//! ```ignore
//! let finished = sandbox.run(BoxedCommand {
//!     confinement: &confinement,          // an empty `home` is one in memory
//!     argv: &argv,                        // looked up in the PATH of `env`, inside
//!     env: &env,                          // all of it, but HOME, TMPDIR, USER, LOGNAME, which the box sets
//!     directory: Path::new("/workspace"),      // inside
//!     stdin: Stdin::Bytes(vec![]),        // or Stdin::None, or Stdin::From(descriptor)
//!     stdout: Stdout::Kept { bytes: 1 << 20 }, // or Stdout::To(descriptor): a file, a pipe to somebody else
//!     wall: Duration::from_secs(60),
//! })?;
//! ```
//!
//! Blocks the calling thread, which must be one that may block, until everything of the box is gone: the box dies with
//! the thread that made it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orc_ports::executor::{Confinement, Exit, StartError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::time::Instant;

use crate::groups::Group;
use crate::passing;
use crate::protocol::{self, Answer, Blame, Content, Failure, Frames, Outcome};
use crate::sandbox::{Marks, Porter, Request, Sandbox, line};

/// Bytes of error output that are kept, from the end.
const STDERR_BYTES: usize = 16 * 1024;

/// A program to be run in a box.
#[derive(Debug)]
pub struct BoxedCommand<'a> {
    /// The box. An empty `home` is one in memory.
    pub confinement: &'a Confinement,
    /// Program and arguments.
    pub argv: &'a [String],
    /// Its environment; the box adds `HOME`, `TMPDIR`, `USER` and `LOGNAME`.
    pub env: &'a BTreeMap<String, String>,
    /// Working directory, inside.
    pub directory: &'a Path,
    /// What it reads.
    pub stdin: Stdin,
    /// Where its output goes.
    pub stdout: Stdout,
    /// After this it is killed.
    pub wall: Duration,
}

/// Standard input of a boxed program.
#[derive(Debug)]
pub enum Stdin {
    /// It has ended already.
    None,
    /// These bytes.
    Bytes(Vec<u8>),
    /// This descriptor: a file, or the end of a pipe that somebody else writes to.
    From(OwnedFd),
}

/// Standard output of a boxed program.
#[derive(Debug)]
pub enum Stdout {
    /// Kept in memory; with more than this the program is killed and the result is [`BoxError::TooMuch`].
    Kept {
        /// Most bytes.
        bytes: usize,
    },
    /// Into this descriptor.
    To(OwnedFd),
}

/// A boxed program that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its exit status.
    pub exit: Exit,
    /// Its output, where that was kept.
    pub stdout: Vec<u8>,
    /// The end of its error output.
    pub stderr_tail: String,
}

/// Why a boxed program did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum BoxError {
    /// It did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It ran too long and was killed.
    #[error("`{program}` did not end within {} s and was killed", wall.as_secs())]
    Wall {
        /// Which.
        program: String,
        /// How long it had.
        wall: Duration,
    },
    /// It wrote more than is kept and was killed.
    #[error("`{program}` wrote more than {bytes} bytes and was killed")]
    TooMuch {
        /// Which.
        program: String,
        /// How much it may write.
        bytes: usize,
    },
    /// The box ended before the program did.
    #[error("the box of `{program}` ended before it did: {why}")]
    Lost {
        /// Which.
        program: String,
        /// What is known.
        why: String,
    },
}

/// A box on its way: its outermost process and the ends of its pipes.
struct Running {
    leader: Pid,
    control: UnixStream,
    frames: Frames,
    stdin: Option<(File, Vec<u8>, usize)>,
    stdout: Option<File>,
    stderr: Option<File>,
    kept: Vec<u8>,
    tail: Vec<u8>,
    outcome: Option<Outcome>,
    started: bool,
    refusal: Option<String>,
    /// Removed with this, once the box is gone.
    _group: Option<Group>,
}

/// Calls of this process so far, for the names of their groups.
static CALLS: AtomicU64 = AtomicU64::new(0);

impl Sandbox {
    /// Runs a program in a box and waits for it. Blocks.
    ///
    /// # Errors
    /// When it does not come to its end by itself; an exit status that is not 0 is no error.
    pub fn run(&self, command: BoxedCommand<'_>) -> Result<Finished, BoxError> {
        let program = command.argv.first().cloned().unwrap_or_default();
        let (wall, most) = (command.wall, command.stdout.most());
        let mut running = self.begin(command).map_err(BoxError::Start)?;
        let ended = running.watch(wall, most);
        if ended.is_err() {
            running.kill();
        }
        // The outermost process ends last; with it killed, the kernel ends what is inside.
        let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(running.leader), WaitIdOptions::EXITED));
        running.drain(most);
        match ended {
            Err(Stop::Wall) => return Err(BoxError::Wall { program, wall }),
            Err(Stop::TooMuch) => return Err(BoxError::TooMuch { program, bytes: most }),
            Ok(()) if running.kept.len() > most => return Err(BoxError::TooMuch { program, bytes: most }),
            Ok(()) => {}
        }
        running.finish(program)
    }

    fn begin(&self, command: BoxedCommand<'_>) -> Result<Running, StartError> {
        let broken = |source: io::Error| StartError::Box { what: format!("no pipe for it: {source}") };
        if !command.confinement.home.as_os_str().is_empty() {
            let home = &command.confinement.home;
            self.make_private(home).map_err(|source| StartError::File { file: home.clone(), source })?;
        }
        let confinement = command.confinement;
        let group = self.group(&format!("call{}", CALLS.fetch_add(1, Ordering::Relaxed)), &confinement.limits)?;
        let groups = group.as_ref().map_or(&[][..], Group::directories);
        let request = Request { confinement, temp: None, output_bytes: 0, egress: None, groups, marks: Vec::new() };
        let frame = line::first_call(command.argv, command.env.clone(), command.directory, false);
        let frame = frame.map_err(|error| StartError::Box { what: error.to_string() })?;
        let (stdout, their_stdout) = match command.stdout {
            Stdout::Kept { .. } => {
                let (ours, theirs) = io::pipe().map_err(broken)?;
                (Some(File::from(OwnedFd::from(ours))), OwnedFd::from(theirs))
            }
            Stdout::To(fd) => (None, fd),
        };
        let (stderr, their_stderr) = io::pipe().map_err(broken)?;
        let (stdin, theirs) = match command.stdin {
            Stdin::None => (None, None),
            Stdin::From(fd) => (None, Some(fd)),
            Stdin::Bytes(bytes) => {
                let (theirs, ours) = io::pipe().map_err(broken)?;
                (Some((File::from(OwnedFd::from(ours)), bytes, 0)), Some(OwnedFd::from(theirs)))
            }
        };
        let (leader, control) = self.enter(&request, [their_stdout, their_stderr.into()], None)?;
        // It may have ended already; then its answer tells why.
        let _ = passing::send(&control, &frame, theirs.as_ref().map(AsFd::as_fd));
        let running = Running {
            leader,
            control,
            frames: Frames::default(),
            stdin,
            stdout,
            stderr: Some(File::from(OwnedFd::from(stderr))),
            kept: Vec::new(),
            tail: Vec::new(),
            outcome: None,
            started: false,
            refusal: None,
            _group: group,
        };
        running.unblock().map_err(broken)?;
        Ok(running)
    }

    /// Has `box-enter` begin with what it is to do already on its way, by the porter of this thread if there is one.
    pub(crate) fn enter(
        &self,
        request: &Request<'_>,
        [stdout, stderr]: [OwnedFd; 2],
        porter: Option<(&mut Porter, &str)>,
    ) -> Result<(Pid, UnixStream), StartError> {
        let failed = |what: String| StartError::Box { what };
        self.hand_doors_over(request)?;
        let entrance = protocol::encode(&self.entrance(request)).map_err(|error| failed(error.to_string()))?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| failed(format!("no socket for it: {error}")))?;
        // First, because it may move this process, and a porter would stay where it was started.
        let _ = self.limits();
        let executable = &self.inner.executable;
        let streams = [theirs.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let begun = porter.and_then(|(porter, instance)| porter.let_in(executable, instance, streams));
        let pid = match begun {
            Some(pid) => pid,
            None => self.start_entrance(&request.marks, [theirs.into(), stdout, stderr])?,
        };
        passing::send(&ours, &entrance, None).map_err(|error| failed(format!("`box-enter` does not read: {error}")))?;
        Ok((pid, ours))
    }

    fn start_entrance(&self, marks: &Marks, [stdin, stdout, stderr]: [OwnedFd; 3]) -> Result<Pid, StartError> {
        let executable = &self.inner.executable;
        #[expect(clippy::disallowed_methods, reason = "one of the places that start children")]
        let mut command = Command::new(executable);
        command.arg("box-enter").env_clear().envs(marks.iter().cloned()).current_dir("/").process_group(0);
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let started = command.spawn().and_then(|child| {
            // Whoever asked collects it, by its number.
            Pid::from_raw(child.id().cast_signed()).ok_or_else(|| Errno::SRCH.into())
        });
        started.map_err(|source| match Errno::from_io_error(&source) {
            Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => StartError::Exhausted { source },
            _ => StartError::Box { what: format!("cannot start `{}`: {source}", executable.display()) },
        })
    }
}

/// Why a program is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Wall,
    TooMuch,
}

/// Which descriptor has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Control,
    Stdin,
    Stdout,
    Stderr,
}

impl Stdout {
    fn most(&self) -> usize {
        match self {
            Self::Kept { bytes } => *bytes,
            Self::To(_) => 0,
        }
    }
}

impl Running {
    fn unblock(&self) -> io::Result<()> {
        let pipes = [self.stdin.as_ref().map(|(fd, ..)| fd), self.stdout.as_ref(), self.stderr.as_ref()];
        for pipe in pipes.into_iter().flatten() {
            rustix::fs::fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        rustix::fs::fcntl_setfl(&self.control, OFlags::NONBLOCK)?;
        Ok(())
    }

    fn kill(&self) {
        // Not reaped yet, so the number is still its own.
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    /// Until the control socket ends, which it does with the box.
    fn watch(&mut self, wall: Duration, most: usize) -> Result<(), Stop> {
        let end = Instant::now() + wall;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Stop::Wall);
            }
            for which in self.ready(left) {
                let is_open = match which {
                    Which::Control => self.hear(),
                    Which::Stdin => self.feed(),
                    Which::Stdout => take(&mut self.stdout, &mut self.kept),
                    Which::Stderr => take_tail(&mut self.stderr, &mut self.tail),
                };
                if which == Which::Control && !is_open {
                    return Ok(());
                }
                if self.kept.len() > most {
                    return Err(Stop::TooMuch);
                }
            }
        }
    }

    fn ready(&self, left: Duration) -> Vec<Which> {
        let (read, write) = (PollFlags::IN, PollFlags::OUT);
        let wanted: Vec<(Which, BorrowedFd<'_>, PollFlags)> = [
            Some((Which::Control, self.control.as_fd(), read)),
            self.stdin.as_ref().map(|(fd, ..)| (Which::Stdin, fd.as_fd(), write)),
            self.stdout.as_ref().map(|fd| (Which::Stdout, fd.as_fd(), read)),
            self.stderr.as_ref().map(|fd| (Which::Stderr, fd.as_fd(), read)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut polled: Vec<PollFd<'_>> =
            wanted.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        // An interrupted wait found nothing; whoever asks looks at the clock and asks again.
        let _ = poll(&mut polled, Some(&timeout));
        let is_ready = polled.iter().map(|fd| !fd.revents().is_empty());
        wanted.iter().zip(is_ready).filter(|(_, is_ready)| *is_ready).map(|((which, ..), _)| *which).collect()
    }

    /// False once nothing more comes.
    fn hear(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // A descriptor that comes with it is closed: nobody reads `$ORC_OUTPUT` here.
        match passing::receive(&self.control, &mut bytes, &mut None) {
            Ok(0) => return false,
            Ok(count) => self.frames.push(&bytes[..count]),
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
        loop {
            match self.frames.take() {
                Ok(Some(Answer::Result { outcome, .. })) => self.outcome = Some(outcome),
                Ok(Some(Answer::Error { message })) => self.refusal = Some(message),
                Ok(Some(Answer::Progress { .. })) => self.started = true,
                Ok(Some(Answer::Hello { .. } | Answer::Violation(_))) => {}
                Ok(None) => return true,
                Err(error) => {
                    self.refusal = Some(error.to_string());
                    return false;
                }
            }
        }
    }

    fn feed(&mut self) -> bool {
        let Some((fd, bytes, written)) = &mut self.stdin else { return false };
        match io::Write::write(fd, &bytes[*written..]) {
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            // It reads no more.
            Err(_) => *written = bytes.len(),
        }
        if *written == bytes.len() {
            self.stdin = None;
        }
        self.stdin.is_some()
    }

    /// What the pipes still hold once the box is gone.
    fn drain(&mut self, most: usize) {
        while self.kept.len() <= most && take(&mut self.stdout, &mut self.kept) {}
        while take_tail(&mut self.stderr, &mut self.tail) {}
    }

    fn finish(self, program: String) -> Result<Finished, BoxError> {
        let tail = String::from_utf8_lossy(&self.tail).into_owned();
        match self.outcome {
            Some(Outcome::Content(Content::Ended { exit, .. })) => {
                Ok(Finished { exit: exit.into(), stdout: self.kept, stderr_tail: tail })
            }
            Some(Outcome::Failed(failure)) => Err(BoxError::Start(refusal_of(&program, failure))),
            Some(Outcome::Content(_) | Outcome::File(_)) => {
                Err(BoxError::Lost { program, why: "it answered what nobody asked".to_owned() })
            }
            None => {
                let why = self.refusal.unwrap_or_else(|| tail.trim().to_owned());
                Err(if self.started { BoxError::Lost { program, why } } else { StartError::Box { what: why }.into() })
            }
        }
    }
}

/// A failure inside, as one of starting.
pub(crate) fn refusal_of(program: &str, failure: Failure) -> StartError {
    let source = || match failure.errno {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::other(failure.why.clone()),
    };
    match failure.what {
        Blame::Directory => StartError::Box { what: failure.why },
        Blame::Exhausted => StartError::Exhausted { source: source() },
        Blame::Program => StartError::Program { program: program.to_owned(), source: source() },
        Blame::File | Blame::Call | Blame::Box => StartError::Box { what: failure.why },
    }
}

/// False once there is nothing more now.
fn take(from: &mut Option<File>, into: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 64 * 1024];
    match from.as_mut().map(|fd| fd.read(&mut bytes)) {
        Some(Ok(count)) if count > 0 => into.extend_from_slice(&bytes[..count]),
        Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return false,
        _ => {
            *from = None;
            return false;
        }
    }
    true
}

fn take_tail(from: &mut Option<File>, tail: &mut Vec<u8>) -> bool {
    let more = take(from, tail);
    tail.drain(..tail.len().saturating_sub(STDERR_BYTES));
    more
}
