//! A call that runs a program, with its streams in the request and the result.
//!
//! The end of the program is the end of the call: what it left in its group is killed, and no output is waited for that
//! somebody else could still write.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags};
use tokio::time::Instant;

use super::Host;
use crate::hands::{Group, ended, is_later};
use crate::inside::programs;
use crate::protocol::{Answer, Blame, Bytes, Content, Failure, MAX_STREAM_BYTES, Outcome, Spawn, Streams};

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;
/// How often that is tried after the end, for each stream: more than a pipe holds by default (64 KiB), and an end, should
/// somebody go on writing.
const LAST_CHUNKS: usize = 64;

/// What is to be run.
pub(super) struct Wanted {
    pub(super) id: u64,
    pub(super) spawn: Spawn,
    pub(super) cwd: PathBuf,
    pub(super) deadline: Option<u64>,
    /// Most bytes of each stream.
    pub(super) bytes: usize,
}

/// An output stream.
struct Output {
    pipe: Option<File>,
    kept: Vec<u8>,
    most: usize,
    dropped: u64,
}

/// A program with its streams.
struct Running {
    child: Child,
    ended: OwnedFd,
    input: Option<(File, Vec<u8>, usize)>,
    outputs: [Output; 2],
}

impl Host {
    pub(super) fn run_program(&self, wanted: Wanted) -> Outcome {
        let Wanted { id, spawn, cwd, deadline, bytes } = wanted;
        let Streams::Captured { stdin } = spawn.streams else {
            let why = "a tool host has no streams to hand on".to_owned();
            return Outcome::Failed(Failure { what: Blame::Call, errno: None, why });
        };
        let until = deadline.and_then(|millis| Instant::now().checked_add(Duration::from_millis(millis)));
        let streams = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
        let child = match programs::start(&spawn.argv, &spawn.env, &cwd, streams) {
            Ok(child) => child,
            Err(failure) => return Outcome::Failed(failure),
        };
        let group = Group::new(Pid::from_raw(child.id().cast_signed()));
        self.watch(id, &group);
        self.say(&Answer::Progress { id, text: None });
        let mut running = match Running::new(child, stdin.0, bytes.min(MAX_STREAM_BYTES)) {
            Ok(running) => running,
            Err((mut child, error)) => {
                group.let_go();
                let _ = child.wait();
                return Outcome::Failed(programs::failure(Blame::Exhausted, &error));
            }
        };
        while !running.is_over(until) {}
        group.let_go();
        let exit = running.child.wait();
        let [stdout, stderr] = running.outputs.map(Output::finish);
        match exit {
            Ok(status) => Outcome::Content(Content::Ended {
                exit: ended(status),
                dropped: stdout.1 + stderr.1,
                stdout: stdout.0,
                stderr: stderr.0,
            }),
            Err(error) => Outcome::Failed(programs::failure(Blame::Program, &error)),
        }
    }
}

impl Running {
    fn new(mut child: Child, stdin: Vec<u8>, most: usize) -> Result<Self, (Child, io::Error)> {
        let made = (|| {
            let pid = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
            let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
            let input = child.stdin.take().map(|pipe| unblocked(pipe.into())).transpose()?;
            let stdout = child.stdout.take().map(|pipe| unblocked(pipe.into())).transpose()?;
            let stderr = child.stderr.take().map(|pipe| unblocked(pipe.into())).transpose()?;
            Ok((ended, input, [stdout, stderr]))
        })();
        match made {
            Err(error) => Err((child, error)),
            Ok((ended, input, pipes)) => {
                let outputs = pipes.map(|pipe| Output { pipe, kept: Vec::new(), most, dropped: 0 });
                let input = input.filter(|_| !stdin.is_empty()).map(|pipe| (pipe, stdin, 0));
                Ok(Self { child, ended, input, outputs })
            }
        }
    }

    /// Waits for the next thing to do and does it; true once the program has ended.
    fn is_over(&mut self, until: Option<Instant>) -> bool {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            // The group is killed by whoever asked, now that this is over.
            return true;
        }
        let mut watched = vec![PollFd::new(&self.ended, PollFlags::IN)];
        watched.extend(self.input.iter().map(|(pipe, ..)| PollFd::new(pipe, PollFlags::OUT)));
        let pipes = self.outputs.iter().filter_map(|output| output.pipe.as_ref());
        watched.extend(pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let timeout = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
        let polled = rustix::io::retry_on_intr(|| poll(&mut watched, timeout.as_ref()));
        let is_over = polled.is_err() || !watched[0].revents().is_empty();
        self.feed();
        for output in &mut self.outputs {
            output.take();
        }
        is_over
    }

    fn feed(&mut self) {
        let Some((pipe, bytes, written)) = &mut self.input else { return };
        match pipe.write(&bytes[*written..]) {
            Ok(count) => *written += count,
            Err(error) if is_later(&error) => {}
            // It does not read.
            Err(_) => *written = bytes.len(),
        }
        if *written >= bytes.len() {
            self.input = None;
        }
    }
}

fn unblocked(pipe: OwnedFd) -> io::Result<File> {
    rustix::fs::fcntl_setfl(pipe.as_fd(), OFlags::NONBLOCK)?;
    Ok(pipe.into())
}

impl Output {
    /// Reads once; false when there was nothing.
    fn take(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        let mut chunk = [0; CHUNK];
        match pipe.read(&mut chunk) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                let fits = count.min(self.most - self.kept.len());
                self.kept.extend_from_slice(&chunk[..fits]);
                self.dropped += (count - fits) as u64;
                return true;
            }
            Err(error) if is_later(&error) => {}
            Err(_) => self.pipe = None,
        }
        false
    }

    fn finish(mut self) -> (Bytes, u64) {
        for _ in 0..LAST_CHUNKS {
            if !self.take() {
                break;
            }
        }
        (Bytes(self.kept), self.dropped)
    }
}
