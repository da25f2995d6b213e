//! Reading a log while it grows.
//!
//! Only whole lines are taken; half a line is left for the next look. A log that became shorter (its last lines could not
//! be written whole, or somebody cut it) is read again from its start, and lines that were seen are known by their number.

use std::collections::VecDeque;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use orc_domain::ids::RunId;
use orc_ports::log::LogLine;

use crate::failure::{CommandResult, unavailable};
use crate::output::say;

/// Bytes that are read at once, more than the longest line of a log has; a thousand logs may be read side by side.
const CHUNK: usize = 128 * 1024;

/// A place in a log.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    run: RunId,
    offset: u64,
    /// Lines that were read before it.
    lines: u64,
    last_seq: u64,
}

/// What there was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No log: nothing was printed yet, or it was removed.
    Missing,
    /// Nothing new.
    Nothing,
    /// Lines, and perhaps more behind them.
    Lines,
}

impl Tail {
    pub(super) const fn new(path: PathBuf, run: RunId) -> Self {
        Self { path, run, offset: 0, lines: 0, last_seq: 0 }
    }

    /// Appends whole lines that are new to `lines`, each with its text as written.
    pub(super) fn read(&mut self, lines: &mut VecDeque<(String, LogLine)>) -> CommandResult<Found> {
        match self.chunk() {
            Ok(None) => Ok(Found::Missing),
            Ok(Some(bytes)) => Ok(self.take(&bytes, lines)),
            Err(error) => {
                let what = format!("cannot read the log of {}, `{}`", self.run, self.path.display());
                Err(unavailable(what).because(error))
            }
        }
    }

    fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let log = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            log => log?,
        };
        let length = log.metadata()?.len();
        if length < self.offset {
            (self.offset, self.lines) = (0, 0);
        }
        let wanted = usize::try_from(length - self.offset).unwrap_or(CHUNK).min(CHUNK);
        let mut bytes = vec![0; wanted];
        let mut filled = 0;
        while filled < wanted {
            match log.read_at(&mut bytes[filled..], self.offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(Some(bytes))
    }

    fn take(&mut self, bytes: &[u8], lines: &mut VecDeque<(String, LogLine)>) -> Found {
        let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(newline) => &bytes[..=newline],
            // No line of ours is that long; what it is gets told below, and the next look goes on behind it.
            None if bytes.len() == CHUNK => bytes,
            None => return Found::Nothing,
        };
        self.offset += whole.len() as u64;
        for line in whole.strip_suffix(b"\n").unwrap_or(whole).split(|byte| *byte == b'\n') {
            self.lines += 1;
            let text = std::str::from_utf8(line).ok();
            let parsed = text.and_then(|text| Some((text, serde_json::from_str::<LogLine>(text).ok()?)));
            match parsed {
                Some((_, line)) if line.seq <= self.last_seq => {}
                Some((text, line)) => {
                    self.last_seq = line.seq;
                    lines.push_back((text.to_owned(), line));
                }
                None => say(&format!("line {} of `{}` is damaged and left out", self.lines, self.path.display())),
            }
        }
        Found::Lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> String {
        format!("{{\"v\":1,\"seq\":{seq},\"at\":{seq},\"kind\":\"stdout\",\"text\":\"ä{seq}\"}}\n")
    }

    fn read(tail: &mut Tail) -> Vec<u64> {
        let mut lines = VecDeque::new();
        while tail.read(&mut lines).is_ok_and(|found| found == Found::Lines) {}
        lines.into_iter().map(|(_, line)| line.seq).collect()
    }

    #[test]
    fn a_log_is_read_as_it_appears_grows_and_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.jsonl");
        let mut tail = Tail::new(path.clone(), RunId::from_uuid(uuid::Uuid::nil()));
        let mut lines = VecDeque::new();
        assert!(matches!(tail.read(&mut lines), Ok(Found::Missing)));
        let text = [line(1), line(2)].concat();
        // Cut inside of a character, so that half a line is no text either.
        let half = text.len() - 6;
        std::fs::write(&path, &text.as_bytes()[..half]).unwrap();
        assert_eq!(read(&mut tail), [1]);
        assert!(matches!(tail.read(&mut lines), Ok(Found::Nothing)));
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read(&mut tail), [2]);
        std::fs::write(&path, line(1)).unwrap();
        assert_eq!(read(&mut tail), [0; 0]);
        std::fs::write(&path, [line(1), line(2), line(3)].concat()).unwrap();
        assert_eq!(read(&mut tail), [3]);
    }

    #[test]
    fn more_than_a_chunk_is_read_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.jsonl");
        let last = 4 * CHUNK as u64 / line(1).len() as u64;
        std::fs::write(&path, (1..=last).map(line).collect::<String>()).unwrap();
        let mut tail = Tail::new(path, RunId::from_uuid(uuid::Uuid::nil()));
        assert_eq!(read(&mut tail), (1..=last).collect::<Vec<_>>());
    }
}
