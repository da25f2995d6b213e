//! `costs`: what calls of models used and cost, by whatever one asks for.

use orc_domain::ledger::{CostsBy, Sum};
use orc_ports::ledger::{CostFilter, CostLine, CostReader as _};
use serde_json::{Value, json};

use crate::args::{CostsArgs, FigureForm};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};
use crate::hold::of_store;
use crate::moment;
use crate::output::{self, Form, say};
use crate::view::columns::{Columns, clean_line};
use crate::view::cost::{FIELDS, TITLES, cells, csv_line, document, fields};

/// Characters of a name in a table.
const NAME: usize = 60;

pub(crate) async fn run(context: &Context, args: &CostsArgs) -> CommandResult {
    let by = args.by.clone();
    let filter = filter(context, args)?;
    let reader = context.reader().await?;
    let asked = reader.costs(by.clone(), filter.clone(), args.limit.saturating_add(1)).await;
    let (mut lines, total) = asked.map_err(of_store)?;
    let complete = lines.len() <= args.limit as usize;
    lines.truncate(args.limit as usize);
    if by.first() == Some(&CostsBy::Day) {
        // Days are read in their order; the sort keeps the dearest first within each.
        lines.sort_by(|one, other| one.by.first().cmp(&other.by.first()));
    }
    match args.output.output {
        FigureForm::Table => table(&by, &lines, &total, &filter)?,
        FigureForm::Csv => csv(&by, &lines)?,
        FigureForm::Json => output::document(Form::Json, &whole(&by, &filter, &lines, &total, complete), None)?,
        FigureForm::Yaml => output::document(Form::Yaml, &whole(&by, &filter, &lines, &total, complete), None)?,
        FigureForm::Jsonl => {
            output::document(Form::Jsonl, &whole(&by, &filter, &lines, &total, complete), Some("lines"))?;
        }
    }
    if !complete {
        say(&format!("only the {} dearest lines are shown; `--limit` shows more", args.limit));
    }
    Ok(Exit::Success)
}

fn filter(context: &Context, args: &CostsArgs) -> CommandResult<CostFilter> {
    let now = context.now();
    let time = |option, text: &Option<String>| text.as_ref().map(|text| moment::parse(option, text, now)).transpose();
    let (since, before) = (time("--since", &args.since)?, time("--until", &args.until)?);
    if let (Some(since), Some(before)) = (since, before)
        && since >= before
    {
        let what = format!("nothing lies between `--since` ({since}) and `--until` ({before})");
        return Err(Failure::new(Exit::Usage, what).hint("`--since` is the earlier one"));
    }
    let narrowed = [
        (CostsBy::Pipeline, &args.pipeline),
        (CostsBy::Agent, &args.agent),
        (CostsBy::Model, &args.model),
        (CostsBy::Ticket, &args.ticket),
    ];
    let only = narrowed.into_iter().filter_map(|(by, value)| Some((by, value.clone()?))).collect();
    Ok(CostFilter { since, before, only })
}

fn table(by: &[CostsBy], lines: &[CostLine], total: &Sum, filter: &CostFilter) -> CommandResult<()> {
    if lines.is_empty() {
        say(if *filter == CostFilter::default() {
            "the ledger is empty: no call of a model went through the gateway yet; agents whose profile has `model:` go there"
        } else {
            "no call of a model fits that; without `--since`, `--until` and names all are counted"
        });
        return Ok(());
    }
    let titles = by.iter().map(|by| by.word().to_uppercase());
    let mut table = Columns::new();
    table.row(titles.chain(TITLES.map(str::to_owned)));
    for line in lines {
        let names =
            line.by.iter().map(|name| name.as_ref().map_or_else(|| "-".to_owned(), |name| clean_line(name, NAME)));
        table.row(names.chain(cells(&line.sum)));
    }
    if lines.len() > 1 {
        let blank = std::iter::repeat_n(String::new(), by.len() - 1);
        table.row(std::iter::once("total".to_owned()).chain(blank).chain(cells(total)));
    }
    output::text(&table.text(""))
}

fn csv(by: &[CostsBy], lines: &[CostLine]) -> CommandResult<()> {
    let mut text = csv_line(by.iter().map(|by| by.word()).chain(FIELDS));
    for line in lines {
        let names = line.by.iter().map(|name| name.clone().unwrap_or_default());
        text.push_str("\r\n");
        text.push_str(&csv_line(names.chain(fields(&line.sum))));
    }
    text.push_str("\r\n");
    output::text(&text)
}

/// `orc/costs/1`.
fn whole(by: &[CostsBy], filter: &CostFilter, lines: &[CostLine], total: &Sum, complete: bool) -> Value {
    let line = |line: &CostLine| {
        let mut shown = document(&line.sum);
        for (by, name) in by.iter().zip(&line.by) {
            shown[by.word()] = json!(name);
        }
        shown
    };
    let only: Value = filter.only.iter().map(|(by, value)| (by.word().to_owned(), json!(value))).collect();
    json!({
        "schema": "orc/costs/1",
        "by": by.iter().map(|by| by.word()).collect::<Vec<_>>(),
        "since": filter.since.map(|at| at.to_string()),
        "until": filter.before.map(|at| at.to_string()),
        "only": only,
        "complete": complete,
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
        "total": document(total),
    })
}
