//! `permissions test`: rows of a file, each judged, and whether what must come of it came of it.
//!
//! A line that is no row is a result as well, one that is not as it must be: one mistake does not hide the other rows.

use std::io::Read as _;
use std::path::Path;

use orc_policy::case::{NoRow, Row, judge, read};
use serde_json::{Value, json};

use crate::args::TestArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, invalid, not_found};
use crate::output::{self, Form, say};
use crate::view::columns::{Columns, clean_line};

/// One row with what came of it.
struct Tested {
    id: String,
    expected: Option<String>,
    got: Option<&'static str>,
    reason: String,
}

impl Tested {
    fn ok(&self) -> bool {
        self.got.is_some() && self.got == self.expected.as_deref()
    }

    fn document(&self) -> Value {
        json!({ "id": self.id, "expected": self.expected, "got": self.got, "ok": self.ok(), "reason": self.reason })
    }
}

pub(crate) fn run(context: &Context, args: &TestArgs) -> CommandResult {
    let (name, bytes) = bytes(context, &args.file)?;
    let tested: Vec<Tested> = lines(&name, &bytes).map(|(place, line)| tested(place, line)).collect();
    if tested.is_empty() {
        return Err(invalid(format!("`{name}` has no row")).hint("`orchestrator permissions test --help` shows one"));
    }
    let wrong = tested.iter().filter(|tested| !tested.ok()).count();
    if args.output.output == Form::Table {
        table(&tested)?;
        let rows = if tested.len() == 1 { "row" } else { "rows" };
        say(&format!("{} {rows}, {} ok, {wrong} not", tested.len(), tested.len() - wrong));
    } else {
        let results: Vec<Value> = tested.iter().map(Tested::document).collect();
        output::document(args.output.output, &json!({ "results": results }), Some("results"))?;
    }
    Ok(if wrong == 0 { Exit::Success } else { Exit::FlowFailed })
}

/// What is in a file, with its name.
pub(super) fn bytes(context: &Context, file: &Path) -> CommandResult<(String, Vec<u8>)> {
    if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| invalid("cannot read standard input").because(error))?;
        return Ok(("standard input".to_owned(), bytes));
    }
    let name = file.display().to_string();
    let bytes = std::fs::read(context.cwd.join(file));
    let bytes = bytes.map_err(|error| not_found(format!("cannot read `{name}`")).because(error))?;
    Ok((name, bytes))
}

/// Lines that are not empty, each with its place.
pub(super) fn lines<'a>(name: &'a str, bytes: &'a [u8]) -> impl Iterator<Item = (String, &'a [u8])> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    lines.map(move |(at, line)| (format!("{name}:{}", at + 1), line))
}

/// A row of a line.
pub(super) fn row(line: &[u8]) -> Result<Row, NoRow> {
    let text = std::str::from_utf8(line);
    let text =
        text.map_err(|error| NoRow { id: None, expected: None, why: format!("it is no UTF-8 text: {error}") })?;
    read(text)
}

fn tested(place: String, line: &[u8]) -> Tested {
    match row(line) {
        Ok(row) => {
            let outcome = judge(&row);
            Tested { id: row.id, expected: row.expected, got: Some(outcome.got), reason: outcome.reason }
        }
        Err(no_row) => {
            let reason = format!("{place}: {}", no_row.why);
            Tested { id: no_row.id.unwrap_or(place), expected: no_row.expected, got: None, reason }
        }
    }
}

/// What is not as it must be stands at the end, where it is read.
fn table(tested: &[Tested]) -> CommandResult<()> {
    let mut table = Columns::titled(&["", "ID", "EXPECTED", "GOT", "REASON"]);
    let (wrong, right): (Vec<_>, Vec<_>) = tested.iter().partition(|tested| !tested.ok());
    for tested in right.into_iter().chain(wrong) {
        table.row([
            if tested.ok() { "ok" } else { "NOT" },
            &tested.id,
            tested.expected.as_deref().unwrap_or("-"),
            tested.got.unwrap_or("-"),
            &clean_line(&tested.reason, 120),
        ]);
    }
    output::text(&table.text(""))
}
