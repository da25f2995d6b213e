//! What is spoken with the programs inside a box: frames of JSON, each after its length (four bytes, the highest first).
//!
//! A host ([`crate::inside`]) says hello first, then answers calls in any order. A frame is at most [`MAX_FRAME_BYTES`]
//! long; whoever receives a longer one, or one that it cannot read, says so with [`Answer::Error`] and ends. Paths are
//! those inside the box. Nothing is trusted because it came from a box: whoever reads an answer bounds and checks it.

use std::io::{self, Read};
use std::path::PathBuf;

use orc_domain::confine::Violation;
use orc_ports::executor::Exit;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hands::{Use, Used};

/// Version of these frames.
pub const VERSION: u32 = 2;
/// Longest frame, in bytes, without its length.
pub const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// Tools of every host; [`crate::hands::Hands`] bring more.
pub const TOOLS: [&str; 3] = ["spawn", "read", "write"];

/// What a host is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Use a tool; answered with progress and one result.
    Call(Call),
    /// End what a call started: TERM now, KILL when asked a second time. Unknown ids are ignored: the result is on its way.
    Cancel {
        /// Which call.
        id: u64,
    },
    /// Where paths lead; answered with a result.
    Stat {
        /// Names it in the answer.
        id: u64,
        /// Relative ones count from the root.
        paths: Vec<PathBuf>,
    },
    /// No more calls; the host ends what runs and goes.
    Bye,
}

/// A use of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Names it in the answers.
    pub id: u64,
    /// Which tool, with what.
    #[serde(flatten)]
    pub tool: Tool,
    /// Working directory of a program; where relative paths count from.
    pub cwd: PathBuf,
    /// Milliseconds after which a program is killed, and a use of other tools ends; none: no bound. Files are not bounded in
    /// time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// Bounds.
    #[serde(default)]
    pub limits: CallLimits,
}

/// Most bytes of each stream of output in a result: both, as base64, fit into a frame.
pub const MAX_STREAM_BYTES: usize = MAX_FRAME_BYTES / 3;
/// Most bytes of a file that is read or written, for the same reason.
pub const MAX_FILE_BYTES: usize = 2 * MAX_STREAM_BYTES;

/// Bounds of a call; 0, and whatever is more, is [`MAX_STREAM_BYTES`] or [`MAX_FILE_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLimits {
    /// Bytes of each stream of output that come back, of a file that is read, or of the text of other tools.
    #[serde(default)]
    pub bytes: u64,
}

/// A tool with its input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tool", content = "input", rename_all = "snake_case")]
pub enum Tool {
    /// Runs a program to its end.
    Spawn(Spawn),
    /// Reads a file.
    Read {
        /// Which.
        path: PathBuf,
    },
    /// Writes a whole file: beside it first, then renamed.
    Write {
        /// Which.
        path: PathBuf,
        /// Its content.
        bytes: Bytes,
    },
    /// Uses one of the tools that were brought.
    Use(Use),
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// Program and arguments; a program without `/` is looked up in the `PATH` of `env`.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: std::collections::BTreeMap<String, String>,
    /// Where its streams go.
    pub streams: Streams,
}

/// Standard streams of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Streams {
    /// The host's own output streams; standard input is a descriptor that came with the frame, else it has ended. Only in
    /// the first call of a `box-init`, whose only call it is.
    Inherited,
    /// They come back in the result.
    Captured {
        /// What it reads.
        stdin: Bytes,
    },
}

/// What a host says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
    /// The first.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// [`TOOLS`], and those that were brought.
        tools: Vec<String>,
    },
    /// A program has started, or a tool says how far it is.
    Progress {
        /// Of which call.
        id: u64,
        /// In a line; none: a program has started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The end of a call.
    Result {
        /// Of which call.
        id: u64,
        /// What came of it.
        #[serde(flatten)]
        outcome: Outcome,
        /// What it took.
        #[serde(default)]
        resources: Resources,
    },
    /// The box refused something. Counts are of all so far, and a later frame of the same kind and text replaces it.
    Violation(Violation),
    /// The host ends here.
    Error {
        /// Why.
        message: String,
    },
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it was to do.
    Content(Content),
    /// A file.
    File(Bytes),
    /// It could not be done.
    Failed(Failure),
}

/// Content of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A program has ended.
    Ended {
        /// How.
        exit: Ended,
        /// Captured output, cut at the bound.
        stdout: Bytes,
        /// Captured error output, cut at the bound.
        stderr: Bytes,
        /// Bytes of both that were dropped.
        dropped: u64,
    },
    /// A file was written.
    Written,
    /// Where paths lead, in the order asked for.
    Paths(Vec<PathFacts>),
    /// What came of a use.
    Used(Used),
}

/// Exit status of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Code(code) => Self::Code(code),
            Ended::Signal(signal) => Self::Signal(signal),
        }
    }
}

/// What there is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFacts {
    /// The path without links, of the part that exists; the rest is appended.
    pub canonical: PathBuf,
    /// None: nothing is there.
    pub kind: Option<PathKind>,
    /// Length of a file.
    pub bytes: u64,
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Something else.
    Other,
}

/// What a call took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Milliseconds from its start to its end.
    pub wall_ms: u64,
}

/// Why a call could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What is to blame.
    pub what: Blame,
    /// Number of the error, when there is one.
    #[serde(default)]
    pub errno: Option<i32>,
    /// Why, in words.
    pub why: String,
}

/// What is to blame for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The program cannot be started.
    Program,
    /// Its working directory.
    Directory,
    /// No more processes, memory or descriptors.
    Exhausted,
    /// A file.
    File,
    /// The call itself: it is not for this host.
    Call,
    /// The box could not be made.
    Box,
}

/// Bytes in JSON: text where they are, else base64 (RFC 4648, section 4, padded). Text that would be longer than that is
/// base64 too, so bytes never take more than four thirds of their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written<'a> {
    Text(std::borrow::Cow<'a, str>),
    Base64(String),
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match std::str::from_utf8(&self.0) {
            Ok(text) if escapes(text) <= text.len() / 3 => Written::Text(text.into()),
            _ => Written::Base64(crate::base64::encode(&self.0)),
        };
        written.serialize(serializer)
    }
}

/// Bytes that a text grows by in JSON (RFC 8259, section 7).
fn escapes(text: &str) -> usize {
    let each = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    });
    each.sum()
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Text(text) => Ok(Self(text.into_owned().into_bytes())),
            Written::Base64(text) => {
                crate::base64::decode(&text).map(Self).ok_or_else(|| D::Error::custom("no base64"))
            }
        }
    }
}

/// Why there is no further frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// It cannot be read or written.
    #[error("the connection is broken")]
    Broken {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It ends in the middle of a frame.
    #[error("the connection ended in the middle of a frame")]
    Torn,
    /// More than [`MAX_FRAME_BYTES`].
    #[error("a frame of {bytes} bytes; at most {MAX_FRAME_BYTES} are allowed")]
    TooLong {
        /// Its length.
        bytes: u64,
    },
    /// It is not what was expected.
    #[error("a frame that cannot be read: {why}")]
    Garbage {
        /// Why.
        why: String,
    },
}

/// A frame as it goes over the wire.
///
/// # Errors
/// When it is too long.
pub fn encode<T: Serialize>(frame: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame).map_err(|error| FrameError::Garbage { why: error.to_string() })?;
    let length = bytes.len() - 4;
    match u32::try_from(length) {
        Ok(short) if length <= MAX_FRAME_BYTES => bytes[..4].copy_from_slice(&short.to_be_bytes()),
        _ => return Err(FrameError::TooLong { bytes: length as u64 }),
    }
    Ok(bytes)
}

/// The next frame; `None` at the end. Takes not a byte more than the frame.
///
/// # Errors
/// When it cannot be read, or is none.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>, FrameError> {
    let mut length = [0_u8; 4];
    match from.read(&mut length) {
        Ok(0) => return Ok(None),
        Ok(count) => fill(from, &mut length[count..])?,
        Err(source) => return Err(FrameError::Broken { source }),
    }
    let mut body = vec![0; checked_length(length)?];
    fill(from, &mut body)?;
    decode(&body).map(Some)
}

fn fill(from: &mut impl Read, bytes: &mut [u8]) -> Result<(), FrameError> {
    from.read_exact(bytes).map_err(|source| match source.kind() {
        io::ErrorKind::UnexpectedEof => FrameError::Torn,
        _ => FrameError::Broken { source },
    })
}

fn checked_length(header: [u8; 4]) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(header) as usize;
    if length > MAX_FRAME_BYTES { Err(FrameError::TooLong { bytes: length as u64 }) } else { Ok(length) }
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(body).map_err(|error| FrameError::Garbage { why: error.to_string() })
}

/// Frames out of bytes that come in any pieces.
#[derive(Debug, Default)]
pub struct Frames {
    pending: Vec<u8>,
}

impl Frames {
    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next frame that is whole.
    ///
    /// # Errors
    /// When it is too long or cannot be read; nothing after it can be trusted.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some((header, rest)) = self.pending.split_first_chunk::<4>() else { return Ok(None) };
        let length = checked_length(*header)?;
        if rest.len() < length {
            return Ok(None);
        }
        let frame = decode(&rest[..length]);
        self.pending.drain(..4 + length);
        frame.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_never_take_more_than_four_thirds() {
        let rows = [
            ("a plain text\n".repeat(100).into_bytes(), true),
            (vec![0; 999], false),
            ("\n".repeat(999).into_bytes(), false),
            ("\"\\".repeat(99).into_bytes(), false),
            (vec![0xff; 999], false),
            (Vec::new(), true),
        ];
        for (bytes, is_text) in rows {
            let frame = encode(&Bytes(bytes.clone())).unwrap();
            assert_eq!(frame[4..].starts_with(b"{\"text\""), is_text, "{bytes:?}");
            assert!(frame.len() <= bytes.len() * 4 / 3 + 32, "{} for {}", frame.len(), bytes.len());
            assert_eq!(read::<Bytes>(&mut frame.as_slice()).unwrap(), Some(Bytes(bytes)));
        }
    }
}
