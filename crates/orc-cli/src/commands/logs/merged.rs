//! Logs of several runs, and events, in the order of time; also while they grow.
//!
//! Each look asks the store first who is over, then reads the logs: a run's end is recorded after its log is complete, so
//! what is over by then has nothing to say any more.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::io::{BufWriter, Write};

use orc_domain::event::{Event, Fact};
use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::run::Run;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock as _;
use orc_ports::log::LogLine;
use orc_ports::reader::Reader as _;
use orc_runtime::clock::SystemClock;
use orc_store_sqlite::SqliteReader;

use super::speech::Speech;
use super::tail::{Found, Tail};
use super::text::Printer;
use super::{Stopped, Wanted, is_wanted, print_line, runs_after};
use crate::args::LogsArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, not_found};
use crate::hold::of_store;
use crate::output::{Form, say};
use crate::signals::Signals;
use crate::view::plain::words;
use crate::view::progress::Progress;

/// Pause between two looks.
const REST: Millis = Millis::from_millis(150);
/// Events that are read at once.
const PAGE: u32 = 500;
/// Lines that are printed between two looks: whoever writes faster than we print must not keep us from hearing a signal.
const LINES: usize = 10_000;
/// Characters of a flow's id before a label; enough to name it.
const SHORT_ID: usize = 6;

/// Prints what was asked for; with `--follow` until all of it is over.
pub(super) async fn print(
    context: &Context,
    reader: &SqliteReader,
    wanted: Vec<Wanted>,
    since: Option<Timestamp>,
    args: &LogsArgs,
) -> Result<Exit, Stopped> {
    let mut merged = Merged::new(context, reader, wanted, args.events);
    let one_run = matches!(merged.groups.as_slice(), [Group { wanted: Wanted::Run(_), .. }]);
    let is_json = args.output.output == Form::Jsonl;
    let shape = Shape { since, is_json, labels: !one_run || args.events, is_raw: args.raw };
    let mut out = BufWriter::new(std::io::stdout());
    let mut printer = Printer::for_terminal(crate::host::colour(std::io::IsTerminal::is_terminal(&std::io::stdout())));
    let mut signals = Signals::new()?;
    loop {
        let over = merged.look().await?;
        let is_all = merged.print(&mut out, &mut printer, &shape).await?;
        out.flush()?;
        if is_all && (over || !args.follow) {
            merged.end(&mut out, &mut printer, &shape)?;
            printer.end(&mut out)?;
            out.flush()?;
            return Ok(Exit::Success);
        }
        let rest = if is_all { REST } else { Millis::ZERO };
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(Exit::Interrupted),
            () = SystemClock.sleep(rest) => {}
        }
    }
}

/// How it is printed.
struct Shape {
    since: Option<Timestamp>,
    is_json: bool,
    labels: bool,
    /// Events of agents are not put into words.
    is_raw: bool,
}

/// What was asked for, and what is known of it.
struct Group {
    wanted: Wanted,
    /// The last run of the flow that was seen.
    newest: Option<RunId>,
    is_over: bool,
}

/// Something with lines in the order of time.
struct Source {
    label: String,
    kind: Kind,
    queue: VecDeque<Item>,
}

enum Kind {
    /// The log of a run; `is_over` once nothing is written to it any more, no tail once there is nothing more to read.
    Log { run: RunId, speech: Option<Speech>, tail: Option<Tail>, is_over: bool },
    /// The events of a flow, or of some of its steps.
    Events { flow: FlowId, steps: Vec<StepPath>, after: u64, progress: Box<Progress> },
}

enum Item {
    Line(String, LogLine),
    Event(Box<Event>),
}

impl Item {
    const fn at(&self) -> Timestamp {
        match self {
            Self::Line(_, line) => line.at,
            Self::Event(event) => event.body.at,
        }
    }

    /// What comes first of two things in the same millisecond: ends come after what was printed before them.
    const fn place(&self) -> (Timestamp, u8) {
        let rank = match self {
            Self::Line(..) => 1,
            Self::Event(event) => match event.body.fact {
                Fact::CommandRunCompleted { .. }
                | Fact::AgentRunCompleted { .. }
                | Fact::RetryPlanned { .. }
                | Fact::StepFinished { .. }
                | Fact::FlowFinished { .. } => 2,
                _ => 0,
            },
        };
        (self.at(), rank)
    }
}

struct Merged<'a> {
    context: &'a Context,
    reader: &'a SqliteReader,
    groups: Vec<Group>,
    sources: Vec<Source>,
    /// Runs that have a source.
    runs: BTreeSet<RunId>,
    /// Labels name the flow as well.
    several_flows: bool,
    /// Flows that were said to have nobody who carries them on.
    left: BTreeSet<FlowId>,
}

impl<'a> Merged<'a> {
    fn new(context: &'a Context, reader: &'a SqliteReader, wanted: Vec<Wanted>, events: bool) -> Self {
        let flows: BTreeSet<FlowId> = wanted.iter().map(flow_of).collect();
        let several_flows = flows.len() > 1;
        let mut sources = Vec::new();
        for flow in flows.into_iter().filter(|_| events) {
            let of_flow = || wanted.iter().filter(|wanted| flow_of(wanted) == flow);
            let whole = of_flow().any(|wanted| matches!(wanted, Wanted::Flow { step: None, .. }));
            let steps = of_flow().filter_map(|wanted| match wanted {
                Wanted::Run(record) => Some(record.run.path.clone()),
                Wanted::Flow { step, .. } => step.clone(),
            });
            let steps = if whole { Vec::new() } else { steps.collect() };
            let name = of_flow().find_map(|wanted| match wanted {
                Wanted::Flow { name, .. } => Some(name.clone()),
                Wanted::Run(_) => None,
            });
            let label = if several_flows { short(flow) } else { name.unwrap_or_else(|| short(flow)) };
            let kind = Kind::Events { flow, steps, after: 0, progress: Box::default() };
            sources.push(Source { label, kind, queue: VecDeque::new() });
        }
        let group = |wanted| Group { wanted, newest: None, is_over: false };
        let groups = wanted.into_iter().map(group).collect();
        Self { context, reader, groups, sources, runs: BTreeSet::new(), several_flows, left: BTreeSet::new() }
    }

    /// Asks the store what is new. True when everything that was asked for is over.
    async fn look(&mut self) -> CommandResult<bool> {
        for source in &mut self.sources {
            if let Kind::Log { run, is_over, .. } = &mut source.kind
                && !*is_over
            {
                let record = self.reader.run(*run).await.map_err(of_store)?;
                *is_over = record.is_none_or(|record| record.run.state.is_final());
            }
        }
        for at in 0..self.groups.len() {
            if !self.groups[at].is_over {
                self.look_at(at).await?;
            }
        }
        Ok(self.groups.iter().all(|group| group.is_over))
    }

    async fn look_at(&mut self, at: usize) -> CommandResult<()> {
        let group = &self.groups[at];
        let (runs, is_over) = match &group.wanted {
            Wanted::Run(record) => {
                let id = record.run.id;
                let record = self.reader.run(id).await.map_err(of_store)?;
                let record = record.ok_or_else(|| not_found(format!("{id} is gone")))?;
                let is_over = record.run.state.is_final();
                (if group.newest.is_none() { vec![record.run] } else { Vec::new() }, is_over)
            }
            Wanted::Flow { id, .. } => {
                let head = self.reader.flow_head(*id).await.map_err(of_store)?;
                let (_, head) = head.ok_or_else(|| not_found(format!("{id} is gone")))?;
                let is_over = matches!(head.state, orc_domain::flow::FlowState::Finished { .. });
                let records = runs_after(self.reader, *id, group.newest).await?;
                (records.into_iter().map(|record| record.run).collect(), is_over)
            }
        };
        let flow = flow_of(&group.wanted);
        self.groups[at].newest = runs.last().map(|run| run.id).or(self.groups[at].newest);
        self.groups[at].is_over = is_over;
        if !is_over && !self.context.data.is_held() && self.left.insert(flow) {
            say(&format!("nobody carries {flow} on; `orchestrator flows resume {flow}` does"));
        }
        for run in runs {
            self.add(at, run);
        }
        Ok(())
    }

    fn add(&mut self, group: usize, run: Run) {
        let step = match &self.groups[group].wanted {
            Wanted::Run(_) => None,
            Wanted::Flow { step, .. } => step.as_ref(),
        };
        if !is_wanted(step, &run.path) || !self.runs.insert(run.id) {
            return;
        }
        let mut label = label_of(self.several_flows.then_some(run.flow), &run.path);
        if run.attempt > 1 {
            label.push_str(&format!(" #{}", run.attempt));
        }
        let tail = Some(Tail::new(self.context.data.log(run.flow, run.id), run.id));
        let speech = run.agent.is_some().then(Speech::default);
        let kind = Kind::Log { run: run.id, speech, tail, is_over: run.state.is_final() };
        self.sources.push(Source { label, kind, queue: VecDeque::new() });
    }

    /// Prints what is new, the oldest first; false when it stopped before the end. The log of a run that is over is not
    /// looked at again once it was read to the end.
    async fn print(&mut self, out: &mut impl Write, printer: &mut Printer, shape: &Shape) -> Result<bool, Stopped> {
        let (mut heads, mut printed) = (BinaryHeap::new(), 0);
        self.sources.iter().for_each(|source| printer.widen(&source.label));
        for number in 0..self.sources.len() {
            self.fill(number).await?;
            heads.extend(self.sources[number].queue.front().map(|item| Reverse((item.place(), number))));
        }
        while let Some(Reverse((_, number))) = heads.pop() {
            if printed == LINES {
                return Ok(false);
            }
            printed += 1;
            if let Some(item) = self.sources[number].queue.pop_front() {
                self.print_item(out, printer, (number, item), shape)?;
            }
            self.fill(number).await?;
            heads.extend(self.sources[number].queue.front().map(|item| Reverse((item.place(), number))));
        }
        for source in &mut self.sources {
            if let Kind::Log { is_over: true, tail, .. } = &mut source.kind {
                *tail = None;
            }
        }
        Ok(true)
    }

    /// Prints what is held of lines that did not become whole.
    fn end(&mut self, out: &mut impl Write, printer: &mut Printer, shape: &Shape) -> std::io::Result<()> {
        for (number, source) in self.sources.iter_mut().enumerate() {
            let Kind::Log { speech: Some(speech), .. } = &mut source.kind else { continue };
            let label = shape.labels.then_some(source.label.as_str());
            speech.end().iter().try_for_each(|line| printer.line(out, number, label, line))?;
        }
        Ok(())
    }

    /// Reads on when everything that was read is printed.
    async fn fill(&mut self, number: usize) -> Result<(), Stopped> {
        let source = &mut self.sources[number];
        if !source.queue.is_empty() {
            return Ok(());
        }
        match &mut source.kind {
            Kind::Log { tail, .. } => {
                let mut lines = VecDeque::new();
                // All lines of a piece may be damaged or known, and there may be more behind it.
                while lines.is_empty()
                    && let Some(reading) = tail
                {
                    match reading.read(&mut lines) {
                        Ok(Found::Lines) => {}
                        Ok(Found::Missing | Found::Nothing) => break,
                        // It is given up; the others can still be read.
                        Err(failure) => {
                            say(&failure.to_string());
                            *tail = None;
                        }
                    }
                }
                source.queue.extend(lines.into_iter().map(|(text, line)| Item::Line(text, line)));
            }
            Kind::Events { flow, steps, after, .. } => loop {
                let events = self.reader.events(Some(*flow), *after, PAGE).await.map_err(of_store)?;
                let Some(last) = events.last() else { break };
                *after = last.position;
                let wanted = |event: &Event| {
                    let path = event.body.fact.path();
                    steps.is_empty() || path.is_none_or(|path| steps.iter().any(|step| is_wanted(Some(step), path)))
                };
                source.queue.extend(events.into_iter().filter(wanted).map(|event| Item::Event(Box::new(event))));
                if !source.queue.is_empty() {
                    break;
                }
            },
        }
        Ok(())
    }

    fn print_item(
        &mut self,
        out: &mut impl Write,
        printer: &mut Printer,
        (number, item): (usize, Item),
        shape: &Shape,
    ) -> Result<(), Stopped> {
        let is_shown = shape.since.is_none_or(|since| item.at() >= since);
        let several_flows = self.several_flows;
        let source = &mut self.sources[number];
        match (item, &mut source.kind) {
            (Item::Line(text, line), Kind::Log { run, speech, .. }) if is_shown => {
                let label = shape.labels.then_some(source.label.as_str());
                if shape.is_json {
                    print_line(out, Some(*run), &text)?
                } else {
                    let lines = match speech {
                        Some(speech) if !shape.is_raw => speech.hear(line),
                        _ => vec![line],
                    };
                    lines.iter().try_for_each(|line| printer.line(out, number, label, line))?
                }
            }
            (Item::Event(event), Kind::Events { progress, flow, .. }) => {
                progress.apply(&event);
                let (words, flow) = (words(&event, progress), *flow);
                let path = event.body.fact.path();
                match (words, serde_json::to_string(&event)) {
                    _ if !is_shown => {}
                    (_, Ok(line)) if shape.is_json => writeln!(out, "{line}")?,
                    (Some(words), _) => {
                        let label = path
                            .map_or_else(|| source.label.clone(), |path| label_of(several_flows.then_some(flow), path));
                        printer.event(out, &label, &words)?;
                    }
                    (None, _) => {}
                }
            }
            _ => {}
        }
        Ok(())
    }
}

const fn flow_of(wanted: &Wanted) -> FlowId {
    match wanted {
        Wanted::Run(record) => record.run.flow,
        Wanted::Flow { id, .. } => *id,
    }
}

/// A step, with its flow where there are several.
fn label_of(flow: Option<FlowId>, path: &StepPath) -> String {
    flow.map_or_else(|| path.to_string(), |flow| format!("{}/{path}", short(flow)))
}

/// The end of an id, which names it.
fn short(flow: FlowId) -> String {
    let text = flow.to_string();
    text[text.len().saturating_sub(SHORT_ID)..].to_owned()
}
