//! `logs`: what a run printed, or all runs of a flow one after another.
//!
//! The log is read as it grows, line by line; a run that still runs is shown as far as it is written. Text is shown
//! without what steers a terminal; `--output jsonl` gives the lines of the file as they are.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, ErrorKind, Write};
use std::path::Path;

use orc_domain::ids::FlowId;
use orc_domain::path::StepPath;
use orc_domain::run::RunState;
use orc_ports::log::{LogKind, LogLine};
use orc_ports::reader::{AnyId, Reader as _, RunRecord};
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use super::explain::parse_step;
use crate::args::LogsArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::hold::of_store;
use crate::output::{self, Form, say};
use crate::view::columns::clean;

/// Runs that are read at once.
const PAGE: u32 = 500;

pub(crate) async fn run(context: &Context, args: &LogsArgs) -> CommandResult {
    let reader = context.reader().await?;
    let (records, one) = match context.any_of(&reader, &args.id).await? {
        AnyId::Run(run) => {
            if args.step.is_some() {
                return Err(Failure::new(
                    Exit::Usage,
                    "`--step` chooses among the runs of a flow, and this is one run",
                ));
            }
            let record = reader.run(run).await.map_err(of_store)?;
            (vec![record.ok_or_else(|| not_found(format!("there is no run {run}")))?], true)
        }
        AnyId::Flow(flow) => (runs_of_flow(&reader, flow, args.step.as_deref()).await?, false),
    };
    if records.is_empty() {
        say("nothing has run yet");
        return Ok(Exit::Success);
    }
    let printed = match args.output.output {
        Form::Table => print_text(context, &records, one),
        Form::Jsonl => print_lines(context, &records, one),
        form => return print_document(context, &records, form),
    };
    match printed {
        // The reader of our output has seen enough.
        Err(Stopped::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Success),
        Err(Stopped::Output(error)) => Err(unavailable("cannot write to standard output").because(error)),
        Err(Stopped::Log(failure)) => Err(failure),
        Ok(()) => Ok(Exit::Success),
    }
}

/// Why printing ended early.
enum Stopped {
    Output(std::io::Error),
    Log(Failure),
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// All runs of a flow in the order in which they were decided.
async fn runs_of_flow(reader: &SqliteReader, flow: FlowId, step: Option<&str>) -> CommandResult<Vec<RunRecord>> {
    let known = reader.flow(flow).await.map_err(of_store)?;
    let known = known.ok_or_else(|| not_found(format!("there is no flow {flow}")))?;
    let step = step.map(|step| parse_step(&known, step)).transpose()?;
    // A fan-out has no run of its own; its name means its elements.
    let wanted = |path: &StepPath| step.as_ref().is_none_or(|step| path == step || is_element_of(path, step));
    let (mut records, mut before) = (Vec::new(), None);
    loop {
        let page = reader.runs(Some(flow), before, PAGE).await.map_err(of_store)?;
        let Some(last) = page.last() else { break };
        before = Some(last.run.id);
        records.extend(page.into_iter().filter(|record| wanted(&record.run.path)));
    }
    records.reverse();
    Ok(records)
}

fn is_element_of(path: &StepPath, group: &StepPath) -> bool {
    path.as_str().strip_prefix(group.as_str()).is_some_and(|rest| rest.starts_with('['))
}

/// What is said about a run without a log: a log is made by the first thing that is printed.
fn no_log(record: &RunRecord) -> &'static str {
    match &record.run.state {
        RunState::Pending { .. } => "its process is being started",
        RunState::Running { .. } => "it has printed nothing so far",
        RunState::Finished { .. } => "it printed nothing, or its log was removed",
    }
}

/// A log that is there and cannot be read.
fn unreadable(record: &RunRecord, path: &Path, error: &std::io::Error) -> Stopped {
    let what = format!("cannot read the log of {}, `{}`", record.run.id, path.display());
    Stopped::Log(unavailable(what).because(error))
}

/// Each line of a log, with its text as written; false when there is no log. A last line that is half written is left for
/// later.
fn each_line(
    context: &Context,
    record: &RunRecord,
    mut then: impl FnMut(&str, LogLine) -> Result<(), Stopped>,
) -> Result<bool, Stopped> {
    let path = context.data.log(record.run.flow, record.run.id);
    let mut log = match File::open(&path) {
        Ok(log) => BufReader::new(log),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(unreadable(record, &path, &error)),
    };
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        number += 1;
        let read = log.read_until(b'\n', &mut line);
        read.map_err(|error| unreadable(record, &path, &error))?;
        let Some(whole) = line.strip_suffix(b"\n") else { return Ok(true) };
        let parsed = std::str::from_utf8(whole).ok().and_then(|text| Some((text, serde_json::from_str(text).ok()?)));
        match parsed {
            Some((text, parsed)) => then(text, parsed)?,
            None => say(&format!("line {number} of `{}` is damaged and left out", path.display())),
        }
    }
}

fn print_text(context: &Context, records: &[RunRecord], one: bool) -> Result<(), Stopped> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for record in records {
        if !one {
            let run = &record.run;
            writeln!(out, "== {} attempt {} ({})", run.path, run.attempt, run.id)?;
        }
        // Parts of one stream are put together; another stream that comes between begins a line of its own.
        let mut open: Option<LogKind> = None;
        let shown = each_line(context, record, |_, line| {
            if open.is_some_and(|kind| kind != line.kind) {
                writeln!(out)?;
            }
            let text = clean(&line_text(&line));
            match line.kind {
                LogKind::Note => write!(out, "-- {text}")?,
                LogKind::Stdout | LogKind::Stderr => write!(out, "{text}")?,
            }
            open = line.part.then_some(line.kind);
            if !line.part {
                writeln!(out)?;
            }
            Ok(())
        });
        if open.is_some() {
            writeln!(out)?;
        }
        if matches!(shown, Ok(false)) {
            writeln!(out, "-- {}", no_log(record))?;
        }
        out.flush()?;
        go_on(shown, one)?;
    }
    Ok(())
}

/// A log that cannot be read ends the command when it is the only one.
fn go_on(shown: Result<bool, Stopped>, one: bool) -> Result<(), Stopped> {
    match shown {
        Err(Stopped::Log(failure)) if !one => say(&failure.to_string()),
        Err(stopped) => return Err(stopped),
        Ok(_) => {}
    }
    Ok(())
}

fn print_lines(context: &Context, records: &[RunRecord], one: bool) -> Result<(), Stopped> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for record in records {
        let shown = each_line(context, record, |text, _| {
            match text.strip_prefix('{') {
                Some(rest) if !one => writeln!(out, "{{\"run\":\"{}\",{rest}", record.run.id)?,
                _ => writeln!(out, "{text}")?,
            }
            Ok(())
        });
        out.flush()?;
        go_on(shown, one)?;
    }
    Ok(())
}

fn print_document(context: &Context, records: &[RunRecord], form: Form) -> CommandResult {
    let mut runs: Vec<Value> = Vec::with_capacity(records.len());
    for record in records {
        let mut lines = Vec::new();
        let shown = each_line(context, record, |_, line| {
            lines.push(line);
            Ok(())
        });
        let missing = match shown {
            Ok(true) => None,
            Ok(false) => Some(no_log(record).to_owned()),
            Err(Stopped::Log(failure)) => Some(failure.to_string()),
            Err(Stopped::Output(error)) => Some(error.to_string()),
        };
        let run = &record.run;
        runs.push(json!({
            "run": run.id, "flow": run.flow, "step": run.path, "attempt": run.attempt, "lines": lines, "missing": missing,
        }));
    }
    output::document(form, &json!({ "schema": "orc/logs/1", "runs": runs }), None)?;
    Ok(Exit::Success)
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
