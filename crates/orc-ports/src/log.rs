//! The log of a run: JSON lines `{"v":1,"seq":7,"at":1709208000123,"kind":"stdout","text":"..."}` in one file per run.
//!
//! Lines are only appended. A line of output longer than [`MAX_LINE_BYTES`] is cut into several with `"part":true` on all
//! but the last; output without a final newline ends with `"part":true` too. Bytes that are no UTF-8 are kept as base64
//! in `bytes` instead of `text`.

use orc_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The version in `v`.
pub const LOG_VERSION: u32 = 1;
/// Longest piece of output in one line of the log, in bytes before encoding.
pub const MAX_LINE_BYTES: usize = 16 * 1024;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogLine {
    /// [`LOG_VERSION`].
    pub v: u32,
    /// Counts lines of the run from 1.
    pub seq: u64,
    /// When it was read.
    pub at: Timestamp,
    /// Where it comes from.
    pub kind: LogKind,
    /// Output that is UTF-8, without its newline.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<String>,
    /// Output that is not, as base64 (RFC 4648).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<String>,
    /// The line goes on in the next one of the same kind, or ended without a newline.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub part: bool,
}

/// Where a line comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// Standard output.
    Stdout,
    /// Error output.
    Stderr,
    /// Said by the orchestrator about the run: started, stopped, output dropped.
    Note,
}
