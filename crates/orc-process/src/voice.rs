//! The voice of a run that is no process: what it says goes where a program's output goes. Secrets are taken out, the log
//! gets lines with numbers, whoever listens hears the same bytes.

use std::path::PathBuf;

use orc_domain::time::Timestamp;
use orc_ports::executor::{self, Secrets, Tap};
use orc_ports::log::LogKind;

use crate::log::{RunLog, Stream};
use crate::redact::Redactor;

/// Says what a run says. Its log is one that nobody else writes to meanwhile.
#[derive(Debug)]
pub struct Voice {
    log: RunLog,
    stream: Stream,
    redactor: Redactor,
    tap: Option<Tap>,
}

impl Voice {
    /// One that has said nothing.
    #[must_use]
    pub fn new(log: PathBuf, log_bytes: u64, secrets: Secrets, tap: Option<Tap>) -> Self {
        let (log, stream) = (RunLog::new(log, log_bytes), Stream::new(LogKind::Stdout));
        Self { log, stream, redactor: Redactor::new(secrets), tap }
    }

    /// Says a line, given without its end.
    pub fn say(&mut self, at: Timestamp, line: &str) {
        for bytes in [line.as_bytes(), b"\n"] {
            let shown = self.redactor.push(bytes).into_owned();
            self.show(at, &shown);
        }
        self.log.flush();
    }

    /// Writes a remark of ours to the log.
    pub fn note(&mut self, at: Timestamp, text: impl Into<String>) {
        self.log.note(at, text);
    }

    /// Writes what is held back; why the log is incomplete, if it is.
    pub fn finish(mut self, at: Timestamp) -> Option<String> {
        let held = self.redactor.finish();
        self.show(at, &held);
        self.stream.finish(&mut self.log, at);
        self.log.into_error()
    }

    fn show(&mut self, at: Timestamp, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.stream.push(&mut self.log, at, bytes);
        if let Some(tap) = &self.tap {
            tap.hear(executor::Stream::Stdout, bytes, at);
        }
    }
}
