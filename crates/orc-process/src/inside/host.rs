//! `tool-host`: programs and files for whoever speaks the protocol with it, until that one says bye or is gone.
//!
//! The first thread reads what is asked; each call has a thread of its own, of which there is a bounded number. Whatever
//! lost its parent becomes a child of this process, is collected when it ends, and is ended with it.
//!
//! A call that cannot be done fails alone. A frame that cannot be read ends the host: nothing after it can be trusted.
//! Paths are opened as they were asked for and never through a link: who asks finds out where links lead first
//! ([`Request::Stat`]), judges that, and names it.
//!
//! Where to go next: `program` (a call that runs one), `files`, `uses` (tools that were brought).

mod files;
mod program;
mod uses;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};
use tokio::time::Instant;

use crate::hands::{Group, Hands};
use crate::proc;
use crate::protocol::{self, Answer, Blame, Call, Failure, FrameError, Outcome, Request, Resources, Tool};

/// Calls at once.
const MOST_CALLS: usize = 64;

/// What the threads share.
struct Host {
    answers: Mutex<File>,
    live: Mutex<BTreeMap<u64, Live>>,
    hands: &'static dyn Hands,
    env: BTreeMap<String, String>,
}

/// A call that has no result yet.
#[derive(Debug, Default)]
struct Live {
    /// Those of its programs.
    groups: Vec<Group>,
    /// How it was asked to end, at last.
    asked: Option<Asked>,
}

/// How a call is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Its programs may tidy up.
    Kindly,
    /// They may not.
    Surely,
}

pub(super) fn run(hands: &'static dyn Hands) -> ExitCode {
    let (host, requests) = match set_up(hands) {
        Ok(made) => made,
        Err(error) => {
            let _ = writeln!(io::stderr(), "tool-host: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = host.serve(requests);
    if let Err(error) = &ended {
        host.say(&Answer::Error { message: error.to_string() });
    }
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Takes the two streams where no program finds them.
fn set_up(hands: &'static dyn Hands) -> io::Result<(Arc<Host>, File)> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let apart = |fd: rustix::fd::BorrowedFd<'_>| -> io::Result<OwnedFd> { Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?) };
    let (requests, answers) = (apart(rustix::stdio::stdin())?, apart(rustix::stdio::stdout())?);
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    orc_kernel::close_on_exec_from(3)?;
    #[expect(clippy::disallowed_methods, reason = "what the box gives to its program is for the tools of that")]
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let host = Host { answers: Mutex::new(answers.into()), live: Mutex::default(), hands, env: env.collect() };
    Ok((Arc::new(host), requests.into()))
}

impl Host {
    fn serve(self: &Arc<Self>, mut requests: File) -> Result<(), FrameError> {
        let mut tools = protocol::TOOLS.map(str::to_owned).to_vec();
        tools.extend(self.hands.names());
        self.say(&Answer::Hello { version: protocol::VERSION, tools });
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let ended = loop {
            match protocol::read(&mut requests) {
                Ok(Some(Request::Call(call))) => {
                    threads.retain(|thread| !thread.is_finished());
                    threads.extend(self.begin(call));
                }
                Ok(Some(Request::Cancel { id })) => self.cancel(id),
                Ok(Some(Request::Stat { id, paths })) => self.finish(id, files::look(&paths), Instant::now()),
                Ok(Some(Request::Bye) | None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        for live in self.live().values_mut() {
            live.end(Asked::Surely);
        }
        for thread in threads {
            // Whoever panicked has said so.
            let _ = thread.join();
        }
        end_what_is_left();
        ended
    }

    fn begin(self: &Arc<Self>, call: Call) -> Option<JoinHandle<()>> {
        let (id, begin) = (call.id, Instant::now());
        let refusal = {
            let mut live = self.live();
            if live.contains_key(&id) {
                Some((Blame::Call, "a call of this number has no result yet".to_owned()))
            } else if live.len() >= MOST_CALLS {
                Some((Blame::Exhausted, format!("{MOST_CALLS} calls run already")))
            } else {
                live.insert(id, Live::default());
                None
            }
        };
        if let Some((what, why)) = refusal {
            self.finish(id, Outcome::Failed(Failure { what, errno: None, why }), begin);
            return None;
        }
        let host = Arc::clone(self);
        let thread = std::thread::Builder::new().name("call".to_owned()).spawn(move || {
            let outcome = host.answer(call);
            host.live().remove(&id);
            host.finish(id, outcome, begin);
            collect_orphans();
        });
        match thread {
            Ok(thread) => Some(thread),
            Err(error) => {
                self.live().remove(&id);
                self.finish(id, Outcome::Failed(super::programs::failure(Blame::Exhausted, &error)), begin);
                None
            }
        }
    }

    fn answer(&self, call: Call) -> Outcome {
        let bytes = usize::try_from(call.limits.bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(usize::MAX);
        match call.tool {
            Tool::Spawn(spawn) => {
                let wanted = program::Wanted { id: call.id, spawn, cwd: call.cwd, deadline: call.deadline, bytes };
                self.run_program(wanted)
            }
            Tool::Read { path } => files::read(&call.cwd.join(path), bytes),
            Tool::Write { path, bytes } => files::write(&call.cwd.join(path), &bytes.0, call.id),
            Tool::Use(wanted) => self.lift(&wanted, &uses::Ground::new(self, call.id, call.cwd, call.deadline, bytes)),
        }
    }

    fn cancel(&self, id: u64) {
        // One that is not known has its result on the way.
        if let Some(live) = self.live().get_mut(&id) {
            live.end(if live.asked.is_none() { Asked::Kindly } else { Asked::Surely });
        }
    }

    /// Has a group ended with its call; one that was asked to end before is told now.
    fn watch(&self, id: u64, group: &Group) {
        if let Some(live) = self.live().get_mut(&id) {
            live.groups.push(group.clone());
            if let Some(asked) = live.asked {
                group.end(asked == Asked::Surely);
            }
        }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, id: u64, outcome: Outcome, begin: Instant) {
        let wall_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.say(&Answer::Result { id, outcome, resources: Resources { wall_ms } });
    }

    /// Frames are written whole, one at a time. Whoever asked may be gone; then the next request is the end.
    fn say(&self, answer: &Answer) {
        let frame = protocol::encode(answer).or_else(|error| match answer {
            Answer::Result { id, resources, .. } => {
                let failure = Failure { what: Blame::Call, errno: None, why: format!("the answer is {error}") };
                let (id, resources) = (*id, *resources);
                protocol::encode(&Answer::Result { id, outcome: Outcome::Failed(failure), resources })
            }
            _ => Err(error),
        });
        if let Ok(frame) = frame {
            let _ = self.answers.lock().unwrap_or_else(PoisonError::into_inner).write_all(&frame);
        }
    }
}

impl Live {
    fn end(&mut self, asked: Asked) {
        self.asked = Some(asked);
        for group in &self.groups {
            group.end(asked == Asked::Surely);
        }
    }
}

/// Collects what lost its parent and has ended. The kernel makes those children of the first thread, and programs of calls
/// are children of the threads of those.
fn collect_orphans() {
    let own = rustix::process::getpid().as_raw_pid();
    let Ok(file) = File::open(proc::children_file(own, &own.to_string())) else { return };
    for pid in proc::read_children(&file).unwrap_or_default() {
        let _ = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
    }
}

/// Ends everything that came from here, until nothing is left.
fn end_what_is_left() {
    let own = rustix::process::getpid().as_raw_pid();
    loop {
        for (seen, _) in proc::descendants(own) {
            // Its number is not used again before we collect it, or whoever did so is one of these too.
            let _ = Pid::from_raw(seen.pid).map(|pid| rustix::process::kill_process(pid, Signal::KILL));
        }
        if !matches!(rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::empty())), Ok(Some(_))) {
            return;
        }
    }
}
