//! The log of one run, from bytes as they come to lines in a file.
//!
//! Two limits keep any program cheap: an unfinished line holds at most [`MAX_LINE_BYTES`], and once the file has reached
//! its limit only the last [`TAIL_BYTES`] of each stream are kept, in memory, until the end. A file that cannot be written
//! is given up at the first error, cut back to its last whole line, and the program goes on unhindered.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use orc_domain::time::Timestamp;
use orc_ports::log::{LOG_VERSION, LogKind, LogLine, MAX_LINE_BYTES};

/// What is kept of each stream beyond the limit of the log, in bytes.
const TAIL_BYTES: usize = 32 * 1024;
/// Encoded lines are written out when there are this many bytes of them, and whenever nothing more is to be read.
const WRITE_BYTES: usize = 64 * 1024;
/// Characters of the last line that a report repeats (contract of `Report::last_line`).
const LAST_LINE_CHARS: usize = 500;

/// The log of a run. Its file is made when there is something to tell: a thousand steps that say nothing and do what they
/// should leave no thousand files.
#[derive(Debug)]
pub(crate) struct RunLog {
    file: Option<File>,
    path: PathBuf,
    limit: u64,
    seq: u64,
    /// Length of the file once `pending` is written.
    length: u64,
    pending: Vec<u8>,
    /// `pending` holds more than remarks.
    is_worth_writing: bool,
    error: Option<String>,
}

impl RunLog {
    /// A log that does not exist: a run is started once, so nobody wrote to it before.
    pub(crate) const fn new(path: PathBuf, limit: u64) -> Self {
        Self { file: None, path, limit, seq: 0, length: 0, pending: Vec::new(), is_worth_writing: false, error: None }
    }

    /// A line of ours; written at once and whatever the limit.
    pub(crate) fn note(&mut self, at: Timestamp, text: impl Into<String>) {
        self.is_worth_writing = true;
        self.remark(at, text);
    }

    /// A line of ours that is not worth a file of its own: written with the next thing that is.
    pub(crate) fn remark(&mut self, at: Timestamp, text: impl Into<String>) {
        self.append(LogLine { text: Some(text.into()), ..empty_line(at, LogKind::Note) });
        self.flush();
    }

    /// Why it is incomplete, if it is.
    pub(crate) fn into_error(self) -> Option<String> {
        self.error
    }

    /// Whether further output is only counted.
    fn is_full(&self) -> bool {
        self.length >= self.limit || self.error.is_some()
    }

    fn output(&mut self, at: Timestamp, kind: LogKind, piece: &[u8], part: bool) {
        let line = LogLine { part, ..empty_line(at, kind) };
        self.is_worth_writing = true;
        self.append(match std::str::from_utf8(piece) {
            Ok(text) => LogLine { text: Some(text.to_owned()), ..line },
            Err(_) => LogLine { bytes: Some(crate::base64::encode(piece)), ..line },
        });
    }

    /// Gives the line its number.
    fn append(&mut self, line: LogLine) {
        if self.error.is_some() {
            return;
        }
        let before = self.pending.len();
        self.seq += 1;
        if let Err(error) = serde_json::to_writer(&mut self.pending, &LogLine { seq: self.seq, ..line }) {
            self.pending.truncate(before);
            self.fail(&error.into());
            return;
        }
        self.pending.push(b'\n');
        self.length += (self.pending.len() - before) as u64;
        if self.pending.len() >= WRITE_BYTES {
            self.flush();
        }
    }

    /// Writes what is pending.
    pub(crate) fn flush(&mut self) {
        if self.pending.is_empty() || !self.is_worth_writing {
            return;
        }
        let mut lines = std::mem::take(&mut self.pending);
        let written = self.opened().and_then(|mut file| file.write_all(&lines));
        let whole = self.length - lines.len() as u64;
        lines.clear();
        self.pending = lines;
        if let Err(error) = written {
            if let Some(file) = &self.file {
                // Best effort: half a line would be read as a torn log.
                let _ = file.set_len(whole);
            }
            self.length = whole;
            self.fail(&error);
        }
    }

    /// The file, made with its folder the first time.
    fn opened(&mut self) -> std::io::Result<&File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let open = || File::options().append(true).create(true).mode(0o600).open(&self.path);
                match (open(), self.path.parent()) {
                    (Err(error), Some(folder)) if error.kind() == ErrorKind::NotFound => {
                        std::fs::create_dir_all(folder)?;
                        open()?
                    }
                    (opened, _) => opened?,
                }
            }
        };
        Ok(self.file.insert(file))
    }

    fn fail(&mut self, error: &std::io::Error) {
        self.error.get_or_insert_with(|| format!("cannot append to `{}`: {error}", self.path.display()));
    }
}

const fn empty_line(at: Timestamp, kind: LogKind) -> LogLine {
    LogLine { v: LOG_VERSION, seq: 0, at, kind, text: None, bytes: None, part: false }
}

/// One stream of output on its way into the log.
#[derive(Debug)]
pub(crate) struct Stream {
    kind: LogKind,
    /// The unfinished line, or what is left of it.
    line: Vec<u8>,
    /// The beginning of `line` is in the log already.
    begun: bool,
    /// The beginning of the last line that is not blank.
    last: Vec<u8>,
    tail: Option<Tail>,
}

/// The end of a stream that no longer fits into the log.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    seen: u64,
}

impl Stream {
    pub(crate) const fn new(kind: LogKind) -> Self {
        Self { kind, line: Vec::new(), begun: false, last: Vec::new(), tail: None }
    }

    /// Takes what was read, in any pieces.
    pub(crate) fn push(&mut self, log: &mut RunLog, at: Timestamp, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.tail.is_some() || log.is_full() {
                let line = std::mem::take(&mut self.line);
                let tail = self.tail.get_or_insert_default();
                tail.push(&line);
                tail.push(rest);
                return;
            }
            rest = self.split(log, at, rest);
        }
    }

    /// Writes what is held back; the stream has ended.
    pub(crate) fn finish(&mut self, log: &mut RunLog, at: Timestamp) {
        if let Some(tail) = self.tail.take() {
            let (kept, dropped) = tail.into_kept();
            if dropped > 0 {
                let name = if self.kind == LogKind::Stderr { "error output" } else { "output" };
                log.note(at, format!("{dropped} bytes of {name} dropped: the log may hold {} bytes", log.limit));
                self.begun = false;
            }
            let mut rest = kept.as_slice();
            while !rest.is_empty() {
                rest = self.split(log, at, rest);
            }
        }
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.emit(log, at, &line, true);
        }
        log.flush();
    }

    /// The last line that is not blank, cut to what a report carries.
    pub(crate) fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.last);
        let text: String = text.trim().chars().take(LAST_LINE_CHARS).collect();
        (!text.is_empty()).then_some(text)
    }

    /// Takes one line, or as much as there is of one; returns the rest.
    fn split<'a>(&mut self, log: &mut RunLog, at: Timestamp, bytes: &'a [u8]) -> &'a [u8] {
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let (mut piece, rest) = newline.map_or((bytes, &[][..]), |end| (&bytes[..end], &bytes[end + 1..]));
        while self.line.len() + piece.len() > MAX_LINE_BYTES {
            let (now, later) = piece.split_at(MAX_LINE_BYTES - self.line.len());
            self.line.extend_from_slice(now);
            piece = later;
            let whole = std::mem::take(&mut self.line);
            let (cut, carried) = whole.split_at(last_boundary(&whole));
            self.emit(log, at, cut, true);
            self.line.extend_from_slice(carried);
        }
        if newline.is_none() {
            self.line.extend_from_slice(piece);
        } else if self.line.is_empty() {
            self.emit(log, at, piece, false);
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(piece);
            self.emit(log, at, &line, false);
            line.clear();
            self.line = line;
        }
        rest
    }

    fn emit(&mut self, log: &mut RunLog, at: Timestamp, piece: &[u8], part: bool) {
        if !self.begun && !piece.trim_ascii().is_empty() {
            let piece = piece.trim_ascii_start();
            self.last.clear();
            // Four bytes are the longest character.
            self.last.extend_from_slice(&piece[..piece.len().min(4 * LAST_LINE_CHARS)]);
        }
        self.begun = part;
        log.output(at, self.kind, piece, part);
    }
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        if bytes.len() >= TAIL_BYTES {
            self.bytes.clear();
        } else if self.bytes.len() + bytes.len() > 2 * TAIL_BYTES {
            let surplus = self.bytes.len() + bytes.len() - TAIL_BYTES;
            self.bytes.drain(..surplus.min(self.bytes.len()));
        }
        self.bytes.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
    }

    /// What is written after all, from the beginning of a line where there is one, and how much is not.
    fn into_kept(self) -> (Vec<u8>, u64) {
        let surplus = self.bytes.len().saturating_sub(TAIL_BYTES);
        let mut kept = self.bytes[surplus..].to_vec();
        if self.seen > kept.len() as u64
            && let Some(newline) = kept.iter().position(|byte| *byte == b'\n')
            && newline + 1 < kept.len()
        {
            kept.drain(..=newline);
        }
        let dropped = self.seen - kept.len() as u64;
        (kept, dropped)
    }
}

/// Where a line can be cut without tearing a character that may be whole; the end when there is no such place.
fn last_boundary(line: &[u8]) -> usize {
    match std::str::from_utf8(line) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => line.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        _directory: tempfile::TempDir,
        path: PathBuf,
    }

    fn open(path: &std::path::Path, limit: u64) -> RunLog {
        RunLog::new(path.to_owned(), limit)
    }

    fn fixture() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        Fixture { path: directory.path().join("log"), _directory: directory }
    }

    fn lines(path: &std::path::Path) -> Vec<LogLine> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<LogLine> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(lines.iter().zip(1..).all(|(line, seq)| line.seq == seq), "lines are counted from 1");
        lines
    }

    fn at() -> Timestamp {
        Timestamp::from_millis(7)
    }

    /// Writes `pieces` and returns (text or base64, part) of each line.
    fn written(pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let fixture = fixture();
        let mut log = open(&fixture.path, 1 << 30);
        let mut stream = Stream::new(LogKind::Stdout);
        for piece in pieces {
            stream.push(&mut log, at(), piece);
        }
        stream.finish(&mut log, at());
        assert_eq!(log.into_error(), None);
        let lines = lines(&fixture.path).into_iter();
        lines.map(|line| (line.text.unwrap_or_else(|| format!("b:{}", line.bytes.unwrap())), line.part)).collect()
    }

    #[test]
    fn lines_whatever_the_pieces() {
        let whole = |text: &str| (text.to_owned(), false);
        assert_eq!(written(&[b"one\ntwo\n"]), [whole("one"), whole("two")]);
        assert_eq!(written(&[b"o", b"ne", b"\n", b"\n", b"two\r\n"]), [whole("one"), whole(""), whole("two\r")]);
        assert_eq!(written(&[b"\xc3", b"\xa4\n"]), [whole("\u{e4}")]);
        assert_eq!(written(&[b"one\ntw", b"o"]), [whole("one"), ("two".to_owned(), true)]);
        assert_eq!(written(&[b"a\n\xff\xfe\xfd\nb\n"]), [whole("a"), whole("b://79"), whole("b")]);
        assert!(written(&[]).is_empty());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let exact = "x".repeat(MAX_LINE_BYTES);
        assert_eq!(written(&[exact.as_bytes(), b"\n"]), [(exact.clone(), false)]);
        assert_eq!(written(&[exact.as_bytes(), b"y\n"]), [(exact.clone(), true), ("y".to_owned(), false)]);

        let wide = format!("x{}", "\u{e4}".repeat(MAX_LINE_BYTES));
        let cut = written(&[wide.as_bytes(), b"\nz\n"]);
        assert!(cut.iter().all(|(text, _)| text.len() <= MAX_LINE_BYTES && !text.starts_with("b:")));
        assert_eq!(cut.iter().map(|(_, part)| *part).collect::<Vec<_>>(), [true, true, false, false]);
        assert_eq!(cut[..3].iter().map(|(text, _)| text.as_str()).collect::<String>(), wide);
    }

    #[test]
    fn beyond_the_limit_the_end_is_kept_and_the_middle_counted() {
        let fixture = fixture();
        let mut log = open(&fixture.path, 4096);
        let (mut out, mut err) = (Stream::new(LogKind::Stdout), Stream::new(LogKind::Stderr));
        let mut total = 0;
        for number in 0..100_000 {
            let line = format!("line {number}\n");
            total += line.len();
            out.push(&mut log, at(), line.as_bytes());
        }
        err.push(&mut log, at(), b"so it ends\n\n");
        out.finish(&mut log, at());
        err.finish(&mut log, at());
        assert_eq!(log.into_error(), None);
        assert_eq!(out.last_line().as_deref(), Some("line 99999"));
        assert_eq!(err.last_line().as_deref(), Some("so it ends"));

        let lines = lines(&fixture.path);
        let note = lines.iter().position(|line| line.kind == LogKind::Note).unwrap();
        let kept: usize = lines
            .iter()
            .filter(|line| line.kind == LogKind::Stdout)
            .map(|line| line.text.as_ref().unwrap().len() + 1)
            .sum();
        let wanted = format!("{} bytes of output dropped: the log may hold 4096 bytes", total - kept);
        assert_eq!(lines[note].text.as_deref(), Some(wanted.as_str()));
        assert_eq!(lines[0].text.as_deref(), Some("line 0"));
        assert!(lines[note + 1].text.as_ref().unwrap().starts_with("line "), "the end begins with a whole line");
        assert_eq!(
            lines.iter().filter(|line| line.kind == LogKind::Note).count(),
            1,
            "nothing of the other is dropped"
        );
        assert!(std::fs::metadata(&fixture.path).unwrap().len() < 4096 + 8 * TAIL_BYTES as u64);
    }

    #[test]
    fn the_last_line_that_says_something() {
        let cases: [(&[&[u8]], Option<&str>); 6] = [
            (&[], None),
            (&[b"\n  \n\t"], None),
            (&[b"a\nb\n\n  \n"], Some("b")),
            (&[b"a\n  b  \r\n"], Some("b")),
            (&[b"a\nwithout end"], Some("without end")),
            (&[b"\xff\n"], Some("\u{fffd}")),
        ];
        for (pieces, wanted) in cases {
            let fixture = fixture();
            let mut log = open(&fixture.path, 1 << 20);
            let mut stream = Stream::new(LogKind::Stderr);
            pieces.iter().for_each(|piece| stream.push(&mut log, at(), piece));
            stream.finish(&mut log, at());
            assert_eq!(stream.last_line().as_deref(), wanted);
        }
        let fixture = fixture();
        let mut log = open(&fixture.path, 1 << 20);
        let mut stream = Stream::new(LogKind::Stderr);
        stream.push(&mut log, at(), "\u{1f600}".repeat(20_000).as_bytes());
        stream.finish(&mut log, at());
        assert_eq!(stream.last_line().unwrap(), "\u{1f600}".repeat(LAST_LINE_CHARS));
    }

    #[test]
    fn remarks_alone_leave_no_file() {
        let fixture = fixture();
        let mut log = open(&fixture.path, 1 << 20);
        log.remark(at(), "started");
        log.remark(at(), "ended");
        assert!(!fixture.path.exists());
        log.note(at(), "killed");
        assert_eq!(log.into_error(), None);
        let texts: Vec<_> = lines(&fixture.path).into_iter().filter_map(|line| line.text).collect();
        assert_eq!(texts, ["started", "ended", "killed"]);
    }

    #[test]
    fn a_full_disk_is_said_once_and_hinders_nobody() {
        let path = std::path::Path::new("/dev/full");
        let mut log = open(path, 1 << 20);
        let mut stream = Stream::new(LogKind::Stdout);
        log.note(at(), "started");
        for _ in 0..1000 {
            stream.push(&mut log, at(), &[b'x'; 4096]);
            stream.push(&mut log, at(), b"\n");
        }
        stream.push(&mut log, at(), b"the end\n");
        assert!(stream.tail.as_ref().unwrap().bytes.capacity() <= 4 * TAIL_BYTES);
        stream.finish(&mut log, at());
        assert_eq!(stream.last_line().as_deref(), Some("the end"));
        let error = log.into_error().unwrap();
        assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");
    }
}
