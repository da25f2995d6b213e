//! The record of a conversation: one file of JSON lines, to which every run of it appends.
//!
//! What the loop heard is written before it is acted on, and is on the disk before anything that changes something begins.
//! So a conversation goes on from its record, whoever died in between, and a run can be replayed from it: the questions
//! that the loop asked are there as digests, piece by piece, so that the first one that differs can be named.
//!
//! Lines are `{"v":1,"seq":7,"at":1709208000123,"kind":"heard",...}`. A last line without its end is what a crash left: it
//! goes. Anything else that cannot be read is an error: half a conversation is not one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use orc_domain::ids::RunId;
use orc_domain::time::Timestamp;
use orc_ports::harness::Outset;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::brain::{Heard, Settings};
use crate::talk::{Message, Question, Said};

/// The version in `v`.
pub const RECORD_VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// [`RECORD_VERSION`].
    pub v: u32,
    /// Counts lines of the conversation from 1.
    pub seq: u64,
    /// When it was written.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The conversation begins; what it works with from here on.
    Began {
        /// Resolved once.
        settings: Box<Settings>,
    },
    /// A run of it begins.
    Run {
        /// Which.
        run: RunId,
        /// What it began with; none: what the run has that started it, or it is of an earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outset: Option<Box<Outset>>,
    },
    /// The loop heard something.
    Heard {
        /// What.
        #[serde(flatten)]
        heard: Heard,
    },
    /// The loop asked the model.
    Asked {
        /// What.
        question: Print,
    },
    /// The run is over.
    Ended {
        /// Why, if for a reason of its own.
        #[serde(default)]
        stop: Option<String>,
        /// Digests of what whoever watched was told, event by event.
        events: Vec<String>,
    },
}

/// A question as digests: enough to tell where another differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Print {
    /// Which model.
    pub model: String,
    /// Tokens of output that were asked for.
    pub max_output: Option<u32>,
    /// Whether in pieces.
    pub stream: bool,
    /// Of the system text.
    pub system: String,
    /// Of the tools.
    pub tools: String,
    /// Of all messages.
    pub messages: String,
    /// Of each message that no question of the run before it had.
    pub new: Vec<String>,
}

impl Print {
    /// Of a question, of whose messages `known` were in the one before.
    #[must_use]
    pub fn of(question: &Question, known: usize) -> Self {
        let each: Vec<String> = question.messages.iter().map(digest).collect();
        Self {
            model: question.model.clone(),
            max_output: question.max_output,
            stream: question.stream,
            system: digest(&question.system),
            tools: digest(&question.tools),
            messages: digest(&each),
            new: each.into_iter().skip(known).collect(),
        }
    }

    /// What differs, in words; `None` when nothing does. `known` as in [`Print::of`].
    #[must_use]
    pub fn difference(&self, other: &Self, known: usize, messages: &[Message]) -> Option<String> {
        let named = [
            (self.model == other.model, format!("the model is `{}`, not `{}`", other.model, self.model)),
            (self.system == other.system, "the system text differs".to_owned()),
            (self.tools == other.tools, "the tools differ".to_owned()),
            (self.stream == other.stream, "one asks for a stream and the other does not".to_owned()),
            (self.max_output == other.max_output, "the limits of the output differ".to_owned()),
        ];
        if let Some((_, what)) = named.into_iter().find(|(same, _)| !same) {
            return Some(what);
        }
        if self.messages == other.messages {
            return None;
        }
        let at = self.new.iter().zip(&other.new).position(|(one, other)| one != other);
        let at = known + at.unwrap_or_else(|| self.new.len().min(other.new.len()));
        let what = messages.get(at).map_or_else(|| "one has more messages".to_owned(), about);
        Some(format!("message {} differs: {what}", at + 1))
    }
}

/// A message in a few words.
fn about(message: &Message) -> String {
    use crate::talk::Block;
    let each = message.blocks.iter().map(|block| match block {
        Block::Text { text } => format!("text `{}`", excerpt(text)),
        Block::Thought { .. } => "a thought".to_owned(),
        Block::Call(call) => format!("call {} of {}", call.id, call.name),
        Block::Result { call, text, .. } => format!("result of call {call} `{}`", excerpt(text)),
    });
    each.collect::<Vec<_>>().join(", ")
}

fn excerpt(text: &str) -> String {
    text.chars().take(60).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// The first 16 digits of the SHA-256 of a value's JSON.
pub(crate) fn digest<T: Serialize + ?Sized>(value: &T) -> String {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    hex(&Sha256::digest(&bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It cannot be opened, read or written.
    #[error("cannot use the record of the conversation `{}`", path.display())]
    Broken {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("line {line} of the record `{}` cannot be read: {why}", path.display())]
    Garbage {
        /// Where.
        path: PathBuf,
        /// Which, from 1.
        line: usize,
        /// Why.
        why: String,
    },
}

/// Reads a record; none where there is no file. What a crash left at its end is not there.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<Vec<Line>, RecordError> {
    let broken = |source| RecordError::Broken { path: path.to_owned(), source };
    let text = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(broken(error)),
    };
    parse(path, &text).map(|(lines, _)| lines)
}

/// The lines, and how many bytes they take.
fn parse(path: &Path, bytes: &[u8]) -> Result<(Vec<Line>, u64), RecordError> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = Vec::new();
    for (at, line) in bytes[..whole].split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let garbage = |why: String| RecordError::Garbage { path: path.to_owned(), line: at + 1, why };
        let parsed: Line = serde_json::from_slice(line).map_err(|error| garbage(error.to_string()))?;
        if parsed.v != RECORD_VERSION {
            return Err(garbage(format!("version {} is not {RECORD_VERSION}", parsed.v)));
        }
        lines.push(parsed);
    }
    Ok((lines, whole as u64))
}

/// A record that is written to.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    file: File,
    seq: u64,
    /// What was said and not written: pieces of one answer become few.
    pending: Vec<Said>,
}

impl Record {
    /// Opens it, made with its folder if missing; what is in it.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn open(path: &Path) -> Result<(Self, Vec<Line>), RecordError> {
        let broken = |source| RecordError::Broken { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(broken)?;
        }
        let mut open = File::options();
        let mut file = open.read(true).append(true).create(true).mode(0o600).open(path).map_err(broken)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(broken)?;
        let (lines, whole) = parse(path, &bytes)?;
        if whole < bytes.len() as u64 {
            file.set_len(whole).map_err(broken)?;
        }
        file.seek(SeekFrom::End(0)).map_err(broken)?;
        let seq = lines.last().map_or(0, |line| line.seq);
        Ok((Self { path: path.to_owned(), file, seq, pending: Vec::new() }, lines))
    }

    /// Writes what was heard. Pieces of an answer wait for what comes next.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn hear(&mut self, at: Timestamp, heard: &Heard) -> Result<(), RecordError> {
        if let Heard::Said { pieces } = heard {
            for piece in pieces {
                fold(&mut self.pending, piece);
            }
            return Ok(());
        }
        self.append(at, Entry::Heard { heard: heard.clone() })
    }

    /// Writes a line, behind what waits.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&mut self, at: Timestamp, entry: Entry) -> Result<(), RecordError> {
        self.flush(at)?;
        self.write(at, entry)
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self, at: Timestamp) -> Result<(), RecordError> {
        let pieces = std::mem::take(&mut self.pending);
        if pieces.is_empty() { Ok(()) } else { self.write(at, Entry::Heard { heard: Heard::Said { pieces } }) }
    }

    /// What is written is on the disk when this returns.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.file.sync_data().map_err(|source| RecordError::Broken { path: self.path.clone(), source })
    }

    fn write(&mut self, at: Timestamp, entry: Entry) -> Result<(), RecordError> {
        let broken = |source| RecordError::Broken { path: self.path.clone(), source };
        let line = Line { v: RECORD_VERSION, seq: self.seq + 1, at, entry };
        let mut bytes = serde_json::to_vec(&line).map_err(|error| broken(error.into()))?;
        bytes.push(b'\n');
        self.file.write_all(&bytes).map_err(broken)?;
        self.seq += 1;
        Ok(())
    }
}

/// Adds a piece: texts that follow each other become one, and what only shows that something is on its way goes.
fn fold(pieces: &mut Vec<Said>, piece: &Said) {
    match (pieces.last_mut(), piece) {
        (_, Said::Thinking { .. } | Said::CallBegins { .. }) => {}
        (Some(Said::Text { text, .. }), Said::Text { text: more, begins: false }) => text.push_str(more),
        (Some(Said::Used(known)), Said::Used(tokens)) => *known = *tokens,
        _ => pieces.push(piece.clone()),
    }
}

#[cfg(test)]
mod tests;
