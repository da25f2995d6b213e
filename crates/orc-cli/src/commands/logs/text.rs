//! Lines of a log as text, and the printer that puts parts of a line together again.

use std::io::Write;

use orc_ports::log::{LogKind, LogLine};

use super::speech::THINKS;
use crate::view::columns::clean;

/// Columns of labels; a longer one pushes the rest of its line to the right.
const LABELS: usize = 28;

/// Prints lines of one log, or of several with a label before each line.
#[derive(Debug, Default)]
pub(super) struct Printer {
    /// The log and the stream whose last piece has no newline yet.
    open: Option<(usize, LogKind)>,
    width: usize,
    /// What is only thought is shown dim.
    dims: bool,
}

impl Printer {
    /// For a terminal, if it is one.
    pub(super) fn for_terminal(dims: bool) -> Self {
        Self { dims, ..Self::default() }
    }

    /// Prints a line of the log with that number. A piece that goes on where the last one ended stands beside it; another
    /// log or stream that comes between begins a line of its own.
    pub(super) fn line(
        &mut self,
        out: &mut impl Write,
        log: usize,
        label: Option<&str>,
        line: &LogLine,
    ) -> std::io::Result<()> {
        if self.open != Some((log, line.kind)) {
            self.end(out)?;
            let mark = if line.kind == LogKind::Note { "--" } else { "|" };
            match label {
                Some(label) => self.label(out, label, mark)?,
                None if line.kind == LogKind::Note => write!(out, "-- ")?,
                None => {}
            }
        }
        let text = line_text(line);
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                writeln!(out)?;
                match label {
                    Some(_) => write!(out, "{:width$} |   ", "", width = self.width)?,
                    None => write!(out, "  ")?,
                }
            }
            if self.dims && text.starts_with(THINKS) {
                write!(out, "\x1b[2m{}\x1b[0m", clean(part))?;
            } else {
                write!(out, "{}", clean(part))?;
            }
        }
        self.open = Some((log, line.kind));
        if line.part { Ok(()) } else { self.end(out) }
    }

    /// Prints something that happened.
    pub(super) fn event(&mut self, out: &mut impl Write, label: &str, words: &str) -> std::io::Result<()> {
        self.end(out)?;
        self.label(out, label, "**")?;
        writeln!(out, "{words}")
    }

    /// Ends a line that is open.
    pub(super) fn end(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        if self.open.take().is_some() { writeln!(out) } else { Ok(()) }
    }

    /// Makes room for a label that is to come.
    pub(super) fn widen(&mut self, label: &str) {
        self.width = self.width.max(label.chars().count()).min(LABELS);
    }

    fn label(&mut self, out: &mut impl Write, label: &str, mark: &str) -> std::io::Result<()> {
        self.widen(label);
        let width = self.width;
        write!(out, "{label:width$} {mark} ")
    }
}

/// The text of a line; bytes that are no UTF-8 as `\xff`.
fn line_text(line: &LogLine) -> String {
    match (&line.text, &line.bytes) {
        (Some(text), _) => text.clone(),
        (None, Some(bytes)) => match decode(bytes) {
            Some(bytes) => bytes.utf8_chunks().map(chunk_text).collect(),
            None => format!("(unreadable: {bytes})"),
        },
        (None, None) => String::new(),
    }
}

fn chunk_text(chunk: std::str::Utf8Chunk<'_>) -> String {
    let invalid: String = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("{}{invalid}", chunk.valid())
}

/// Base64 with the standard alphabet and padding (RFC 4648, section 4).
fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits = text.trim_end_matches('=').as_bytes();
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let mut value = 0;
        for byte in group {
            value = (value << 6) | digit(*byte)?;
        }
        value <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&value.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_written_by_others() {
        // RFC 4648, section 10, and the two last digits.
        let cases: [(&str, &[u8]); 8] = [
            ("", b""),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg==", b"foob"),
            ("Zm9vYmE=", b"fooba"),
            ("Zm9vYmFy", b"foobar"),
            ("//79+w==", &[0xff, 0xfe, 0xfd, 0xfb]),
        ];
        for (text, bytes) in cases {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zg=", "Zg", "Z===", "Zm9!"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_numbers() {
        let line = LogLine {
            v: 1,
            seq: 1,
            at: orc_domain::time::Timestamp::from_millis(0),
            kind: LogKind::Stdout,
            text: None,
            bytes: Some("YWL/YwA=".to_owned()),
            part: false,
        };
        assert_eq!(clean(&line_text(&line)), "ab\\xffc\\u{0}");
    }
}
