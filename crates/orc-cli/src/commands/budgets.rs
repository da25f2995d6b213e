//! `budgets`: what flows that are not over may still use, and what they used.
//!
//! What counts is what stops them: the ledger, which knows every call below a flow, those of its children included; or
//! what the flow heard from agents whose calls do not go through the gateway, where that is more.

use std::collections::BTreeMap;

use orc_domain::budget::{Budget, Wall};
use orc_domain::flow::{FlowHead, FlowSpec};
use orc_domain::ids::{ContentHash, FlowId};
use orc_domain::ledger::Sum;
use orc_domain::meter::{Limits, Owner};
use orc_domain::money::UsdMicros;
use orc_domain::request::RequestKind;
use orc_ports::ledger::CostReader as _;
use orc_ports::reader::{Reader as _, RequestFilter};
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use crate::args::{FigureArgs, FigureForm};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::hold::of_store;
use crate::incident::{Incident, of_request};
use crate::output::{self, Form, say};
use crate::view::agent::short_number;
use crate::view::columns::Columns;
use crate::view::cost::{csv_line, dollars};

/// Unfinished flows that are read at once.
const PAGE: u32 = 500;
/// Open requests that are looked through for walls.
const REQUESTS: u32 = 1_000;

/// A limit and how much of it is used, in units of its wall: millionths of a dollar, tokens, calls.
struct Line {
    wall: Wall,
    limit: u64,
    spent: u64,
    /// Set aside for calls in flight; of tokens that is not kept.
    reserved: Option<u64>,
}

impl Line {
    const fn left(&self) -> u64 {
        let reserved = match self.reserved {
            Some(reserved) => reserved,
            None => 0,
        };
        self.limit.saturating_sub(self.spent).saturating_sub(reserved)
    }

    fn amount(&self, amount: u64) -> String {
        match self.wall {
            Wall::Usd => money(amount).to_string(),
            Wall::Time | Wall::ModelCalls | Wall::ToolCalls | Wall::Tokens => short_number(amount),
        }
    }
}

/// A flow with a budget.
struct Budgeted {
    flow: FlowId,
    pipeline: String,
    /// Each limit counts so many times: 1 until somebody raised it.
    raised: u32,
    lines: Vec<Line>,
    sum: Sum,
    /// Walls that hold it until somebody raises them.
    incidents: Vec<Incident>,
}

pub(crate) async fn run(context: &Context, args: &FigureArgs) -> CommandResult {
    let reader = context.reader().await?;
    let budgets = budgets(context, &reader).await?;
    match args.output {
        FigureForm::Table => table(&budgets)?,
        FigureForm::Csv => csv(&budgets)?,
        FigureForm::Json => output::document(Form::Json, &document(&budgets), None)?,
        FigureForm::Yaml => output::document(Form::Yaml, &document(&budgets), None)?,
        FigureForm::Jsonl => output::document(Form::Jsonl, &document(&budgets), Some("budgets"))?,
    }
    Ok(Exit::Success)
}

/// Flows that are not over and have a limit of money, tokens or calls, oldest first.
async fn budgets(context: &Context, reader: &SqliteReader) -> CommandResult<Vec<Budgeted>> {
    let asked = reader.requests(RequestFilter::Open, REQUESTS).await.map_err(of_store)?;
    let at_walls = || asked.iter().filter(|record| matches!(record.request.kind, RequestKind::Wall(_)));
    let mut definitions: BTreeMap<ContentHash, Option<Budget>> = BTreeMap::new();
    let mut budgets = Vec::new();
    for id in context.unfinished_flows(reader, PAGE).await? {
        // It may have ended and been removed between two reads.
        let Some((spec, head)) = reader.flow_head(id).await.map_err(of_store)? else { continue };
        if !definitions.contains_key(&spec.pipeline) {
            let pipeline = reader.pipeline(spec.pipeline.clone()).await.map_err(of_store)?;
            definitions.insert(spec.pipeline.clone(), pipeline.and_then(|(pipeline, _)| pipeline.budget));
        }
        let Some(budget) = definitions.get(&spec.pipeline).copied().flatten() else { continue };
        let limits = Limits::of(&budget, head.raised);
        if limits.is_none() {
            continue;
        }
        let sum = reader.spent(Owner::Flow(id)).await.map_err(of_store)?;
        let incidents = at_walls().filter(|record| record.request.flow == id);
        let incidents = incidents.filter_map(|record| of_request(&record.request)).collect();
        budgets.push(budgeted(&spec, &head, &limits, (sum, incidents)));
    }
    Ok(budgets)
}

fn budgeted(spec: &FlowSpec, head: &FlowHead, limits: &Limits, (sum, incidents): (Sum, Vec<Incident>)) -> Budgeted {
    let (spent, told) = (sum.amount(), &head.usage);
    let micros = |money: UsdMicros| u64::try_from(money.as_micros()).unwrap_or(0);
    let line = |wall, limit: Option<u64>, spent, reserved| limit.map(|limit| Line { wall, limit, spent, reserved });
    let reserved = Some(micros(sum.reserved));
    let lines = [
        line(Wall::Usd, limits.usd.map(micros), spent.micros.max(micros(told.cost)), reserved),
        line(Wall::Tokens, limits.tokens, spent.tokens.max(told.tokens()), None),
        line(Wall::ModelCalls, limits.calls, spent.calls.max(told.calls), Some(sum.in_flight)),
    ];
    let lines = lines.into_iter().flatten().collect();
    Budgeted { flow: spec.id, pipeline: spec.name.clone(), raised: head.raised, lines, sum, incidents }
}

fn money(micros: u64) -> UsdMicros {
    UsdMicros::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// How much of the money is estimated or lost, in whole percent, rounded up: a little is never nothing.
fn share(sum: &Sum) -> u64 {
    let (unsure, all) = (sum.unsure.as_micros().unsigned_abs(), sum.micros.as_micros().unsigned_abs());
    u64::try_from((u128::from(unsure) * 100).div_ceil(u128::from(all.max(1)))).unwrap_or(100)
}

/// What is to be known about the figures of a flow.
fn remarks(budget: &Budgeted) -> String {
    let sum = &budget.sum;
    let parts = [
        (budget.raised > 1).then(|| format!("raised to {} times", budget.raised)),
        (sum.unpriced > 0).then(|| format!("{} of {} calls unpriced", sum.unpriced, sum.calls)),
        budget.incidents.first().map(|incident| incident.what.clone()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn table(budgets: &[Budgeted]) -> CommandResult<()> {
    if budgets.is_empty() {
        say("no flow that is not over has a budget of money, tokens or calls; `budget:` of a pipeline sets one");
        return Ok(());
    }
    let titles = ["FLOW", "PIPELINE", "WALL", "LIMIT", "SPENT", "RESERVED", "LEFT", "ESTIMATED", "NOTE"];
    let mut table = Columns::titled(&titles);
    for budget in budgets {
        let mut note = remarks(budget);
        for line in &budget.lines {
            let is_money = line.wall == Wall::Usd;
            table.row([
                budget.flow.to_string().as_str(),
                &budget.pipeline,
                line.wall.word(),
                &line.amount(line.limit),
                &line.amount(line.spent),
                &line.reserved.map_or_else(|| "-".to_owned(), |reserved| line.amount(reserved)),
                &line.amount(line.left()),
                &if is_money { format!("{} %", share(&budget.sum)) } else { "-".to_owned() },
                &std::mem::take(&mut note),
            ]);
        }
    }
    let mut text = table.text("");
    let commands: Vec<&str> =
        budgets.iter().flat_map(|budget| &budget.incidents).map(|incident| incident.command.as_str()).collect();
    if !commands.is_empty() {
        text.push_str(&format!("\nwhat can be done\n  {}\n", commands.join("\n  ")));
    }
    output::text(&text)
}

fn csv(budgets: &[Budgeted]) -> CommandResult<()> {
    let titles =
        ["flow", "pipeline", "wall", "limit", "spent", "reserved", "left", "estimated_percent", "unpriced_calls"];
    let mut text = csv_line(titles);
    for budget in budgets {
        for line in &budget.lines {
            let is_money = line.wall == Wall::Usd;
            let figure = |amount: u64| if is_money { dollars(money(amount)) } else { amount.to_string() };
            text.push_str("\r\n");
            text.push_str(&csv_line([
                budget.flow.to_string(),
                budget.pipeline.clone(),
                line.wall.word().to_owned(),
                figure(line.limit),
                figure(line.spent),
                line.reserved.map(figure).unwrap_or_default(),
                figure(line.left()),
                if is_money { share(&budget.sum).to_string() } else { String::new() },
                budget.sum.unpriced.to_string(),
            ]));
        }
    }
    text.push_str("\r\n");
    output::text(&text)
}

/// `orc/budgets/1`.
fn document(budgets: &[Budgeted]) -> Value {
    let line = |line: &Line| {
        json!({
            "wall": line.wall.word(),
            "unit": if line.wall == Wall::Usd { "usd_micros" } else { line.wall.word() },
            "limit": line.limit,
            "spent": line.spent,
            "reserved": line.reserved,
            "left": line.left(),
        })
    };
    let budgets = budgets.iter().map(|budget| {
        json!({
            "flow": budget.flow,
            "pipeline": budget.pipeline,
            "raised": budget.raised,
            "walls": budget.lines.iter().map(line).collect::<Vec<_>>(),
            "estimated_percent": share(&budget.sum),
            "ledger": crate::view::cost::document(&budget.sum),
            "incidents": budget.incidents,
        })
    });
    json!({ "schema": "orc/budgets/1", "budgets": budgets.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_less_than_nothing_and_a_share_is_rounded_up() {
        let line = |limit, spent, reserved| Line { wall: Wall::Usd, limit, spent, reserved }.left();
        assert_eq!([line(10, 3, Some(2)), line(10, 3, None), line(10, 9, Some(2)), line(10, 11, None)], [5, 7, 0, 0]);
        let sum = |unsure, micros| {
            let (unsure, micros) = (UsdMicros::from_micros(unsure), UsdMicros::from_micros(micros));
            share(&Sum { unsure, micros, ..Sum::default() })
        };
        assert_eq!([sum(0, 0), sum(0, 9), sum(1, 1_000), sum(1, 2), sum(9, 9)], [0, 0, 1, 50, 100]);
    }
}
