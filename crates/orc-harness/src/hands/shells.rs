//! Shells in the background: `BashOutput` and `KillShell`.
//!
//! Each has a thread of its own, which starts it, takes its output into a file and collects it. They end with the host, which
//! ends everything that came from it.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use orc_process::hands::{Floor, Group, Heard, Running, Used};
use orc_process::protocol::Ended;

use super::offers::TEXT_BYTES;
use super::spool::{Kept, text};
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
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    kept: Kept,
    /// How far it was told.
    told: u64,
    ended: Option<Result<Ended, String>>,
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
            let running = match shell::start(&command, &env, &cwd, Running::start) {
                Ok(running) => running,
                Err(refusal) => {
                    // Whoever asked waits for it.
                    let _ = answer.send(Err(refusal));
                    return;
                }
            };
            let state = Mutex::new(State { kept, told: 0, ended: None });
            let shell = Arc::new(Shell { group: running.group(), state, changed: Condvar::new() });
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
        let filter = wanted.filter.as_deref().filter(|filter| !filter.is_empty()).map(RegexMatcher::new).transpose();
        let filter = filter.map_err(|error| Refusal(format!("`filter` cannot be read: {error}")))?;
        let shell = self.find(&wanted.bash_id)?;
        let bound = floor.bound().unwrap_or(TEXT_BYTES).saturating_sub(ROOM);
        let mut state = shell.state();
        let new = state.kept.bytes - state.told;
        let mut text = match &filter {
            Some(filter) => state.filtered(filter, bound),
            None => state.latest(bound),
        }
        .map_err(|error| Refusal(format!("Its output cannot be read: {error}.")))?;
        state.told = state.kept.bytes;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let nothing = match (new, &filter) {
            (0, _) => "nothing new; ",
            (_, Some(_)) if text.is_empty() => "nothing new that fits; ",
            _ => "",
        };
        let now = match &state.ended {
            None => "it runs".to_owned(),
            Some(Ok(ended)) => format!("it has ended: {}", shell::describe(*ended)),
            Some(Err(why)) => format!("it has ended; how is not known: {why}"),
        };
        let lost = match state.kept.dropped {
            0 => String::new(),
            bytes => format!("; {bytes} bytes of its output are lost, since they were too many"),
        };
        text.push_str(&format!("[{nothing}{now}{lost}]"));
        let file: Option<PathBuf> = (new > bound as u64).then(|| state.kept.path.clone());
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

impl State {
    /// The last of what is new.
    fn latest(&self, bound: usize) -> io::Result<String> {
        let new = self.kept.bytes - self.told;
        let shown = usize::try_from(new).unwrap_or(usize::MAX).min(bound);
        let mut bytes = vec![0; shown];
        self.kept.file.read_exact_at(&mut bytes, self.kept.bytes - shown as u64)?;
        let path = self.kept.path.display();
        let left_out = match new - shown as u64 {
            0 => String::new(),
            bytes => format!("[{bytes} bytes before this are left out; all of it is in {path}]\n"),
        };
        Ok(left_out + &text(&bytes))
    }

    /// The first lines of what is new that fit a filter.
    fn filtered(&mut self, filter: &RegexMatcher, bound: usize) -> io::Result<String> {
        let mut reader = &self.kept.file;
        // Only at an end of it does the shell write.
        reader.seek(SeekFrom::Start(self.told))?;
        let mut lines = Lines { filter, bound, told: String::new(), left_out: 0, line: Vec::new() };
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = reader.read(&mut chunk)?;
            if count == 0 {
                break;
            }
            for piece in chunk[..count].split_inclusive(|byte| *byte == b'\n') {
                lines.add(piece);
            }
        }
        lines.end();
        reader.seek(SeekFrom::End(0))?;
        let left_out = match lines.left_out {
            0 => String::new(),
            count => {
                format!("[{count} more lines that fit are left out; all of it is in {}]\n", self.kept.path.display())
            }
        };
        Ok(lines.told + &left_out)
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
