//! Shells in the background: `BashOutput` and `KillShell`.
//!
//! Each has a thread of its own, which starts it, takes its output into a file and collects it. They end with the host, which
//! ends everything that came from it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use orc_process::hands::{Floor, Group, Heard, Running, Used};
use orc_process::protocol::Ended;

use super::offers::TEXT_BYTES;
use super::spool::{Kept, text};
use super::walk::is_over;
use super::{Outcome, Refusal, input, shell, told};

/// Shells that run at once.
const MOST_RUNNING: u32 = 16;
/// Shells that are remembered.
const MOST_KNOWN: usize = 200;
/// Room for what is said besides the output.
const ROOM: usize = 500;
/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Longest line that a filter sees; what is longer is seen in pieces.
const MOST_LINE: usize = 64 * 1024;

/// All shells of a host.
#[derive(Debug)]
pub(super) struct Shells {
    known: Mutex<BTreeMap<u32, Arc<Shell>>>,
}

/// One shell.
#[derive(Debug)]
struct Shell {
    group: Group,
    /// What it prints, for whoever tells of it without keeping it from printing.
    output: File,
    /// How far it was told.
    told: Mutex<u64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    kept: Kept,
    ended: Option<Result<Ended, String>>,
}

/// What is to be told of the output of a shell.
struct New<'a> {
    output: &'a File,
    path: &'a Path,
    from: u64,
    until: u64,
    bound: usize,
}

impl Shell {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.state().ended.is_none()
    }

    /// Waits at most so long for its end.
    fn wait(&self, most: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), most, |state| state.ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.ended.is_some()
    }

    /// The life of a shell, on its own thread.
    fn follow(&self, mut running: Running) {
        let mut chunk = Vec::new();
        loop {
            let heard = running.listen(None, &mut chunk);
            self.state().kept.add(&chunk);
            chunk.clear();
            if heard == Heard::End {
                break;
            }
        }
        let ended = running.finish(&mut chunk);
        let mut state = self.state();
        state.kept.add(&chunk);
        state.ended = Some(ended.map_err(|error| error.to_string()));
        self.changed.notify_all();
    }
}

impl Shells {
    pub(super) const fn new() -> Self {
        Self { known: Mutex::new(BTreeMap::new()) }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Shell>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many run now.
    pub(super) fn running(&self) -> u32 {
        let running = self.known().values().filter(|shell| shell.is_running()).count();
        u32::try_from(running).unwrap_or(u32::MAX)
    }

    pub(super) fn begin(&self, command: &str, floor: &dyn Floor) -> Outcome {
        if self.running() >= MOST_RUNNING {
            return Err(
                format!("{MOST_RUNNING} shells run in the background already. End one with KillShell first.").into()
            );
        }
        let kept = Kept::make(floor.env())
            .map_err(|error| Refusal(format!("No file can be made for its output: {error}.")))?;
        let path = kept.path.clone();
        let shell = self.start(command, kept, floor)?;
        let mut known = self.known();
        let number = known.last_key_value().map_or(1, |(last, _)| last + 1);
        known.insert(number, shell);
        if known.len() > MOST_KNOWN {
            let old = known.iter().find(|(_, shell)| !shell.is_running()).map(|(number, _)| *number);
            old.map(|old| known.remove(&old));
        }
        drop(known);
        Ok(told(format!(
            "Runs in the background as `{number}`. BashOutput tells what it prints, KillShell ends it. All of its output goes to {}.",
            path.display()
        )))
    }

    /// A program belongs to the thread that starts it.
    fn start(&self, command: &str, kept: Kept, floor: &dyn Floor) -> Result<Arc<Shell>, Refusal> {
        type Started = Result<Arc<Shell>, Refusal>;
        let (answer, started) = sync_channel::<Started>(1);
        let (command, cwd, env) = (command.to_owned(), floor.cwd().to_owned(), shell::environment(floor.env()));
        let live = move |answer: SyncSender<Started>| {
            let output = kept.file.try_clone().map_err(|error| Refusal(format!("No file for its output: {error}.")));
            let begun = output.and_then(|output| Ok((output, shell::start(&command, &env, &cwd, Running::start)?)));
            let (output, running) = match begun {
                Ok(begun) => begun,
                Err(refusal) => {
                    // Whoever asked waits for it.
                    let _ = answer.send(Err(refusal));
                    return;
                }
            };
            let (group, state) = (running.group(), Mutex::new(State { kept, ended: None }));
            let shell = Shell { group, output, told: Mutex::new(0), state, changed: Condvar::new() };
            let shell = Arc::new(shell);
            let _ = answer.send(Ok(Arc::clone(&shell)));
            shell.follow(running);
        };
        let exhausted = |why: String| Refusal(format!("No thread can be started for it: {why}."));
        let thread = std::thread::Builder::new().name("shell".to_owned());
        thread.spawn(move || live(answer)).map_err(|error| exhausted(error.to_string()))?;
        started.recv().map_err(|error| exhausted(error.to_string()))?
    }

    fn find(&self, id: &str) -> Result<Arc<Shell>, Refusal> {
        let known = self.known();
        let number = id.trim().trim_matches('`').trim_start_matches("bash_").parse::<u32>().ok();
        number.and_then(|number| known.get(&number)).cloned().ok_or_else(|| {
            let running: Vec<_> =
                known.iter().filter(|(_, shell)| shell.is_running()).map(|(number, _)| format!("`{number}`")).collect();
            let running =
                if running.is_empty() { "none runs".to_owned() } else { format!("there run {}", running.join(", ")) };
            Refusal(format!(
                "There is no shell `{id}` in the background; {running}. They end with the run that started them."
            ))
        })
    }

    pub(super) fn output(&self, wanted: &input::BashOutput, floor: &dyn Floor) -> Outcome {
        let filter = wanted.filter.as_deref().filter(|filter| !filter.is_empty());
        input::check_pattern("filter", filter.unwrap_or_default())?;
        let filter = filter.map(RegexMatcher::new).transpose();
        let filter = filter.map_err(|error| Refusal(format!("`filter` cannot be read: {error}")))?;
        let shell = self.find(&wanted.bash_id)?;
        let bound = floor.bound().unwrap_or(TEXT_BYTES).saturating_sub(ROOM);
        // Held while it is told: two who ask at once are not told the same.
        let mut told = shell.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (path, until, dropped, ended) = {
            let State { kept, ended } = &*shell.state();
            (kept.path.clone(), kept.bytes, kept.dropped, ended.clone())
        };
        let new = New { output: &shell.output, path: &path, from: *told, until, bound };
        let (mut text, reached) = match &filter {
            Some(filter) => new.filtered(filter, floor),
            None => new.latest().map(|text| (text, until)),
        }
        .map_err(|error| Refusal(format!("Its output cannot be read: {error}.")))?;
        let count = reached - std::mem::replace(&mut *told, reached);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let nothing = match (count, &filter) {
            (0, _) if reached == until => "nothing new; ",
            (_, Some(_)) if text.is_empty() => "nothing new that fits; ",
            _ => "",
        };
        let rest = match until - reached {
            0 => String::new(),
            bytes => format!("{bytes} bytes of it are still to be looked at, ask again; "),
        };
        let now = match &ended {
            None => "it runs".to_owned(),
            Some(Ok(ended)) => format!("it has ended: {}", shell::describe(*ended)),
            Some(Err(why)) => format!("it has ended; how is not known: {why}"),
        };
        let lost = match dropped {
            0 => String::new(),
            bytes => format!("; {bytes} bytes of its output are lost, since they were too many"),
        };
        text.push_str(&format!("[{nothing}{rest}{now}{lost}]"));
        let file = (count > bound as u64).then_some(path);
        Ok(Used { text, file, ..Used::default() })
    }

    pub(super) fn kill(&self, wanted: &input::KillShell) -> Outcome {
        let shell = self.find(&wanted.shell_id)?;
        if !shell.is_running() {
            return Ok(told(format!("Shell `{}` had ended already.", wanted.shell_id)));
        }
        shell.group.end(false);
        if !shell.wait(shell::GRACE) {
            shell.group.end(true);
        }
        if !shell.wait(shell::GRACE) {
            return Err(format!("Shell `{}` was killed, but the system has not ended it yet.", wanted.shell_id).into());
        }
        Ok(told(format!("Ended shell `{}`.", wanted.shell_id)))
    }
}

impl New<'_> {
    /// The last of it.
    fn latest(&self) -> io::Result<String> {
        let new = self.until - self.from;
        let shown = usize::try_from(new).unwrap_or(usize::MAX).min(self.bound);
        let mut bytes = vec![0; shown];
        self.output.read_exact_at(&mut bytes, self.until - shown as u64)?;
        let left_out = match new - shown as u64 {
            0 => String::new(),
            bytes => format!("[{bytes} bytes before this are left out; all of it is in {}]\n", self.path.display()),
        };
        Ok(left_out + &text(&bytes))
    }

    /// The first lines of it that fit a filter, and how far it was looked at before the time was over.
    fn filtered(&self, filter: &RegexMatcher, floor: &dyn Floor) -> io::Result<(String, u64)> {
        let mut lines = Lines { filter, bound: self.bound, told: String::new(), left_out: 0, line: Vec::new() };
        let (mut chunk, mut at) = (vec![0; CHUNK], self.from);
        while at < self.until && !is_over(floor) {
            let most = usize::try_from(self.until - at).unwrap_or(CHUNK).min(CHUNK);
            let count = self.output.read_at(&mut chunk[..most], at)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += count as u64;
            for piece in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
                lines.add(piece);
            }
        }
        lines.end();
        let left_out = match lines.left_out {
            0 => String::new(),
            count => {
                format!("[{count} more lines that fit are left out; all of it is in {}]\n", self.path.display())
            }
        };
        Ok((lines.told + &left_out, at))
    }
}

/// Lines that fit, out of pieces.
struct Lines<'a> {
    filter: &'a RegexMatcher,
    bound: usize,
    told: String,
    left_out: u64,
    line: Vec<u8>,
}

impl Lines<'_> {
    fn add(&mut self, piece: &[u8]) {
        self.line.extend_from_slice(piece);
        if piece.ends_with(b"\n") || self.line.len() >= MOST_LINE {
            self.end();
        }
    }

    fn end(&mut self) {
        let line = std::mem::take(&mut self.line);
        let bare = line.strip_suffix(b"\n").unwrap_or(&line);
        if line.is_empty() || !self.filter.is_match(bare).unwrap_or(false) {
            return;
        }
        if self.told.len() + line.len() > self.bound {
            self.left_out += 1;
            return;
        }
        self.told.push_str(&text(bare));
        self.told.push('\n');
    }
}
