//! `replay --tools`: the tools of a run once more, in a place like the one that it began in. The loop goes as it was recorded;
//! what each tool says now is held against what it said then.
//!
//! It holds the data directory meanwhile, writes nothing of what is recorded, asks no model, and removes what it made, also
//! when it is interrupted.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use orc_domain::ids::{FlowId, InstanceId, RunId};
use orc_domain::run::Run;
use orc_domain::tree::Place;
use orc_harness::host::Hosts;
use orc_harness::replay::tools::{Call, Came, Side, Start, ToolsError, start_of, use_again};
use orc_ports::executor::Executor;
use orc_process::ProcessExecutor;
use orc_runtime::fresh::{FreshError, FreshPlace, Original};
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use super::super::db::lock;
use super::{Record, differs};
use crate::args::LimitArgs;
use crate::boxes;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, unavailable};
use crate::host;
use crate::output::say;
use crate::signals::Signals;
use crate::view::columns::clean;

/// What the tools said.
pub(super) struct Redone {
    calls: Vec<Call>,
    /// What of the place was not as it had been.
    notes: Vec<String>,
}

pub(super) async fn run(context: &Context, reader: SqliteReader, run: &Run, record: &Record) -> CommandResult<Redone> {
    let start = start_of(&record.lines, run.id).map_err(|error| not_used(record, run.id, error))?;
    let Start { outset, told } = start;
    let notes = notes(&outset.place);
    let mut signals = Signals::new()?;
    let _lock = lock(context, "replay")?;
    let (flow, path, attempt) = (run.flow, run.path.clone(), run.attempt);
    let original = Original { flow, run: run.id, path, attempt, outset, told };
    let fresh = FreshPlace {
        worktrees: context.copies(),
        reader: Arc::new(reader),
        data: context.data.clone(),
        shape: context.shape("replay", &LimitArgs::default())?,
        flow: FlowId::from_uuid(uuid::Uuid::now_v7()),
        run: RunId::from_uuid(uuid::Uuid::now_v7()),
    };
    let executor = executor(context)?;
    let done = tokio::select! {
        done = carry(&fresh, &original, &executor, record) => done,
        signal = signals.next() => {
            Err(Failure::new(Exit::Interrupted, format!("{signal}: not all of its tools were used again")))
        }
    };
    executor.close().await;
    if let Err(error) = fresh.remove(&original).await {
        let failure = unavailable("what was made for this could not be removed").because(error);
        say(&failure.hint("`orchestrator worktrees gc --apply` removes copies that belong to no flow").to_string());
    }
    done.map(|calls| Redone { calls, notes })
}

/// What starts tool hosts, whose end nobody else hears of.
fn executor(context: &Context) -> CommandResult<Arc<dyn Executor>> {
    let boxes = boxes::sandbox(&context.settings(&LimitArgs::default())?);
    let instance = InstanceId::from_uuid(uuid::Uuid::now_v7());
    let executor = ProcessExecutor::with_boxes(instance, host::clock(), Arc::new(|_| {}), boxes);
    Ok(Arc::new(executor.map_err(|error| unavailable("cannot start processes").because(error))?))
}

async fn carry(
    fresh: &FreshPlace,
    original: &Original,
    executor: &Arc<dyn Executor>,
    record: &Record,
) -> CommandResult<Vec<Call>> {
    let launch = fresh.lay_out(original).await.map_err(|error| not_laid_out(original.run, error))?;
    let hosts = Hosts::new(Arc::clone(executor), host::clock());
    let done = use_again(&record.lines, original.run, &original.outset, (launch, &hosts)).await;
    done.map_err(|error| not_used(record, original.run, error))
}

fn refused(run: RunId, why: impl std::error::Error) -> Failure {
    Failure::new(Exit::Refused, format!("the tools of {run} cannot be used again"))
        .because(why)
        .hint("without `--tools` a replay needs nothing but the record")
}

fn not_used(record: &Record, run: RunId, error: ToolsError) -> Failure {
    match error {
        ToolsError::Replay(error) => differs(&record.path, run, &error),
        ToolsError::GoesOn | ToolsError::Agents { .. } | ToolsError::NoOutset | ToolsError::Gate { .. } => {
            refused(run, error)
        }
        ToolsError::Broken { .. } => unavailable(format!("the tools of {run} cannot be used again"))
            .because(error)
            .hint("`orchestrator doctor` says what this machine can do"),
    }
}

fn not_laid_out(run: RunId, error: FreshError) -> Failure {
    match error {
        FreshError::InPlace { .. } | FreshError::GoesOn | FreshError::Writes { .. } => refused(run, error),
        FreshError::NotLaidOut { .. } => unavailable(format!("there is no place like the one that {run} began in"))
            .because(error)
            .hint("its commits must still be there; `orchestrator doctor` says what this machine can do"),
    }
}

/// What of the place is not as it was, whatever the tools say.
fn notes(place: &Place) -> Vec<String> {
    let Place::Boxed { rules, .. } = place else { return Vec::new() };
    let named = |names: &BTreeSet<String>| {
        (!names.is_empty()).then(|| names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    let network = named(&rules.network).map(|hosts| format!("its box could reach {hosts}; this one has no network"));
    let read = named(&rules.read).map(|paths| format!("its box could read {paths}: it finds there what is there now"));
    let cache =
        named(&rules.cache).map(|names| format!("it had the caches {names}: it finds in them what is there now"));
    [network, read, cache].into_iter().flatten().collect()
}

impl Redone {
    /// Whether something came out otherwise.
    pub(super) fn differs(&self) -> bool {
        self.calls.iter().any(|call| matches!(call.came, Came::Differs { .. }))
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let count = |is: fn(&Came) -> bool| self.calls.iter().filter(|call| is(&call.came)).count();
        let mut text = format!(
            "tools: of {} calls {} came out as recorded, {} otherwise, {} were not compared\n",
            self.calls.len(),
            count(|came| *came == Came::Same),
            count(|came| matches!(came, Came::Differs { .. })),
            count(|came| matches!(came, Came::LeftOut { .. }))
        );
        for call in &self.calls {
            let event = call.event.map(|event| format!("event {event}, ")).unwrap_or_default();
            let what = format!("{event}{} {}", call.tool, clean(&call.input));
            match &call.came {
                Came::Same => {}
                Came::LeftOut { why } => {
                    let _ = writeln!(text, "  {what}: {why}");
                }
                Came::Differs { then, now } => {
                    let _ = writeln!(text, "  {what}: it came out otherwise");
                    text += &(side("recorded", then) + &side("now", now));
                }
            }
        }
        text.extend(self.notes.iter().map(|note| format!("  note: {}\n", clean(note))));
        text
    }

    /// For programs.
    pub(super) fn document(&self) -> Value {
        let side = |side: &Side| json!({ "failed": side.failed, "text": side.text });
        let each = self.calls.iter().map(|call| {
            let mut value = json!({ "event": call.event, "tool": call.tool, "input": call.input });
            match &call.came {
                Came::Same => value["came_out"] = json!("same"),
                Came::Differs { then, now } => {
                    value["came_out"] = json!("otherwise");
                    (value["recorded"], value["now"]) = (side(then), side(now));
                }
                Came::LeftOut { why } => {
                    value["came_out"] = json!("not_compared");
                    value["why"] = json!(why);
                }
            }
            value
        });
        json!({ "calls": each.collect::<Vec<_>>(), "notes": self.notes })
    }
}

fn side(name: &str, Side { failed, text }: &Side) -> String {
    let failed = if *failed { " (failed)" } else { "" };
    let lines: String = text.lines().map(|line| format!("      {}\n", clean(line))).collect();
    format!("    {name}{failed}:\n{lines}")
}
