//! `export`: everything that is known of a run, as one JSON document that needs nothing beside it.
//!
//! `orc/export/1`: the run, its flow, the pipeline and the agent's profile by their hashes, its calls of models with what
//! they used, the cassette when one was recorded, and its log. It is written piece by piece, because logs and cassettes are
//! large. Output was redacted when it was written down; values that are known today are taken out again.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, ErrorKind, Read as _, Write};
use std::path::{Path, PathBuf};

use orc_domain::ids::RunId;
use orc_domain::ledger::CostsBy;
use orc_gateway::cassette::Place;
use orc_ports::executor::Secrets;
use orc_ports::ledger::{CallRecord, CostFilter, CostReader as _};
use orc_ports::reader::{Reader as _, RunRecord};
use orc_spec::settings::{ProviderKind, Settings};
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use super::runs::run_of;
use crate::args::{ExportArgs, LimitArgs};
use crate::boxes::read_secret;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, unavailable};
use crate::hold::of_store;
use crate::host;
use crate::output::say;
use crate::view::run::document;

/// Calls that are read at once.
const PAGE: u32 = 500;
/// What stands in the place of a value that is known.
const MASK: &str = "***";

pub(crate) async fn run(context: &Context, args: &ExportArgs) -> CommandResult {
    let reader = context.reader().await?;
    let record = run_of(context, &reader, &args.id).await?;
    // Mistakes in settings end whoever starts something; here they only keep values from being known.
    let settings = context.settings(&LimitArgs::default()).ok();
    let secrets = settings.as_ref().map(known_values).unwrap_or_default();
    let head = head(context, &reader, &record).await?;
    let calls = calls(&reader, record.run.id).await?;
    let run = record.run.id;
    let cassettes = settings.map(|settings| cassettes(context, &settings, run)).unwrap_or_default();
    let log = context.data.log(record.run.flow, run);
    let mut sink = Sink { out: BufWriter::new(std::io::stdout().lock()), secrets };
    let written = sink.write(&head, calls, &cassettes, &log);
    match written {
        // The reader of our output has seen enough.
        Err(Stopped::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Success),
        Err(Stopped::Output(error)) => Err(unavailable("cannot write to standard output").because(error)),
        Err(Stopped::Input(path, error)) => Err(unavailable(format!("cannot read `{path}`")).because(error)),
        Ok(()) => Ok(Exit::Success),
    }
}

/// Members that are small.
async fn head(
    context: &Context,
    reader: &SqliteReader,
    record: &RunRecord,
) -> CommandResult<Vec<(&'static str, Value)>> {
    let run = &record.run;
    let mut head = vec![("schema", json!("orc/export/1")), ("run", document(record, context))];
    let Some((spec, _)) = reader.flow_head(run.flow).await.map_err(of_store)? else { return Ok(head) };
    let pinned = reader.pipeline(spec.pipeline.clone()).await.map_err(of_store)?;
    head.push((
        "flow",
        json!({
            "id": spec.id,
            "name": spec.name,
            "pipeline": spec.pipeline,
            "inputs": spec.inputs,
            "directory": spec.directory,
            "repositories": spec.repositories,
            "requested_by": spec.requested_by,
            "created_at": spec.created_at.to_string(),
            "retry_of": spec.retry_of,
        }),
    ));
    let agent = run.agent.as_ref();
    let profile = agent.map(|agent| {
        let definition = pinned.as_ref().and_then(|(pipeline, _)| pipeline.agents.get(&agent.agent));
        json!({ "hash": agent.profile, "name": agent.agent, "definition": definition })
    });
    let pipeline = pinned.map(|(pipeline, source)| {
        json!({ "hash": spec.pipeline, "name": pipeline.name, "source": source, "definition": pipeline })
    });
    head.push(("pipeline", json!(pipeline)));
    head.push(("profile", json!(profile)));
    Ok(head)
}

/// Calls of a run, the oldest first.
async fn calls(reader: &SqliteReader, run: RunId) -> CommandResult<Vec<Value>> {
    let filter = CostFilter { only: vec![(CostsBy::Run, run.to_string())], ..CostFilter::default() };
    let (mut calls, mut before) = (Vec::new(), None);
    loop {
        let page = reader.calls(filter.clone(), before, PAGE).await.map_err(of_store)?;
        let Some(last) = page.last() else { break };
        before = Some(last.reservation.call);
        calls.extend(page.iter().map(call));
    }
    calls.reverse();
    Ok(calls)
}

fn call(record: &CallRecord) -> Value {
    let reserved = &record.reservation;
    let mut call = json!({
        "id": reserved.call,
        "provider": reserved.provider,
        "protocol": reserved.protocol,
        "model": reserved.model,
        "prices": reserved.prices,
        "reserved": { "micros": reserved.micros, "tokens": reserved.tokens },
        "reserved_at": reserved.at.to_string(),
        "state": "in_flight",
    });
    if let Some(end) = &record.end {
        call["state"] = json!(end.kind);
        call["ended_at"] = json!(end.at.to_string());
        if let Some(settled) = &end.settlement {
            call["tokens"] = json!(settled.tokens);
            call["micros"] = json!(settled.micros);
            call["status"] = json!(settled.status);
            call["message"] = json!(settled.message);
        }
    }
    call
}

/// Values of secrets and keys that can be found now; one that cannot be found cannot be taken out, and is in no file of ours.
fn known_values(settings: &Settings) -> Secrets {
    let Settings { secrets, models, .. } = settings;
    let keys = models.providers.value.iter().filter_map(|provider| match &provider.kind {
        ProviderKind::Http { key, .. } => key.as_ref(),
        ProviderKind::Script { .. } | ProviderKind::Cassette { .. } => None,
    });
    let home = host::home();
    Secrets::new(secrets.value.values().chain(keys).filter_map(|source| read_secret(&home, source).ok()))
}

/// Where calls of a run may be recorded.
fn cassettes(context: &Context, settings: &Settings, run: RunId) -> BTreeSet<PathBuf> {
    let folders = settings.models.providers.value.iter().filter_map(|provider| provider.record.as_ref());
    folders.map(|folder| Place::Folder(context.root.join(folder)).file(Some(run))).collect()
}

/// Why writing ended early.
enum Stopped {
    Output(std::io::Error),
    Input(String, std::io::Error),
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// The document while it is written.
struct Sink<W: Write> {
    out: W,
    secrets: Secrets,
}

impl<W: Write> Sink<W> {
    fn write(
        &mut self,
        head: &[(&'static str, Value)],
        calls: Vec<Value>,
        cassettes: &BTreeSet<PathBuf>,
        log: &Path,
    ) -> Result<(), Stopped> {
        let mut mark = '{';
        for (name, value) in head {
            write!(self.out, "{mark}\n\"{name}\": {}", self.masked(value.clone()))?;
            mark = ',';
        }
        self.list("calls", calls)?;
        self.lines("cassette", cassettes)?;
        self.lines("log", &BTreeSet::from([log.to_owned()]))?;
        self.out.write_all(b"\n}\n")?;
        Ok(self.out.flush()?)
    }

    fn list(&mut self, name: &str, values: Vec<Value>) -> Result<(), Stopped> {
        write!(self.out, ",\n\"{name}\": [")?;
        let mut mark = "";
        for value in values {
            write!(self.out, "{mark}\n{}", self.masked(value))?;
            mark = ",";
        }
        Ok(self.out.write_all(b"]")?)
    }

    /// The lines of those files that there are; `null` when there is none.
    fn lines(&mut self, name: &str, paths: &BTreeSet<PathBuf>) -> Result<(), Stopped> {
        let mut mark = "[";
        write!(self.out, ",\n\"{name}\": ")?;
        for path in paths {
            let stopped = |error| Stopped::Input(path.display().to_string(), error);
            match File::open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                file => mark = self.file_lines(file.map_err(stopped)?, path, mark)?,
            }
        }
        Ok(self.out.write_all(if mark == "[" { b"null" } else { b"]" })?)
    }

    /// The lines of a file; what is to stand before the next one. Half a line at its end is still being written.
    fn file_lines(&mut self, file: File, path: &Path, mut mark: &'static str) -> Result<&'static str, Stopped> {
        let stopped = |error| Stopped::Input(path.display().to_string(), error);
        // What is added meanwhile belongs to the next export: otherwise one of a run that prints would never end.
        let length = file.metadata().map_err(stopped)?.len();
        let mut lines = BufReader::new(file).take(length);
        let (mut line, mut number) = (Vec::new(), 0_u64);
        loop {
            line.clear();
            lines.read_until(b'\n', &mut line).map_err(stopped)?;
            if line.pop() != Some(b'\n') {
                return Ok(mark);
            }
            number += 1;
            match serde_json::from_slice(&line) {
                Ok(value) => {
                    write!(self.out, "{mark}\n{}", self.masked(value))?;
                    mark = ",";
                }
                Err(error) => say(&format!("line {number} of `{}` is left out: {error}", path.display())),
            }
        }
    }

    /// A value without what is known.
    fn masked(&self, value: Value) -> Value {
        if self.secrets.values().is_empty() {
            return value;
        }
        let text = |text: &str| {
            self.secrets.values().iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK))
        };
        match value {
            Value::String(plain) => Value::String(text(&plain)),
            Value::Array(items) => items.into_iter().map(|item| self.masked(item)).collect(),
            Value::Object(members) => {
                members.into_iter().map(|(name, value)| (text(&name), self.masked(value))).collect()
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_whole_json_without_known_values() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("run.jsonl");
        std::fs::write(&log, "{\"text\":\"key hunter2!\"}\nnot json\n{\"hunter2\":[1]}\n{\"half\":").unwrap();
        let mut sink = Sink { out: Vec::new(), secrets: Secrets::new(["hunter2".to_owned()]) };
        let head = [("schema", json!("orc/export/1")), ("run", json!({ "a": "hunter2" }))];
        let written = sink.write(&head, vec![json!(1), json!("x")], &BTreeSet::new(), &log);
        assert!(written.is_ok());
        let document: Value = serde_json::from_slice(&sink.out).unwrap();
        assert_eq!(
            document,
            json!({
                "schema": "orc/export/1", "run": { "a": "***" }, "calls": [1, "x"], "cassette": null,
                "log": [{ "text": "key ***!" }, { "***": [1] }],
            })
        );
    }
}
