//! `Bash`: a shell command, to its end or in the background.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use orc_process::hands::{Floor, Heard, Program, Running, Used};
use orc_process::protocol::{Blame, Ended, Failure};
use tokio::time::Instant;

use super::offers::{SHELL_DEFAULT_MILLIS, SHELL_MILLIS, TEXT_BYTES};
use super::shells::Shells;
use super::spool::Spool;
use super::{Outcome, Refusal, input};

/// How long a command that is to end may take to tidy up before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(250);
/// How often it is told how far it is.
const TELL: Duration = Duration::from_secs(3);
/// Left of the time of the call for ending the command and telling about it.
const LAST: Duration = Duration::from_secs(5);
/// Room for what is said after the output.
const ROOM: usize = 1_000;
/// Variables for programs that would otherwise wait for somebody, unless they are set.
const DEFAULTS: [(&str, &str); 4] =
    [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];

pub(super) fn bash(wanted: &input::Bash, shells: &Shells, floor: &dyn Floor) -> Outcome {
    if wanted.command.trim().is_empty() {
        return Err("`command` is empty: there is nothing to run.".into());
    }
    if wanted.command.contains('\0') {
        return Err("`command` holds a NUL, which no command can. Write such bytes with `printf '\\0'`.".into());
    }
    if wanted.run_in_background.unwrap_or(false) {
        return shells.begin(&wanted.command, floor);
    }
    let asked = wanted.timeout.unwrap_or(SHELL_DEFAULT_MILLIS).clamp(1, SHELL_MILLIS);
    let time = Duration::from_millis(asked);
    let time = floor.left().map_or(time, |left| time.min(left.saturating_sub(LAST.min(left / 4))));
    let env = environment(floor.env());
    let running = start(&wanted.command, &env, floor.cwd(), |program| floor.start(program))?;
    let bound = floor.bound().unwrap_or(TEXT_BYTES);
    let mut spool = Spool::new(floor.env(), bound.saturating_sub(ROOM));
    let (ended, stopped) = follow(running, time, &mut spool, floor);
    let (output, file) = spool.finish();
    let mut text = output;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let verdict = match (&stopped, &ended) {
        (Some(Stopped::Late), _) => format!(
            "[ended after {} ms, which is all the time it had; what it started was ended too. Set `timeout` (at most {SHELL_MILLIS}), \
             or `run_in_background` for what is not to end]",
            time.as_millis()
        ),
        (Some(Stopped::Cancelled), _) => "[cancelled; what it started was ended too]".to_owned(),
        (None, Ok(Ended::Code(0))) if text.is_empty() => "[no output]".to_owned(),
        (None, Ok(Ended::Code(0))) => String::new(),
        (None, Ok(ended)) => format!("[{}]", describe(*ended)),
        (None, Err(error)) => format!("[how it ended is not known: {error}]"),
    };
    text.push_str(&verdict);
    if is_only_cd(&wanted.command) {
        text.push_str("\n[every call starts in the same directory: this has no effect on others; write `cd DIRECTORY && COMMAND`]");
    }
    let failed = stopped.is_some() || !matches!(ended, Ok(Ended::Code(0)));
    Ok(Used { text, failed, file, ..Used::default() })
}

/// Why a command did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    Late,
    Cancelled,
}

/// Takes the output of a command until it ends, or has to.
fn follow(
    mut running: Running,
    time: Duration,
    spool: &mut Spool<'_>,
    floor: &dyn Floor,
) -> (std::io::Result<Ended>, Option<Stopped>) {
    let begin = Instant::now();
    let (mut told, mut stopped, mut last) = (begin, None, None);
    let group = running.group();
    let mut chunk = Vec::new();
    loop {
        let now = Instant::now();
        let is_cancelled = floor.is_cancelled();
        if stopped.is_none() && (is_cancelled || now >= begin + time) {
            stopped = Some(if is_cancelled { Stopped::Cancelled } else { Stopped::Late });
            group.end(false);
            last = Some(now + GRACE);
        }
        if last.is_some_and(|last| now >= last) {
            break;
        }
        if now >= told + TELL {
            told = now;
            floor.progress(&format!("{} s: {}", (now - begin).as_secs(), spool.last_line()));
        }
        let until = last.unwrap_or(begin + time).saturating_duration_since(now);
        let heard = running.listen(Some(until.min(LOOK)), &mut chunk);
        spool.add(&chunk);
        chunk.clear();
        if heard == Heard::End {
            break;
        }
    }
    // Whoever cancels it ends its programs at once.
    stopped = stopped.or(floor.is_cancelled().then_some(Stopped::Cancelled));
    let ended = running.finish(&mut chunk);
    spool.add(&chunk);
    (ended, stopped)
}

/// Starts a command with bash, or with sh where there is none.
pub(super) fn start(
    command: &str,
    env: &BTreeMap<String, String>,
    cwd: &Path,
    start: impl Fn(Program<'_>) -> Result<Running, Failure>,
) -> Result<Running, Refusal> {
    let with = |shell: &str| {
        let argv = [shell, "-c", command].map(str::to_owned);
        start(Program { argv: &argv, env, cwd })
    };
    let started = match with("bash") {
        Err(failure) if failure.what == Blame::Program && failure.errno == Some(NOT_FOUND) => with("sh"),
        other => other,
    };
    started.map_err(|failure| {
        let why = failure.why;
        Refusal(match failure.what {
            Blame::Exhausted => {
                format!("No more programs can be started: {why}. End what runs in the background with KillShell.")
            }
            Blame::Directory => format!("The working directory cannot be entered: {why}."),
            _ if failure.errno == Some(TOO_LONG) => {
                "The command is too long to be run. Write it into a file, and run that.".to_owned()
            }
            _ => format!("No shell can be started: {why}."),
        })
    })
}

const NOT_FOUND: i32 = rustix::io::Errno::NOENT.raw_os_error();
const TOO_LONG: i32 = rustix::io::Errno::TOOBIG.raw_os_error();

pub(super) fn environment(given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut env: BTreeMap<_, _> = DEFAULTS.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    env.extend(given.clone());
    env
}

pub(super) fn describe(ended: Ended) -> String {
    match ended {
        Ended::Code(code) => format!("exit code {code}"),
        Ended::Signal(signal) => format!("ended by signal {signal}"),
    }
}

fn is_only_cd(command: &str) -> bool {
    let command = command.trim();
    (command == "cd" || command.starts_with("cd ")) && !command.contains(['&', ';', '|', '\n'])
}
