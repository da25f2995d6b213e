//! `logs`: what runs printed, one after another, or merged in the order of time and followed to the end.
//!
//! `tail` reads a log as it grows, `merged` puts several logs and the events into one order, `speech` puts what agents tell
//! into words, `text` prints lines. Text is shown without what steers a terminal; `--output jsonl` gives the lines of the
//! file as they are.

mod merged;
mod speech;
mod tail;
mod text;
mod transcript;

use std::collections::VecDeque;
use std::io::{BufWriter, ErrorKind, Write};

use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::run::RunState;
use orc_domain::time::Timestamp;
use orc_ports::log::LogLine;
use orc_ports::reader::{AnyId, Reader as _, RunRecord};
use orc_store_sqlite::SqliteReader;
use serde_json::{Value, json};

use self::speech::Speech;
pub(crate) use self::speech::{shown as first_lines, words as event_in_words};
use self::tail::{Found, Tail};
use self::text::Printer;
pub(crate) use self::transcript::Transcript;
use super::explain::parse_step;
use crate::args::LogsArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::hold::of_store;
use crate::moment;
use crate::output::{self, Form, say};

/// Runs that are read at once.
const PAGE: u32 = 500;

/// What was asked for.
enum Wanted {
    /// One run.
    Run(Box<RunRecord>),
    /// The runs of a flow, or of one step of it.
    Flow { id: FlowId, name: String, step: Option<StepPath> },
}

pub(crate) async fn run(context: &Context, args: &LogsArgs) -> CommandResult {
    let since = args.since.as_deref().map(|text| moment::parse("--since", text, context.now())).transpose()?;
    let is_document = matches!(args.output.output, Form::Json | Form::Yaml);
    if is_document && (args.follow || args.events) {
        let what = "`--follow` and `--events` give lines, and a document of JSON or YAML is one whole";
        return Err(Failure::new(Exit::Usage, what).hint("`--output jsonl` prints each line as JSON"));
    }
    let reader = context.reader().await?;
    let mut wanted = Vec::with_capacity(args.ids.len());
    for id in &args.ids {
        wanted.push(wanted_of(context, &reader, id, args.step.as_deref()).await?);
    }
    let printed = if args.follow || args.events || (wanted.len() > 1 && !is_document) {
        merged::print(context, &reader, wanted, since, args).await
    } else {
        one_by_one(context, &reader, &wanted, since, args).await
    };
    match printed {
        // The reader of our output has seen enough.
        Err(Stopped::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(Exit::Success),
        Err(Stopped::Output(error)) => Err(unavailable("cannot write to standard output").because(error)),
        Err(Stopped::Failed(failure)) => Err(failure),
        Ok(exit) => Ok(exit),
    }
}

/// Why printing ended early.
enum Stopped {
    Output(std::io::Error),
    Failed(Failure),
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

async fn wanted_of(context: &Context, reader: &SqliteReader, id: &str, step: Option<&str>) -> CommandResult<Wanted> {
    match context.any_of(reader, id).await? {
        AnyId::Request(request) => Err(Failure::new(Exit::Usage, format!("{request} is a request, which has no log"))),
        AnyId::Run(_) if step.is_some() => {
            Err(Failure::new(Exit::Usage, format!("`--step` chooses among the runs of a flow, and `{id}` is one run")))
        }
        AnyId::Run(run) => {
            let record = reader.run(run).await.map_err(of_store)?;
            Ok(Wanted::Run(Box::new(record.ok_or_else(|| not_found(format!("there is no run {run}")))?)))
        }
        AnyId::Flow(id) => {
            let known = reader.flow(id).await.map_err(of_store)?;
            let known = known.ok_or_else(|| not_found(format!("there is no flow {id}")))?;
            let step = step.map(|step| parse_step(&known, step)).transpose()?;
            Ok(Wanted::Flow { id, name: known.spec.name, step })
        }
    }
}

/// Whether a step was asked for. A fan-out has no run of its own; its name means its elements.
fn is_wanted(step: Option<&StepPath>, path: &StepPath) -> bool {
    let below = |step: &StepPath| path.as_str().strip_prefix(step.as_str()).is_some_and(|rest| rest.starts_with('['));
    step.is_none_or(|step| path == step || below(step))
}

/// Runs of a flow that were decided after `known`, in order.
async fn runs_after(reader: &SqliteReader, flow: FlowId, known: Option<RunId>) -> CommandResult<Vec<RunRecord>> {
    let (mut records, mut before) = (Vec::new(), None);
    loop {
        let page = reader.runs(Some(flow), before, PAGE).await.map_err(of_store)?;
        let Some(last) = page.last() else { break };
        before = Some(last.run.id);
        let new = page.iter().position(|record| Some(record.run.id) == known);
        records.extend(page.into_iter().take(new.unwrap_or(PAGE as usize)));
        if new.is_some() {
            break;
        }
    }
    records.reverse();
    Ok(records)
}

/// Each run after the other.
async fn one_by_one(
    context: &Context,
    reader: &SqliteReader,
    wanted: &[Wanted],
    since: Option<Timestamp>,
    args: &LogsArgs,
) -> Result<Exit, Stopped> {
    let mut records = Vec::new();
    for wanted in wanted {
        match wanted {
            Wanted::Run(record) => records.push(RunRecord::clone(record)),
            Wanted::Flow { id, step, .. } => {
                let runs = runs_after(reader, *id, None).await?;
                records.extend(runs.into_iter().filter(|record| is_wanted(step.as_ref(), &record.run.path)));
            }
        }
    }
    let one = matches!(wanted, [Wanted::Run(_)]);
    let logs = Logs { context, records: &records, one, since, is_raw: args.raw };
    match args.output.output {
        _ if records.is_empty() => say("nothing has run yet"),
        Form::Table => logs.print_text()?,
        Form::Jsonl => logs.print_lines()?,
        form @ (Form::Json | Form::Yaml) => logs.print_document(form)?,
    }
    Ok(Exit::Success)
}

/// What is said about a run without a log: a log is made by the first thing that is printed.
fn no_log(record: &RunRecord) -> &'static str {
    match &record.run.state {
        RunState::Pending { .. } => "its process is being started",
        RunState::Running { .. } => "it has printed nothing so far",
        RunState::Finished { .. } => "it printed nothing, or its log was removed",
    }
}

/// Logs that are printed one after another.
struct Logs<'a> {
    context: &'a Context,
    records: &'a [RunRecord],
    /// There is one, and it was asked for by name.
    one: bool,
    since: Option<Timestamp>,
    /// Events of agents are not put into words.
    is_raw: bool,
}

impl Logs<'_> {
    /// Each line of a log, with its text as written; false when there is no log.
    fn each_line(
        &self,
        record: &RunRecord,
        mut then: impl FnMut(&str, LogLine) -> Result<(), Stopped>,
    ) -> Result<bool, Stopped> {
        let mut tail = Tail::new(self.context.data.log(record.run.flow, record.run.id), record.run.id);
        let (mut lines, mut is_there) = (VecDeque::new(), false);
        loop {
            match tail.read(&mut lines)? {
                Found::Missing => return Ok(is_there),
                Found::Nothing => return Ok(true),
                Found::Lines => is_there = true,
            }
            for (text, line) in lines.drain(..) {
                if self.since.is_none_or(|since| line.at >= since) {
                    then(&text, line)?;
                }
            }
        }
    }

    fn print_text(&self) -> Result<(), Stopped> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for record in self.records {
            if !self.one {
                let run = &record.run;
                writeln!(out, "== {} attempt {} ({})", run.path, run.attempt, run.id)?;
            }
            let mut printer =
                Printer::for_terminal(crate::host::colour(std::io::IsTerminal::is_terminal(&std::io::stdout())));
            let mut speech = (record.run.agent.is_some() && !self.is_raw).then(Speech::default);
            let shown = self.each_line(record, |_, line| {
                let lines = match &mut speech {
                    Some(speech) => speech.hear(line),
                    None => vec![line],
                };
                Ok(lines.iter().try_for_each(|line| printer.line(&mut out, 0, None, line))?)
            });
            for line in speech.iter_mut().flat_map(Speech::end) {
                printer.line(&mut out, 0, None, &line)?;
            }
            printer.end(&mut out)?;
            if matches!(shown, Ok(false)) {
                writeln!(out, "-- {}", no_log(record))?;
            }
            out.flush()?;
            self.go_on(shown)?;
        }
        Ok(())
    }

    fn print_lines(&self) -> Result<(), Stopped> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for record in self.records {
            let named = (!self.one).then_some(record.run.id);
            let shown = self.each_line(record, |text, _| Ok(print_line(&mut out, named, text)?));
            out.flush()?;
            self.go_on(shown)?;
        }
        Ok(())
    }

    /// A log that cannot be read ends the command when it is the only one.
    fn go_on(&self, shown: Result<bool, Stopped>) -> Result<(), Stopped> {
        match shown {
            Err(Stopped::Failed(failure)) if !self.one => say(&failure.to_string()),
            Err(stopped) => return Err(stopped),
            Ok(_) => {}
        }
        Ok(())
    }

    fn print_document(&self, form: Form) -> Result<(), Stopped> {
        let mut runs: Vec<Value> = Vec::with_capacity(self.records.len());
        for record in self.records {
            let mut lines = Vec::new();
            let shown = self.each_line(record, |_, line| {
                lines.push(line);
                Ok(())
            });
            let missing = match shown {
                Ok(true) => None,
                Ok(false) => Some(no_log(record).to_owned()),
                Err(Stopped::Failed(failure)) => Some(failure.to_string()),
                Err(Stopped::Output(error)) => Some(error.to_string()),
            };
            let run = &record.run;
            runs.push(json!({
                "run": run.id, "flow": run.flow, "step": run.path, "attempt": run.attempt, "lines": lines,
                "missing": missing,
            }));
        }
        Ok(output::document(form, &json!({ "schema": "orc/logs/1", "runs": runs }), None)?)
    }
}

/// A line of a log as it is written there, with the run before it where there are several.
fn print_line(out: &mut impl Write, run: Option<RunId>, text: &str) -> std::io::Result<()> {
    match (run, text.strip_prefix('{')) {
        (Some(run), Some(rest)) => writeln!(out, "{{\"run\":\"{run}\",{rest}"),
        _ => writeln!(out, "{text}"),
    }
}
