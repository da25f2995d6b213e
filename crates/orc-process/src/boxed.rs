//! A run in a box, as its supervisor sees it: what goes in at the start, what is said through the control socket.
//!
//! The outermost process of the box is the leader of the run; killing it ends everything inside. TERM goes through the
//! socket instead, because the program inside is to hear it and bwrap is not.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use orc_domain::confine::Violation;
use orc_ports::executor::{Confinement, Exit, Launch, StartError};
use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::disk::DiskWatch;
use crate::egress::Proxy;
use crate::groups::Group;
use crate::launch::Newborn;
use crate::passing;
use crate::proc;
use crate::protocol::{self, Answer, Content, Failure, Frames, Outcome};
use crate::sandbox::{OUTPUT, Request, TEMP, line, refusal_of};
use crate::supervisor::Shared;

/// The one call of a box.
const CALL: u64 = 1;
/// Kinds of refusals that are kept of one run; a program that tries more tries the same.
const MOST_VIOLATIONS: usize = 200;

/// A box that was just begun.
pub(crate) struct Begun {
    /// Its outermost process.
    pub(crate) newborn: Newborn,
    pub(crate) control: Control,
}

/// What is known of a box that lives.
#[derive(Debug)]
pub(crate) struct Control {
    /// `None` once it has ended.
    socket: Option<AsyncFd<OwnedFd>>,
    frames: Frames,
    program: String,
    is_started: bool,
    outcome: Option<Outcome>,
    refusal: Option<String>,
    output: Option<OwnedFd>,
    violations: BTreeMap<(orc_domain::confine::ViolationKind, String), u32>,
    outside: Outside,
}

/// What a box has outside of it.
#[derive(Debug)]
struct Outside {
    proxy: Option<Proxy>,
    group: Option<Group>,
    disk: DiskWatch,
}

/// Something that the box said, or that was seen of it.
pub(crate) enum News {
    /// The program runs.
    Started,
    /// It refused something for the first time.
    Refused(Violation),
    /// It has written too much and must go.
    Full(Violation),
}

/// Begins a box; must be called on the thread that lives as long as the box shall.
pub(crate) fn begin(launch: &Launch, confinement: &Confinement, shared: &Shared) -> Result<Begun, StartError> {
    let sandbox = shared.sandbox.as_ref().map_err(|missing| StartError::Box { what: missing.clone() })?;
    let file = |file: &std::path::Path| {
        let file = file.to_owned();
        move |source| StartError::File { file, source }
    };
    sandbox.make_private(&confinement.home).map_err(file(&confinement.home))?;
    sandbox.make_private(&launch.temp).map_err(file(&launch.temp))?;
    let proxy = open_proxy(confinement, shared)?;
    let group = sandbox.group(&launch.run.to_string(), &confinement.limits)?;
    let marks = [("ORC_INSTANCE", shared.instance_name.clone()), ("ORC_RUN_ID", launch.run.to_string())];
    let marks = marks.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let mut env = launch.env.clone();
    env.extend(marks.iter().cloned());
    let request = Request {
        confinement,
        temp: Some(&launch.temp),
        output_bytes: launch.limits.output_bytes,
        egress: proxy.as_ref().map(Proxy::socket),
        groups: group.as_ref().map_or(&[][..], Group::directories),
        marks,
    };
    let disk = DiskWatch::new(confinement, &launch.temp, &*shared.clock);
    env.extend([("ORC_OUTPUT", OUTPUT), ("ORC_TEMP", TEMP)].map(|(name, path)| (name.to_owned(), path.to_owned())));
    let frame = line::first_call(&launch.argv, env, &launch.directory, proxy.is_some());
    let frame = frame.map_err(|error| StartError::Box { what: error.to_string() })?;
    let broken = |source: io::Error| StartError::Exhausted { source };
    let hosted = launch.host.as_ref().map(|hosting| hosting.socket.try_clone()).transpose().map_err(broken)?;
    let (stdout, their_stdout) = match &hosted {
        Some(socket) => (None, socket.try_clone().map_err(broken)?),
        None => pipe().map(|(ours, theirs)| (Some(ours), theirs)).map_err(broken)?,
    };
    let (stderr, their_stderr) = pipe().map_err(broken)?;
    let (stdin, theirs) = if hosted.is_some() {
        (None, hosted)
    } else if launch.stdin.as_ref().is_some_and(|bytes| !bytes.is_empty()) {
        let (theirs, ours) = io::pipe().map_err(broken)?;
        (Some(OwnedFd::from(ours)), Some(OwnedFd::from(theirs)))
    } else {
        (None, None)
    };
    let porter = &mut *shared.porter.borrow_mut();
    let (pid, socket) = sandbox.enter(&request, [their_stdout, their_stderr], Some((porter, &shared.instance_name)))?;
    // It may have ended already; then its answer tells why.
    let _ = passing::send(&socket, &frame, theirs.as_ref().map(AsFd::as_fd));
    let outside = Outside { proxy, group, disk };
    let control = Control::new(socket, launch.argv.first().cloned().unwrap_or_default(), outside);
    let newborn = Newborn { pid, stdin, stdout, stderr };
    Ok(Begun { newborn, control: control.map_err(broken)? })
}

/// The end that is read from, and the one that is written to.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    io::pipe().map(|(ours, theirs)| (ours.into(), theirs.into()))
}

fn open_proxy(confinement: &Confinement, shared: &Shared) -> Result<Option<Proxy>, StartError> {
    if confinement.network.is_empty() {
        return Ok(None);
    }
    let refuse = |what: String| StartError::Box { what };
    let rules = orc_domain::confine::network::Rules::compile(&confinement.network, false);
    let rules = rules.map_err(|error| refuse(format!("network: {error}")))?;
    let socket =
        shared.sockets.next().map_err(|error| refuse(format!("no place for the socket of its proxy: {error}")))?;
    let proxy = shared.proxies.open(&socket, rules).map_err(|error| refuse(error.to_string()))?;
    Ok(Some(proxy))
}

impl Control {
    fn new(socket: UnixStream, program: String, outside: Outside) -> io::Result<Self> {
        rustix::fs::fcntl_setfl(&socket, OFlags::NONBLOCK)?;
        let socket = proc::watch_for(socket.into(), Interest::READABLE)?;
        Ok(Self {
            socket: Some(socket),
            frames: Frames::default(),
            program,
            is_started: false,
            outcome: None,
            refusal: None,
            output: None,
            violations: BTreeMap::new(),
            outside,
        })
    }

    /// Waits until there is something to tell of the box.
    pub(crate) async fn hear(&mut self, shared: &Shared) -> Vec<News> {
        loop {
            tokio::select! {
                () = readable(self.socket.as_ref()) => {}
                violation = self.outside.disk.next(&shared.disk, &*shared.clock) => {
                    return self.refuse(violation).into_iter().map(News::Full).collect();
                }
            }
            let news = self.take();
            if !news.is_empty() {
                return news;
            }
        }
    }

    /// Everything that has arrived.
    pub(crate) fn take(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        let mut bytes = [0; 4096];
        while let Some(socket) = &self.socket {
            match passing::receive(socket.get_ref(), &mut bytes, &mut self.output) {
                Ok(0) => self.socket = None,
                Ok(count) => self.frames.push(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.socket = None,
            }
            loop {
                match self.frames.take() {
                    Ok(Some(answer)) => news.extend(self.note(answer)),
                    Ok(None) => break,
                    Err(error) => {
                        self.refusal.get_or_insert(error.to_string());
                        self.socket = None;
                        break;
                    }
                }
            }
        }
        news
    }

    fn note(&mut self, answer: Answer) -> Option<News> {
        match answer {
            Answer::Progress { .. } => {
                self.is_started = true;
                Some(News::Started)
            }
            Answer::Result { outcome, .. } => {
                self.outcome.get_or_insert(outcome);
                None
            }
            Answer::Error { message } => {
                self.refusal.get_or_insert(message);
                None
            }
            Answer::Violation(violation) => self.refuse(violation).map(News::Refused),
            Answer::Hello { .. } => None,
        }
    }

    /// Counts a refusal; the first of its kind is news.
    fn refuse(&mut self, violation: Violation) -> Option<Violation> {
        let what: String = violation.what.chars().filter(|letter| !letter.is_control()).take(200).collect();
        let key = (violation.kind, what.clone());
        if let Some(count) = self.violations.get_mut(&key) {
            *count = violation.count.max(*count);
            return None;
        }
        if self.violations.len() >= MOST_VIOLATIONS {
            return None;
        }
        self.violations.insert(key, violation.count);
        Some(Violation { what, ..violation })
    }

    /// Asks the program to end; a second time means at once.
    pub(crate) fn cancel(&self) {
        if let (Some(socket), Ok(frame)) = (&self.socket, protocol::encode(&protocol::Request::Cancel { id: CALL })) {
            // A box that does not read is killed when its time is over.
            let _ = passing::send(socket.get_ref(), &frame, None);
        }
    }

    /// Whether its program runs, or ran.
    pub(crate) const fn is_started(&self) -> bool {
        self.is_started
    }

    /// Why its program never ran, now that the box is gone.
    pub(crate) fn not_started(&mut self) -> StartError {
        match self.outcome.take() {
            Some(Outcome::Failed(failure)) => self.failed(failure),
            _ => {
                let what = self.refusal.take();
                StartError::Box { what: what.unwrap_or_else(|| "it ended before its program began".to_owned()) }
            }
        }
    }

    fn failed(&self, failure: Failure) -> StartError {
        refusal_of(&self.program, failure)
    }

    /// How the program ended, now that the box is gone; `leader` is how its outermost process did.
    pub(crate) fn exit(&self, leader: Exit) -> Exit {
        match (&self.outcome, leader) {
            (Some(Outcome::Content(Content::Ended { exit, .. })), _) => (*exit).into(),
            // bwrap says so that what was inside was ended by a signal.
            (_, Exit::Code(code)) if code > 128 => Exit::Signal(code - 128),
            // Nobody heard how it ended: nobody may take that for success.
            (_, Exit::Code(0)) => Exit::Code(-1),
            (_, other) => other,
        }
    }

    /// The directory of `$ORC_OUTPUT`, which outlives the box as long as somebody holds it.
    pub(crate) fn output(&self) -> Option<&OwnedFd> {
        self.output.as_ref()
    }

    /// Everything that was refused, now that the box is gone.
    pub(crate) async fn violations(&mut self) -> Vec<Violation> {
        let mut more = match self.outside.proxy.take() {
            Some(proxy) => proxy.close().await,
            None => Vec::new(),
        };
        more.extend(self.outside.group.iter().flat_map(Group::violations));
        for violation in more {
            self.refuse(violation);
        }
        let all = std::mem::take(&mut self.violations).into_iter();
        all.map(|((kind, what), count)| Violation { kind, what, count }).collect()
    }
}

/// Waits until there may be something to read; for ever once it has ended.
async fn readable(socket: Option<&AsyncFd<OwnedFd>>) {
    if let Some(socket) = socket
        && let Ok(mut guard) = socket.readable().await
    {
        guard.clear_ready();
        return;
    }
    std::future::pending().await
}
