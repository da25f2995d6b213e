//! `replay`: a recorded run of the built-in agent again, with everything from outside taken from its record: no model is
//! asked and no tool is used. The loop is the real one; the first thing that it does otherwise is named. With `--tools` its
//! tools are used again, elsewhere (`tools`).

mod tools;

use std::path::{Path, PathBuf};

use orc_domain::ids::RunId;
use orc_harness::record::{self, Entry, Line};
use orc_harness::replay::{ReplayError, Replayed, replay};
use serde_json::{Value, json};

use self::tools::Redone;
use super::runs::run_of;
use crate::args::ReplayArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::output::{self, Form};

/// A record with the run.
struct Record {
    path: PathBuf,
    lines: Vec<Line>,
}

pub(crate) async fn run(context: &Context, args: ReplayArgs) -> CommandResult {
    let reader = context.reader().await?;
    let found = run_of(context, &reader, &args.id).await?;
    let (run, flow) = (found.run.id, found.run.flow);
    let folder = context.data.conversations().join(flow.file_name());
    let mut records = Vec::new();
    for path in below(&folder) {
        let lines = record::read(&path).map_err(|error| unavailable("the record cannot be used").because(error))?;
        if lines.iter().any(|line| matches!(&line.entry, Entry::Run { run: other, .. } if *other == run)) {
            records.push(Record { path, lines });
        }
    }
    if records.is_empty() {
        return Err(not_found(format!("nothing of {run} is recorded that could be replayed"))
            .hint("runs of the built-in agent are, as long as their logs are kept; `orchestrator logs` shows what others printed"));
    }
    let mut all = Vec::new();
    for record in &records {
        let replayed = replay(&record.lines, run).map_err(|error| differs(&record.path, run, &error))?;
        all.push((record, replayed));
    }
    // Those of agents that it started lie deeper.
    let own = records.iter().find(|record| record.path.parent() == Some(&folder));
    let redone = match own.filter(|_| args.tools) {
        Some(own) => Some(tools::run(context, reader, &found.run, own).await?),
        None => None,
    };
    print(run, &all, redone.as_ref(), args.output.output)?;
    Ok(if redone.is_some_and(|redone| redone.differs()) { Exit::FlowFailed } else { Exit::Success })
}

fn print(run: RunId, all: &[(&Record, Replayed)], redone: Option<&Redone>, form: Form) -> CommandResult<()> {
    if form == Form::Table {
        let mut text: String = all.iter().map(|(record, replayed)| words(&record.path, replayed)).collect();
        text.extend(redone.map(Redone::text));
        return output::text(&text);
    }
    let each = all.iter().map(|(record, replayed)| {
        let mut value = json!({
            "record": record.path.display().to_string(),
            "questions": replayed.questions,
            "ended": replayed.ended,
            "events": replayed.events,
        });
        // Where tools were used again there is one record.
        if let Some(redone) = redone {
            value["tools"] = redone.document();
        }
        value
    });
    let document = json!({ "schema": "orc/replay/1", "run": run, "records": each.collect::<Vec<Value>>() });
    output::document(form, &document, Some("records"))
}

fn differs(path: &Path, run: RunId, error: &ReplayError) -> Failure {
    Failure::new(Exit::FlowFailed, format!("{run} does not go as it was recorded: {error}"))
        .hint(format!("the record is `{}`; another version of the orchestrator may have written it", path.display()))
}

fn words(path: &Path, replayed: &Replayed) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = if replayed.ended { "to its end" } else { "as far as it is recorded: it was killed" };
    format!(
        "{name}: {} questions and {} events, the same as recorded, {end}\n",
        replayed.questions,
        replayed.events.len()
    )
}

/// Records below a directory, in order.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(below(&path));
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path);
        }
    }
    found.sort();
    found
}
