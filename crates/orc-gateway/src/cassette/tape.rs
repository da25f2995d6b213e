//! The file of a cassette: JSON lines, each of which says something about one call. A call is named by the place of its
//! first line in the file, so no two calls of a file have one name.
//!
//! Written by appending whole lines, under a lock that other processes respect; what a crash left of a line is cut off by
//! whoever records next, and passed over by whoever reads. Read by an index of places, never as a whole.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::CassetteError;
use super::canonical::Canonical;
use crate::provider::{Broken, SendError};

/// The form of these files.
const FORM: &str = "orc/cassette/1";
/// Bytes that are read at once, looking for the end of the last whole line.
const BLOCK: usize = 64 * 1024;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// The call.
    call: u64,
    #[serde(flatten)]
    what: What,
}

/// What a line says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// What was asked.
    Request(Box<Canonical>),
    /// The head of the answer.
    Head { status: u16, headers: Vec<(String, String)> },
    /// A piece of it.
    Piece(Piece),
    /// How it ended.
    End(End),
}

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Piece {
    /// Text.
    Text(String),
    /// Bytes that are no text, in hexadecimal.
    Hex(String),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// The answer came whole.
    Whole,
    /// Its connection was cut.
    Cut(String),
    /// Nothing came for so many seconds.
    Idle(u64),
    /// Whoever asked went away.
    Left,
    /// The provider could not be reached.
    Unreachable { provider: String, why: String },
    /// It did not answer.
    Silent { provider: String, why: String },
    /// There was nobody to ask.
    Unable(String),
}

impl From<&Broken> for End {
    fn from(broken: &Broken) -> Self {
        match broken {
            Broken::Cut { why } => Self::Cut(why.clone()),
            Broken::Idle { seconds } => Self::Idle(*seconds),
            Broken::Closed => Self::Left,
        }
    }
}

impl From<&SendError> for End {
    fn from(error: &SendError) -> Self {
        match error.clone() {
            SendError::Unreachable { provider, why } => Self::Unreachable { provider, why },
            SendError::Silent { provider, why } => Self::Silent { provider, why },
            SendError::Unable { why } => Self::Unable(why),
        }
    }
}

impl Piece {
    pub(super) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.into_bytes()),
            Self::Hex(hex) => {
                let digits = |at: usize| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
                (0..hex.len()).step_by(2).map(digits).collect()
            }
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    inner: Mutex<(BufWriter<File>, u64)>,
}

impl Writer {
    /// Opens a file to add to it, or makes it; only its owner can read it.
    pub(super) fn open(path: &Path) -> Result<Self, CassetteError> {
        let open = |source| CassetteError::Open { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(open)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(open)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CassetteError::Busy { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(open(source)),
        }
        let mut end = whole_lines(&file).map_err(open)?;
        file.set_len(end).map_err(open)?;
        file.seek(SeekFrom::Start(end)).map_err(open)?;
        if end == 0 {
            let first = format!("{{\"schema\":\"{FORM}\"}}\n");
            file.write_all(first.as_bytes()).map_err(open)?;
            end = first.len() as u64;
        }
        Ok(Self { path: path.to_owned(), inner: Mutex::new((BufWriter::with_capacity(BLOCK, file), end)) })
    }

    /// Begins a call; its name.
    pub(super) fn begin(&self, request: Canonical) -> Result<u64, CassetteError> {
        self.add(|at| Line { call: at, what: What::Request(Box::new(request)) })
    }

    /// Says more of a call. What ends it is in the file afterwards.
    pub(super) fn say(&self, call: u64, what: What) -> Result<(), CassetteError> {
        self.add(|_| Line { call, what }).map(|_| ())
    }

    fn add(&self, line: impl FnOnce(u64) -> Line) -> Result<u64, CassetteError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, end) = &mut *inner;
        let at = *end;
        let line = line(at);
        let mut add = || {
            let mut bytes = serde_json::to_vec(&line)?;
            bytes.push(b'\n');
            file.write_all(&bytes)?;
            *end += bytes.len() as u64;
            if matches!(line.what, What::End(_)) { file.flush() } else { Ok(()) }
        };
        add().map_err(|source: std::io::Error| CassetteError::Write { path: self.path.clone(), source })?;
        Ok(at)
    }
}

/// The length of a file up to the end of its last whole line.
fn whole_lines(file: &File) -> std::io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; BLOCK];
    while end > 0 {
        let from = end.saturating_sub(BLOCK as u64);
        let part = &mut block[..usize::try_from(end - from).unwrap_or(BLOCK)];
        file.read_exact_at(part, from)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// A recorded call.
#[derive(Debug)]
pub(super) struct Taped {
    request: Place,
    /// The head of its answer, where one came.
    pub(super) head: Option<(u16, Vec<(String, String)>)>,
    pub(super) pieces: Vec<Place>,
    /// How it ended; none: whoever recorded it died.
    pub(super) end: Option<End>,
}

/// Where a line is, without its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    at: u64,
    length: usize,
    number: usize,
}

/// A file that is read.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    file: File,
}

impl Reader {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<Self, CassetteError> {
        let file = File::open(path).map_err(|source| CassetteError::Open { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Looks through it: what `sort` makes of each request, with what stands of its call, in the order of requests.
    pub(super) fn index<T>(&self, mut sort: impl FnMut(&Canonical) -> T) -> Result<Vec<(T, Taped)>, CassetteError> {
        let read = |source| CassetteError::Read { path: self.path.clone(), source };
        let mut lines = BufReader::new(&self.file);
        let mut calls: Vec<(u64, T, Taped)> = Vec::new();
        let (mut at, mut number, mut line) = (0, 0, Vec::new());
        loop {
            line.clear();
            let count = lines.by_ref().read_until(b'\n', &mut line).map_err(read)?;
            // Nothing, or a line that a crash cut.
            if line.last() != Some(&b'\n') {
                return Ok(calls.into_iter().map(|(_, sorted, taped)| (sorted, taped)).collect());
            }
            number += 1;
            let place = Place { at, length: count - 1, number };
            at += count as u64;
            if number == 1 {
                self.check_form(&line)?;
                continue;
            }
            let Line { call, what } = self.parse(&line, number)?;
            let known = calls.iter_mut().rev().find(|(name, ..)| *name == call).map(|(.., taped)| taped);
            match (what, known) {
                (What::Request(request), None) => {
                    calls.push((
                        call,
                        sort(&request),
                        Taped { request: place, head: None, pieces: Vec::new(), end: None },
                    ));
                }
                (What::Head { status, headers }, Some(taped)) => taped.head = Some((status, headers)),
                (What::Piece(_), Some(taped)) => taped.pieces.push(place),
                (What::End(end), Some(taped)) => taped.end = Some(end),
                _ => {
                    return Err(
                        self.bad(number, "it is about a call that does not begin before it, or begins it twice")
                    );
                }
            }
        }
    }

    fn check_form(&self, line: &[u8]) -> Result<(), CassetteError> {
        let first: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
        match first["schema"].as_str() {
            Some(FORM) => Ok(()),
            Some(other) => Err(self.bad(1, format!("its form is `{other}`, and this version reads `{FORM}`"))),
            None => Err(self.bad(1, format!("a cassette begins with {{\"schema\":\"{FORM}\"}}"))),
        }
    }

    fn parse(&self, line: &[u8], number: usize) -> Result<Line, CassetteError> {
        serde_json::from_slice(line).map_err(|error| self.bad(number, error.to_string()))
    }

    fn bad(&self, line: usize, why: impl Into<String>) -> CassetteError {
        CassetteError::Line { path: self.path.clone(), line, why: why.into() }
    }

    fn line(&self, place: Place) -> Result<What, CassetteError> {
        let mut bytes = vec![0; place.length];
        self.file
            .read_exact_at(&mut bytes, place.at)
            .map_err(|source| CassetteError::Read { path: self.path.clone(), source })?;
        Ok(self.parse(&bytes, place.number)?.what)
    }

    /// What was asked.
    pub(super) fn request(&self, taped: &Taped) -> Result<Canonical, CassetteError> {
        match self.line(taped.request)? {
            What::Request(request) => Ok(*request),
            _ => Err(self.bad(taped.request.number, "the file has changed since it was opened")),
        }
    }

    /// A piece of an answer.
    pub(super) fn piece(&self, place: Place) -> Result<Vec<u8>, CassetteError> {
        let bytes = match self.line(place)? {
            What::Piece(piece) => piece.bytes(),
            _ => None,
        };
        bytes.ok_or_else(|| self.bad(place.number, "it is no piece of an answer"))
    }
}
