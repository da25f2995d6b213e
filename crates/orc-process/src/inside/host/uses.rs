//! A call that uses one of the tools that were brought.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::Host;
use crate::hands::{Floor, Program, Running, Use, Used};
use crate::protocol::{Answer, Content, Failure, MAX_STREAM_BYTES, Outcome};

/// Most bytes of a line of progress.
const MOST_PROGRESS: usize = 1_000;

/// What a call stands on.
pub(super) struct Ground<'a> {
    host: &'a Host,
    id: u64,
    cwd: PathBuf,
    until: Option<Instant>,
    bytes: Option<usize>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(host: &'a Host, id: u64, cwd: PathBuf, deadline: Option<u64>, bytes: usize) -> Self {
        let until = deadline.and_then(|millis| Instant::now().checked_add(Duration::from_millis(millis)));
        let bytes = Some(bytes).filter(|bytes| *bytes <= MAX_STREAM_BYTES);
        Self { host, id, cwd, until, bytes }
    }
}

impl Host {
    /// A tool that panics has failed like any other; the thread has said where.
    pub(super) fn lift(&self, wanted: &Use, ground: &Ground<'_>) -> Outcome {
        let lifted = catch_unwind(AssertUnwindSafe(|| self.hands.lift(wanted, ground)));
        let mut used = lifted.unwrap_or_else(|_| Used {
            text: format!("`{}` broke down and did not finish; what it was to do may be done in part", wanted.name),
            failed: true,
            ..Used::default()
        });
        used.text.truncate(used.text.floor_char_boundary(ground.bytes.unwrap_or(MAX_STREAM_BYTES)));
        Outcome::Content(Content::Used(used))
    }
}

impl Floor for Ground<'_> {
    fn cwd(&self) -> &Path {
        &self.cwd
    }

    fn env(&self) -> &BTreeMap<String, String> {
        &self.host.env
    }

    fn bound(&self) -> Option<usize> {
        self.bytes
    }

    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    fn is_cancelled(&self) -> bool {
        self.host.live().get(&self.id).is_none_or(|live| live.asked.is_some())
    }

    fn progress(&self, text: &str) {
        let text = text[..text.floor_char_boundary(MOST_PROGRESS)].to_owned();
        self.host.say(&Answer::Progress { id: self.id, text: Some(text) });
    }

    fn start(&self, program: Program<'_>) -> Result<Running, Failure> {
        let running = Running::start(program)?;
        self.host.watch(self.id, &running.group());
        Ok(running)
    }
}
