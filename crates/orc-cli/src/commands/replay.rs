//! `replay`: a recorded run of the built-in agent again, with everything from outside taken from its record: no model is
//! asked and no tool is used. The loop is the real one; the first thing that it does otherwise is named.

use std::path::{Path, PathBuf};

use orc_domain::ids::RunId;
use orc_harness::record::{self, Entry, Line};
use orc_harness::replay::{Replayed, replay};
use serde_json::json;

use super::runs::run_of;
use crate::args::ReplayArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::output::{Form, document, text_line};

pub(crate) async fn run(context: &Context, args: ReplayArgs) -> CommandResult {
    let reader = context.reader().await?;
    let found = run_of(context, &reader, &args.id).await?;
    let (run, flow) = (found.run.id, found.run.flow);
    let mut records = Vec::new();
    for path in below(&context.data.conversations().join(flow.file_name())) {
        let lines = record::read(&path).map_err(|error| unavailable("the record cannot be used").because(error))?;
        if lines.iter().any(|line| matches!(&line.entry, Entry::Run { run: other } if *other == run)) {
            records.push((path, lines));
        }
    }
    if records.is_empty() {
        return Err(not_found(format!("nothing of {run} is recorded that could be replayed"))
            .hint("runs of the built-in agent are, as long as their logs are kept; `orchestrator logs` shows what others printed"));
    }
    let mut all = Vec::new();
    for (path, lines) in &records {
        all.push((path, one(path, lines, run)?));
    }
    match args.output.output {
        Form::Table => {
            for (path, replayed) in &all {
                text_line(&words(path, replayed))?;
            }
        }
        form => {
            let each = all.iter().map(|(path, replayed)| {
                json!({
                    "record": path.display().to_string(),
                    "questions": replayed.questions,
                    "ended": replayed.ended,
                    "events": replayed.events,
                })
            });
            let each: Vec<_> = each.collect();
            document(form, &json!({ "schema": "orc/replay/1", "run": run, "records": each }), Some("records"))?;
        }
    }
    Ok(Exit::Success)
}

fn one(path: &Path, lines: &[Line], run: RunId) -> CommandResult<Replayed> {
    replay(lines, run).map_err(|error| {
        Failure::new(Exit::FlowFailed, format!("{run} does not go as it was recorded: {error}")).hint(format!(
            "the record is `{}`; another version of the orchestrator may have written it",
            path.display()
        ))
    })
}

fn words(path: &Path, replayed: &Replayed) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = if replayed.ended { "to its end" } else { "as far as it is recorded: it was killed" };
    format!(
        "{name}: {} questions and {} events, the same as recorded, {end}",
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
