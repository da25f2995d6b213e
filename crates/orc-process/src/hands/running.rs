//! Programs that a tool starts: one at the head of a group of its own, with its two outputs in one pipe, in the order in
//! which they come.
//!
//! The end of the program is the end of all: what it left in its group is killed, and no output is waited for that
//! somebody else could still write. Its standard input has ended before it starts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::inside::programs;
use crate::protocol::{Blame, Ended, Failure};

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;
/// How often that is tried after the end: more than a pipe holds by default (64 KiB), and an end, should somebody go on
/// writing.
const LAST_CHUNKS: usize = 64;

/// A program to be started.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Program and arguments; a program without `/` is looked up in the `PATH` of `env`.
    pub argv: &'a [String],
    /// Its whole environment.
    pub env: &'a BTreeMap<String, String>,
    /// Where it starts.
    pub cwd: &'a Path,
}

/// The group of a program, for whoever may have to end it; does nothing once that was collected.
#[derive(Clone, Debug)]
pub struct Group {
    leader: Arc<Mutex<Option<Pid>>>,
}

impl Group {
    pub(crate) fn new(leader: Option<Pid>) -> Self {
        Self { leader: Arc::new(Mutex::new(leader)) }
    }

    /// Asks it to end: with TERM, or, if it is to be sure, with KILL.
    pub fn end(&self, surely: bool) {
        let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        signal(*leader, if surely { Signal::KILL } else { Signal::TERM });
    }

    /// Kills it; after this its number may mean somebody else. To be called before its leader is collected.
    pub(crate) fn let_go(&self) {
        let mut leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        signal(leader.take(), Signal::KILL);
    }
}

fn signal(leader: Option<Pid>, signal: Signal) {
    let Some(leader) = leader else { return };
    // It may have ended. CONT, because a stopped program would not hear TERM.
    let _ = rustix::process::kill_process_group(leader, signal);
    let _ = rustix::process::kill_process_group(leader, Signal::CONT);
    if signal == Signal::KILL {
        // It may have gone into another group. Its number still means it: it was not collected.
        let _ = rustix::process::kill_process(leader, signal);
    }
}

/// A program that runs. To be kept on the thread that started it until it is finished; dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    ended: OwnedFd,
    output: Option<File>,
    group: Group,
}

/// What was heard of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It wrote so many bytes.
    Output(usize),
    /// Nothing, for as long as was waited.
    Nothing,
    /// It has ended; what it wrote last is heard when it is finished.
    End,
}

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn start(program: Program<'_>) -> Result<Self, Failure> {
        let exhausted = |error: io::Error| programs::failure(Blame::Exhausted, &error);
        let (output, one) = io::pipe().map_err(exhausted)?;
        let other = one.try_clone().map_err(exhausted)?;
        let streams = [Stdio::null(), one.into(), other.into()];
        let child = programs::start(program.argv, program.env, program.cwd, streams)?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let group = Group::new(pid);
        let made = (|| {
            let pid = pid.ok_or(io::ErrorKind::NotFound)?;
            let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
            rustix::fs::fcntl_setfl(output.as_fd(), OFlags::NONBLOCK)?;
            io::Result::Ok(ended)
        })();
        match made {
            Ok(ended) => Ok(Self { child, ended, output: Some(OwnedFd::from(output).into()), group }),
            Err(error) => {
                let mut child = child;
                group.let_go();
                let _ = child.wait();
                Err(exhausted(error))
            }
        }
    }

    /// Its group.
    #[must_use]
    pub fn group(&self) -> Group {
        self.group.clone()
    }

    /// Waits at most so long (none: without end) for something to hear. What it wrote is appended to `into`.
    pub fn listen(&mut self, most: Option<Duration>, into: &mut Vec<u8>) -> Heard {
        let mut watched = vec![PollFd::new(&self.ended, PollFlags::IN)];
        watched.extend(self.output.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let timeout = most.and_then(|most| Timespec::try_from(most).ok());
        let polled = rustix::io::retry_on_intr(|| poll(&mut watched, timeout.as_ref()));
        let is_over = polled.is_err() || !watched[0].revents().is_empty();
        match self.take(into) {
            _ if is_over => Heard::End,
            0 => Heard::Nothing,
            count => Heard::Output(count),
        }
    }

    /// Kills what is left of its group, collects it, and appends what was written last. One that still runs is killed.
    ///
    /// # Errors
    /// When it cannot be collected.
    pub fn finish(mut self, into: &mut Vec<u8>) -> io::Result<Ended> {
        self.group.let_go();
        let exit = self.child.wait();
        for _ in 0..LAST_CHUNKS {
            if self.take(into) == 0 {
                break;
            }
        }
        exit.map(ended)
    }

    fn take(&mut self, into: &mut Vec<u8>) -> usize {
        let Some(pipe) = &mut self.output else { return 0 };
        let mut chunk = [0; CHUNK];
        match pipe.read(&mut chunk) {
            Ok(count @ 1..) => {
                into.extend_from_slice(&chunk[..count]);
                count
            }
            Err(error) if is_later(&error) => 0,
            Ok(_) | Err(_) => {
                self.output = None;
                0
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.group.let_go();
        // Collected already, when it was finished.
        let _ = self.child.wait();
    }
}

/// How a program ended.
pub(crate) fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    }
}

/// Whether there is nothing now, but may be later.
pub(crate) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
