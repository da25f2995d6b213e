//! `box-init`: the first process inside a box, for one program.
//!
//! This thread puts the inner walls on itself, starts the program, and collects whatever ends. Others, which are started
//! before and have no walls on them, hear what is asked through the socket, answer refused system calls, and carry bytes through
//! its doors. When the program has ended this process ends, and with it everything inside.
//!
//! It hides from the program (not dumpable: nobody of the same number reads its memory or descriptors).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use orc_domain::confine::ViolationKind;
use orc_ports::executor::Door;
use rustix::fs::{Mode, OFlags};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::inside::refusals::Refusals;
use crate::inside::watch::{self, Most};
use crate::inside::{landlock, limits, programs};
use crate::passing;
use crate::protocol::{self, Answer, Blame, Bytes, Call, Content, Ended, Outcome, Request, Resources, Streams, Tool};
use crate::relay;
use crate::sandbox::{Bounds, Inside, RUN, door_at};

/// What the threads share.
struct Control {
    /// Frames are written whole, one at a time.
    socket: Mutex<UnixStream>,
    /// It was asked to end.
    cancelled: AtomicBool,
}

impl Control {
    /// Whoever asked may be gone; then this box ends with it.
    fn say(&self, answer: &Answer) {
        if let Ok(frame) = protocol::encode(answer) {
            let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = socket.write_all(&frame);
        }
    }
}

pub(super) fn run() -> ExitCode {
    match set_up() {
        Ok((control, reader)) => {
            let ended = serve(&control, reader);
            if let Err(message) = ended {
                control.say(&Answer::Error { message });
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "box-init: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Takes the socket from standard input, and everything else out of the program's reach.
fn set_up() -> io::Result<(Arc<Control>, UnixStream)> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let socket = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let nothing = File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    orc_kernel::close_on_exec_from(3)?;
    let reader = socket.try_clone()?;
    Ok((Arc::new(Control { socket: Mutex::new(socket), cancelled: AtomicBool::new(false) }), reader))
}

fn serve(control: &Arc<Control>, mut reader: UnixStream) -> Result<(), String> {
    greet(control)?;
    let (call, stdin) = first_call(&mut reader)?;
    let Call { id, tool: Tool::Spawn(spawn), cwd, .. } = call else {
        return Err("box-init runs one program and knows no other tool".to_owned());
    };
    if !matches!(spawn.streams, Streams::Inherited) {
        return Err("box-init hands its own streams on".to_owned());
    }
    let hearing = Arc::clone(control);
    let named = std::thread::Builder::new().name("control".to_owned());
    named.spawn(move || hear(&hearing, reader)).map_err(|error| format!("cannot start a thread: {error}"))?;
    let stdin = stdin.map_or_else(Stdio::null, Stdio::from);
    let walls = put_up_walls(control)?;
    let started = programs::start(&spawn.argv, &spawn.env, &cwd, [stdin, Stdio::inherit(), Stdio::inherit()]);
    let outcome = match started {
        Err(failure) => Outcome::Failed(failure),
        Ok(child) => {
            control.say(&Answer::Progress { id, text: None });
            if control.cancelled.load(Ordering::SeqCst) {
                signal_all(Signal::TERM);
            }
            let exit = collect(child.id().cast_signed());
            let none = Bytes::default;
            Outcome::Content(Content::Ended { exit, stdout: none(), stderr: none(), dropped: 0 })
        }
    };
    walls.refusals.tell_rest();
    control.say(&Answer::Result { id, outcome, resources: Resources::default() });
    // Its threads end with this process.
    std::mem::forget(walls);
    Ok(())
}

/// What lives as long as the program.
struct Walls {
    refusals: Refusals,
    _relay: Option<relay::Relay>,
    _watch: Option<watch::Watch>,
}

/// Puts on this thread what the program is to have on it. The order is one of need: threads first, which must not have it
/// on them; seccomp last, because the others use calls that it could refuse.
fn put_up_walls(control: &Arc<Control>) -> Result<Walls, String> {
    let inside = std::env::args().nth(2).ok_or("box-init was not told what the box is")?;
    let inside: Inside =
        serde_json::from_str(&inside).map_err(|error| format!("box-init was told nonsense: {error}"))?;
    let relay = start_relay(&inside)?;
    let saying = Arc::clone(control);
    let refusals = Refusals::start(Arc::new(move |answer| saying.say(answer)))?;
    let Bounds { processes, memory_bytes, .. } = inside.bounds;
    let watch = if processes > 0 || memory_bytes > 0 {
        Some(start_watch(Most { processes, memory_bytes }, Arc::clone(control))?)
    } else {
        None
    };
    limits::apply(&inside.bounds)?;
    landlock::restrict()?;
    refusals.put_filter_on()?;
    Ok(Walls { refusals, _relay: relay, _watch: watch })
}

fn start_relay(inside: &Inside) -> Result<Option<relay::Relay>, String> {
    if inside.doors.is_empty() {
        return Ok(None);
    }
    let doors: Vec<Door> = inside.doors.iter().map(|port| Door { socket: door_at(*port), port: *port }).collect();
    let started = relay::start(&doors, usize::try_from(inside.bounds.open_files).unwrap_or(0));
    started.map(Some).map_err(|error| format!("no doors: {error}"))
}

/// Tells of bounds that are reached, and kills everything inside when it holds too much memory together.
fn start_watch(most: Most, control: Arc<Control>) -> Result<watch::Watch, String> {
    watch::Watch::start(most, move |violation| {
        let is_memory = violation.kind == ViolationKind::Memory;
        control.say(&Answer::Violation(violation));
        if is_memory {
            signal_all(Signal::KILL);
        }
    })
}

/// Says hello, with the directory of `$ORC_OUTPUT`, which outlives this box as long as somebody holds it.
fn greet(control: &Control) -> Result<(), String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let run = rustix::fs::open(RUN, flags, Mode::empty()).map_err(|error| format!("cannot open `{RUN}`: {error}"))?;
    let tools = protocol::TOOLS.map(str::to_owned).to_vec();
    let hello = protocol::encode(&Answer::Hello { version: protocol::VERSION, tools }).map_err(|e| e.to_string())?;
    let socket = control.socket.lock().unwrap_or_else(PoisonError::into_inner);
    passing::send(&*socket, &hello, Some(run.as_fd())).map_err(|error| format!("cannot say hello: {error}"))
}

/// The call, and the program's standard input if it has one.
fn first_call(reader: &mut UnixStream) -> Result<(Call, Option<OwnedFd>), String> {
    let mut stdin = None;
    let mut receiving = passing::Receiving { socket: reader, fd: &mut stdin };
    match protocol::read(&mut receiving).map_err(|error| error.to_string())? {
        Some(Request::Call(call)) => Ok((call, stdin)),
        Some(_) => Err("the first frame is no call".to_owned()),
        None => Err("nobody asked for anything".to_owned()),
    }
}

/// Until nobody is left to hear.
fn hear(control: &Control, mut reader: UnixStream) {
    let mut asked = 0;
    loop {
        match protocol::read::<Request>(&mut reader) {
            Ok(Some(Request::Cancel { .. })) => {
                asked += 1;
                control.cancelled.store(true, Ordering::SeqCst);
                signal_all(if asked == 1 { Signal::TERM } else { Signal::KILL });
            }
            Ok(Some(Request::Call(Call { id, .. }) | Request::Stat { id, .. })) => {
                let failure =
                    protocol::Failure { what: Blame::Call, errno: None, why: "box-init runs one program".to_owned() };
                let resources = Resources::default();
                control.say(&Answer::Result { id, outcome: Outcome::Failed(failure), resources });
            }
            Ok(Some(Request::Bye) | None) => break,
            Err(error) => {
                control.say(&Answer::Error { message: error.to_string() });
                break;
            }
        }
    }
    signal_all(Signal::KILL);
}

/// To everything inside but us. CONT, because a stopped process would not hear TERM.
fn signal_all(signal: Signal) {
    let own = rustix::process::getpid();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = number.and_then(Pid::from_raw).filter(|pid| *pid != own) {
            // It may have ended.
            let _ = rustix::process::kill_process(pid, signal);
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
    }
}

/// Collects whatever ends until the program does.
fn collect(program: i32) -> Ended {
    loop {
        match rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::empty())) {
            Ok(Some((pid, status))) if pid.as_raw_pid() == program => {
                return match status.exit_status() {
                    Some(code) => Ended::Code(code),
                    None => Ended::Signal(status.terminating_signal().unwrap_or_default()),
                };
            }
            Ok(Some(_)) => {}
            // Somebody else took our child: nobody may take that for success.
            Ok(None) | Err(_) => return Ended::Code(-1),
        }
    }
}
