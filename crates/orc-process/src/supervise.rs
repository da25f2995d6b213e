//! One run from its start to its report.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all, pending};
use futures_util::stream::FuturesUnordered;
use orc_domain::confine::{Violation, ViolationKind};
use orc_domain::run::Process;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::executor::{self, Exit, Launch, OutputFile, Report, StartError, Tap};
use orc_ports::log::LogKind;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process_group, waitid,
};
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::boxed::{self, Control, News};
use crate::family::Target;
use crate::input::{Input, Turn};
use crate::launch::{self, Started};
use crate::log::{RunLog, Stream};
use crate::proc::{self, Seen};
use crate::redact::{Redactor, redact};
use crate::supervisor::Shared;

/// What a pipe can hold at most without privileges (`/proc/sys/fs/pipe-max-size` as shipped): once the processes are
/// gone, more than this comes from somebody who is none of ours.
const PIPE_BYTES: usize = 1024 * 1024;
/// How long to wait before looking again where nothing tells when to: at a process without memory (in the middle of
/// `exec`, or on its way out), and when the machine gives no descriptor to wait on.
const LOOK_AGAIN: Millis = Millis::from_millis(1);

/// One of the two pipes.
#[derive(Debug)]
struct Pipe {
    /// `None` once it has ended.
    fd: Option<AsyncFd<OwnedFd>>,
    output: Output,
}

/// Where what is read from a pipe goes.
#[derive(Debug)]
struct Output {
    stream: Stream,
    source: executor::Stream,
    tap: Option<Tap>,
    redactor: Redactor,
}

/// What may be left of a run whose leader is reaped.
enum Rest {
    /// To be killed and waited for.
    Targets(Vec<Target>),
    /// Something ended; look again.
    Changed,
    /// Something cannot be told yet; look again a little later.
    Unsettled,
    /// All of it is gone.
    Nothing,
}

/// A run whose process lives.
#[derive(Debug)]
pub(crate) struct Supervised {
    launch: Launch,
    pid: Pid,
    handle: AsyncFd<OwnedFd>,
    stdin: Input,
    stdout: Pipe,
    stderr: Pipe,
    log: RunLog,
    killed: bool,
    /// Its box, if it is in one.
    control: Option<Control>,
    /// Refusals that the log has.
    noted: BTreeSet<(ViolationKind, String)>,
    shared: Rc<Shared>,
}

/// Who waits to hear whether a run began.
pub(crate) type Asker = (Process, oneshot::Sender<Result<Process, StartError>>);

/// Starts the process of a run. In a box its program has not begun when this returns.
pub(crate) fn start(mut launch: Launch, shared: &Rc<Shared>) -> Result<(Process, Supervised), StartError> {
    let mut log = RunLog::new(launch.log.clone(), launch.limits.log_bytes);
    let spawned = match launch.confinement.take() {
        None => {
            launch::prepare(&launch).and_then(|()| launch::spawn(&launch, &shared.instance_name)).map(|one| (one, None))
        }
        Some(confinement) => boxed::begin(&launch, &confinement, shared)
            .and_then(launch::adopt_box)
            .map(|(started, control)| (started, Some(control))),
    };
    let (Started { pid, seen, handle, stdin, stdout, stderr }, control) =
        spawned.inspect_err(|error| log.note(shared.clock.now(), describe_failure(error)))?;
    shared.family.borrow_mut().insert(launch.run, seen);
    log.remark(shared.clock.now(), format!("started as process {}", seen.pid));
    let process = Process { pid: seen.pid, start_ticks: seen.start_ticks, instance: shared.instance };
    let stdin = Input::new(stdin, launch.stdin.take().unwrap_or_default());
    let output = |kind, source| {
        let redactor = Redactor::new(launch.secrets.clone());
        Output { stream: Stream::new(kind), source, tap: launch.tap.clone(), redactor }
    };
    let supervised = Supervised {
        pid,
        handle,
        stdin,
        stdout: Pipe { fd: stdout, output: output(LogKind::Stdout, executor::Stream::Stdout) },
        stderr: Pipe { fd: Some(stderr), output: output(LogKind::Stderr, executor::Stream::Stderr) },
        launch,
        log,
        killed: false,
        control,
        noted: BTreeSet::new(),
        shared: Rc::clone(shared),
    };
    Ok((process, supervised))
}

fn describe_failure(error: &StartError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Supervised {
    /// Ends when everything of the run is gone. `stops` brings the grace time of each request to end it; `asker` hears
    /// whether it began. `None`: it did not, and that was said.
    pub(crate) async fn run(mut self, stops: UnboundedReceiver<Millis>, asker: Asker) -> Option<Report> {
        let asker = self.watch(stops, asker).await;
        self.end_input();
        let (leader, escaped) = self.end().await;
        let news = self.control.as_mut().map(Control::take).unwrap_or_default();
        let asker = self.note_news(news, asker);
        let violations = match &mut self.control {
            Some(control) => control.violations().await,
            None => Vec::new(),
        };
        // What its proxy and its limits refused is known only now.
        violations.iter().for_each(|violation| self.note_violation(violation));
        if let (Some((_, reply)), Some(control)) = (asker, &mut self.control)
            && !control.is_started()
        {
            let error = control.not_started();
            self.log.note(self.shared.clock.now(), describe_failure(&error));
            let _ = reply.send(Err(error));
            return None;
        }
        let exit = self.control.as_ref().map_or(leader, |control| control.exit(leader));
        for pipe in [&mut self.stdout, &mut self.stderr] {
            pipe.drain(&mut self.log, &self.shared);
        }
        let at = self.shared.clock.now();
        let how = match exit {
            Exit::Code(code) => format!("ended with exit code {code}"),
            Exit::Signal(signal) => format!("ended by signal {signal}"),
        };
        let left =
            if escaped == 0 { String::new() } else { format!("; {escaped} processes that had left it were killed") };
        if exit == Exit::Code(0) && escaped == 0 {
            self.log.remark(at, how);
        } else {
            self.log.note(at, how + &left);
        }
        let output = self.read_output();
        let last_line = self.stderr.output.stream.last_line().or_else(|| self.stdout.output.stream.last_line());
        Some(Report {
            run: self.launch.run,
            exit,
            output,
            last_line: last_line.unwrap_or_default(),
            escaped,
            violations,
            log_error: self.log.into_error(),
        })
    }

    fn read_output(&self) -> OutputFile {
        let limit = self.launch.limits.output_bytes;
        let read = match &self.control {
            None => read_output(&self.launch.output, limit),
            Some(control) => control.output().map_or(OutputFile::Bytes(Vec::new()), |run| read_output_in(run, limit)),
        };
        match read {
            OutputFile::Bytes(bytes) => OutputFile::Bytes(redact(&self.launch.secrets, bytes)),
            other => other,
        }
    }

    /// Tells what a box said: that the program runs, and what it was refused.
    fn note_news(&mut self, news: Vec<News>, mut asker: Option<Asker>) -> Option<Asker> {
        for one in news {
            match one {
                News::Started => {
                    if let Some((process, reply)) = asker.take() {
                        // Dropping the question undoes nothing.
                        let _ = reply.send(Ok(process));
                    }
                }
                News::Refused(violation) => self.note_violation(&violation),
                News::Full(violation) => {
                    self.note_violation(&violation);
                    self.kill();
                }
            }
        }
        asker
    }

    /// Writes a refusal into the log, once; `SandboxViolation` is its name in the events too.
    fn note_violation(&mut self, violation: &Violation) {
        let Violation { kind, what, count } = violation;
        if self.noted.insert((*kind, what.clone())) {
            let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
            self.log.note(self.shared.clock.now(), format!("SandboxViolation: {}: {what}{times}", kind.word()));
        }
    }

    /// Takes output and requests until the leader has ended. Gives back who still waits to hear whether it began.
    async fn watch(&mut self, mut stops: UnboundedReceiver<Millis>, asker: Asker) -> Option<Asker> {
        let mut asker = Some(asker);
        if self.control.is_none() {
            asker = self.note_news(vec![News::Started], asker);
        }
        let shared = Rc::clone(&self.shared);
        let mut shortest: Option<Millis> = None;
        let mut timers: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                _ = self.handle.readable() => return asker,
                news = hear(self.control.as_mut(), &shared) => asker = self.note_news(news, asker),
                guard = ready(self.stdout.fd.as_ref()) => {
                    match take(guard, &mut self.stdout.output, &mut self.log, &self.shared) {
                        Taken::All => {}
                        Taken::Part => yield_now().await,
                        Taken::End => self.stdout.fd = None,
                    }
                }
                guard = ready(self.stderr.fd.as_ref()) => {
                    match take(guard, &mut self.stderr.output, &mut self.log, &self.shared) {
                        Taken::All => {}
                        Taken::Part => yield_now().await,
                        Taken::End => self.stderr.fd = None,
                    }
                }
                turn = self.stdin.write() => if turn != Turn::More {
                    self.end_input();
                },
                Some(grace) = stops.recv() => {
                    if shortest.is_none_or(|shortest| grace < shortest) {
                        self.ask(grace, shortest.is_none());
                        shortest = Some(grace);
                        timers.push(self.shared.clock.sleep(grace));
                    }
                }
                Some(()) = timers.next() => self.kill(),
            }
        }
    }

    /// Closes standard input; of a program that did not want all of it, that is told.
    fn end_input(&mut self) {
        let (written, all) = self.stdin.counts();
        if written < all {
            let text = format!("read at most {written} of the {all} bytes of its standard input");
            self.log.remark(self.shared.clock.now(), text);
        }
        self.stdin.close();
    }

    /// The leader is not reaped while this runs, so its number is the number of its group and of nothing else.
    fn ask(&mut self, grace: Millis, first: bool) {
        if grace == Millis::ZERO {
            self.kill();
        } else if first {
            self.log.note(self.shared.clock.now(), format!("asked to end (TERM); killed after {grace}"));
            if let Some(control) = &self.control {
                // Only the program inside is to hear it.
                return control.cancel();
            }
            let escaped = self.shared.family.borrow_mut().mark(self.launch.run);
            // CONT, because a stopped process would not hear TERM.
            for signal in [Signal::TERM, Signal::CONT] {
                let _ = kill_process_group(self.pid, signal);
                for target in &escaped {
                    let _ = signal_seen(target.seen, signal);
                }
            }
        }
    }

    fn kill(&mut self) {
        if !self.killed {
            self.killed = true;
            self.log.note(self.shared.clock.now(), "killed (KILL)");
            self.shared.family.borrow_mut().mark(self.launch.run);
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Reaps the leader and ends whatever it left; returns when all of it is gone, and how many had left the group.
    async fn end(&mut self) -> (Exit, u32) {
        let (run, group) = (self.launch.run, self.pid.as_raw_pid());
        // Before the leader is reaped, so that the number cannot belong to others.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let exit = reap_leader(self.pid);
        self.shared.family.borrow_mut().mark_ended(run);
        let mut escaped: BTreeSet<Seen> = BTreeSet::new();
        loop {
            match self.look_for_rest() {
                Rest::Targets(targets) => {
                    // What is left of a box ends with it; nothing can leave one.
                    let counts = self.control.is_none();
                    let outside = targets.iter().filter(|target| counts && target.group != group);
                    escaped.extend(outside.map(|target| target.seen));
                    self.kill_all(&targets).await;
                }
                Rest::Changed => {}
                Rest::Unsettled => self.shared.clock.sleep(LOOK_AGAIN).await,
                Rest::Nothing => {
                    self.shared.family.borrow_mut().remove(run);
                    return (exit, u32::try_from(escaped.len()).unwrap_or(u32::MAX));
                }
            }
        }
    }

    fn look_for_rest(&self) -> Rest {
        // Asked first: what a member of the group had started came to us before the group was gone.
        let is_group_left = test_kill_process_group(self.pid) != Err(Errno::SRCH);
        let mut family = self.shared.family.borrow_mut();
        family.adopt();
        if family.reap() {
            // What the reaped had started may have come to us after we looked.
            return Rest::Changed;
        }
        let mut targets = family.claim_strays(self.launch.run);
        if is_group_left {
            targets.extend(family.members(self.pid.as_raw_pid()));
        }
        if !targets.is_empty() {
            Rest::Targets(targets)
        } else if family.is_unsettled(self.launch.run) {
            Rest::Unsettled
        } else if is_group_left && family.adopt() {
            // Members that have ended and wait for another parent are gone, but what they had started came to us.
            Rest::Changed
        } else {
            Rest::Nothing
        }
    }

    /// Kills and waits; what cannot be waited for is looked at again a little later.
    async fn kill_all(&self, targets: &[Target]) {
        let mut gone = Vec::new();
        let mut blind = false;
        for target in targets {
            match signal_seen(target.seen, Signal::KILL).map(proc::watch) {
                Ok(Ok(handle)) => gone.push(async move {
                    let _ = handle.readable().await;
                }),
                Err(Errno::SRCH) => {}
                Ok(Err(_)) | Err(_) => blind = true,
            }
        }
        join_all(gone).await;
        if blind {
            self.shared.clock.sleep(LOOK_AGAIN).await;
        }
    }
}

impl Pipe {
    /// Takes what the processes left in the pipe, without waiting for its end.
    fn drain(&mut self, log: &mut RunLog, shared: &Shared) {
        let at = shared.clock.now();
        let mut taken = 0;
        while let Some(fd) = &self.fd {
            let buffer = &mut *shared.buffer.borrow_mut();
            match read(fd.get_ref(), buffer) {
                Ok(count) if count > 0 && taken <= PIPE_BYTES => {
                    self.output.push(log, at, &buffer[..count]);
                    taken += count;
                }
                Err(Errno::AGAIN) | Ok(1..) => {
                    log.note(at, "its output is held open by a process that is not known to be its own");
                    self.fd = None;
                }
                Ok(0) | Err(_) => self.fd = None,
            }
        }
        self.output.finish(log, at);
    }
}

impl Output {
    fn push(&mut self, log: &mut RunLog, at: Timestamp, bytes: &[u8]) {
        let shown = self.redactor.push(bytes);
        if shown.is_empty() {
            return;
        }
        self.stream.push(log, at, &shown);
        if let Some(tap) = &self.tap {
            tap.hear(self.source, &shown, at);
        }
    }

    /// The stream has ended.
    fn finish(&mut self, log: &mut RunLog, at: Timestamp) {
        let held = self.redactor.finish();
        if !held.is_empty() {
            self.stream.push(log, at, &held);
            if let Some(tap) = &self.tap {
                tap.hear(self.source, &held, at);
            }
        }
        self.stream.finish(log, at);
    }
}

/// What a box says; for ever nothing without one.
async fn hear(control: Option<&mut Control>, shared: &Shared) -> Vec<News> {
    match control {
        Some(control) => control.hear(shared).await,
        None => pending().await,
    }
}

async fn ready(fd: Option<&AsyncFd<OwnedFd>>) -> AsyncFdReadyGuard<'_, OwnedFd> {
    if let Some(fd) = fd
        && let Ok(guard) = fd.readable().await
    {
        return guard;
    }
    pending().await
}

/// What one turn took from a pipe.
enum Taken {
    /// All that was there.
    All,
    /// A bufferful, and there may be more. Whoever takes from a program that writes faster than it is read must let
    /// others have a turn, or nobody would hear that it is to be stopped.
    Part,
    /// The end.
    End,
}

/// Takes one bufferful.
fn take(mut guard: AsyncFdReadyGuard<'_, OwnedFd>, output: &mut Output, log: &mut RunLog, shared: &Shared) -> Taken {
    let buffer = &mut *shared.buffer.borrow_mut();
    match read(guard.get_inner(), buffer) {
        Ok(0) => Taken::End,
        Ok(count) => {
            let is_part = count == buffer.len();
            if !is_part {
                // The pipe is empty now; what comes later wakes us again.
                guard.clear_ready();
            }
            output.push(log, shared.clock.now(), &buffer[..count]);
            log.flush();
            if is_part { Taken::Part } else { Taken::All }
        }
        Err(Errno::AGAIN) => {
            guard.clear_ready();
            Taken::All
        }
        Err(_) => Taken::End,
    }
}

fn read(fd: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *buffer))
}

fn reap_leader(pid: Pid) -> Exit {
    match rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED)) {
        Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        },
        // Somebody else reaped our child and with it its status; it is gone, and nobody may take that for success.
        Ok(None) | Err(_) => Exit::Code(-1),
    }
}

/// Sends a signal to the process that was seen and to no other that has its number now.
pub(crate) fn signal_seen(seen: Seen, signal: Signal) -> Result<OwnedFd, Errno> {
    let handle = pidfd_open(Pid::from_raw(seen.pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    let is_same = proc::stat(seen.pid).is_ok_and(|stat| stat.start_ticks == seen.start_ticks);
    if !is_same {
        return Err(Errno::SRCH);
    }
    match pidfd_send_signal(handle.as_fd(), signal) {
        // One that has ended is still to be waited for; one that we may not signal too.
        Ok(()) | Err(Errno::SRCH | Errno::PERM) => Ok(handle),
        Err(error) => Err(error),
    }
}

/// Reads `$ORC_OUTPUT` in the directory that a box had for it, and nothing else: it may be gone, a link, a pipe.
fn read_output_in(run: &OwnedFd, limit: u64) -> OutputFile {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(run, "output", flags, rustix::fs::Mode::empty()) {
        Ok(fd) => read_regular(File::from(fd), limit),
        Err(Errno::NOENT) => OutputFile::Bytes(Vec::new()),
        Err(Errno::LOOP) => OutputFile::Unreadable { why: "it is a symbolic link".to_owned() },
        Err(error) => OutputFile::Unreadable { why: std::io::Error::from(error).to_string() },
    }
}

/// Reads `$ORC_OUTPUT`. Only a regular file: a pipe or device in its place would block us or never end, a link could
/// point at what the program itself may not read.
fn read_output(path: &Path, limit: u64) -> OutputFile {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return OutputFile::Bytes(Vec::new()),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return OutputFile::Unreadable { why: "it is a symbolic link".to_owned() };
        }
        Err(error) => return OutputFile::Unreadable { why: error.to_string() },
    };
    let read = read_regular(file, limit);
    if matches!(read, OutputFile::Bytes(_)) {
        // What it said is in memory now and soon in the store; left behind, it would only be removed with the flow.
        let _ = std::fs::remove_file(path);
    }
    read
}

fn read_regular(file: File, limit: u64) -> OutputFile {
    let unreadable = |error: std::io::Error| OutputFile::Unreadable { why: error.to_string() };
    let length = match file.metadata() {
        Ok(found) if found.is_file() => found.len(),
        Ok(_) => {
            return OutputFile::Unreadable { why: "it is not a regular file".to_owned() };
        }
        Err(error) => return unreadable(error),
    };
    if length > limit {
        return OutputFile::TooLarge { bytes: length };
    }
    let mut bytes = Vec::new();
    match file.take(limit).read_to_end(&mut bytes) {
        Ok(_) => OutputFile::Bytes(bytes),
        Err(error) => unreadable(error),
    }
}
