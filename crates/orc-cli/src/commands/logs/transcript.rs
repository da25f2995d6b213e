//! A flow while it runs, with all that its runs print: what happened to its steps and what stands in their logs, in one
//! order.
//!
//! A run's end is recorded after its log is complete, so before each event the logs are read as far as they go. It must
//! never end a flow: a log that cannot be read is given up, and whoever closed standard error is not told anything.

use std::collections::VecDeque;
use std::io::Write as _;

use orc_domain::event::{Event, Fact};
use orc_domain::ids::{FlowId, RunId};
use orc_domain::path::StepPath;
use orc_domain::principal::Principal;
use orc_domain::time::Timestamp;
use orc_ports::log::LogKind;
use orc_runtime::data_dir::DataDir;

use super::speech::Speech;
use super::tail::{Found, Tail};
use super::text::Printer;
use crate::output::say;
use crate::view::View;
use crate::view::plain::words;
use crate::view::progress::Progress;

/// Pieces of one log that are printed before somebody else is heard: whoever writes faster than we print must not keep us
/// from hearing a signal.
const PIECES: usize = 32;

/// Shows events and logs on standard error.
pub(crate) struct Transcript {
    data: DataDir,
    name: String,
    progress: Progress,
    printer: Printer,
    open: Vec<Open>,
    /// Runs that were heard of.
    runs: usize,
}

/// A run whose log may still grow.
struct Open {
    run: RunId,
    number: usize,
    label: String,
    tail: Tail,
    /// Of an agent.
    speech: Option<Speech>,
    is_over: bool,
}

impl Transcript {
    pub(crate) fn new(data: DataDir, name: String, progress: Progress, colour: bool) -> Self {
        let mut printer = Printer::for_terminal(colour);
        progress.steps.iter().for_each(|step| printer.widen(step.path.as_str()));
        printer.widen(&name);
        Self { data, name, progress, printer, open: Vec::new(), runs: 0 }
    }

    fn begin(&mut self, flow: FlowId, run: RunId, (path, attempt): (&StepPath, u32), is_agent: bool) {
        if self.open.iter().any(|open| open.run == run) {
            return;
        }
        let label = if attempt > 1 { format!("{path} #{attempt}") } else { path.to_string() };
        self.printer.widen(&label);
        let tail = Tail::new(self.data.log(flow, run), run);
        self.runs += 1;
        let speech = is_agent.then(Speech::default);
        self.open.push(Open { run, number: self.runs, label, tail, speech, is_over: false });
    }

    fn print(&mut self, event: &Event) {
        self.progress.apply(event);
        // What an agent says at its end stands in its log.
        let is_heard = matches!(&event.body.fact, Fact::MessageReceived { from: Principal::Agent(_), .. });
        let Some(words) = words(event, &self.progress).filter(|_| !is_heard) else { return };
        let label = event.body.fact.path().map_or_else(|| self.name.clone(), StepPath::to_string);
        let mut text = Vec::new();
        // Printed into memory, which takes all.
        let _ = self.printer.event(&mut text, &label, &words);
        write(&text);
    }

    /// Ends a line that is open.
    fn end_line(&mut self) {
        let mut text = Vec::new();
        let _ = self.printer.end(&mut text);
        write(&text);
    }

    /// Prints what logs have that was not printed; of each at most so many pieces.
    fn read(&mut self, pieces: usize) {
        let mut text = Vec::new();
        let printer = &mut self.printer;
        self.open.retain_mut(|open| {
            let mut lines = VecDeque::new();
            for _ in 0..pieces {
                match open.tail.read(&mut lines) {
                    Ok(Found::Lines) => {}
                    Ok(Found::Missing | Found::Nothing) => {
                        for line in open.speech.iter_mut().filter(|_| open.is_over).flat_map(Speech::end) {
                            let _ = printer.line(&mut text, open.number, Some(&open.label), &line);
                        }
                        write(&text);
                        return !open.is_over;
                    }
                    Err(failure) => {
                        say(&failure.to_string());
                        return false;
                    }
                }
                for (_, line) in lines.drain(..).filter(|(_, line)| line.kind != LogKind::Note) {
                    let lines = match &mut open.speech {
                        Some(speech) => speech.hear(line),
                        None => vec![line],
                    };
                    for line in lines {
                        let _ = printer.line(&mut text, open.number, Some(&open.label), &line);
                    }
                }
                write(&text);
                text.clear();
            }
            true
        });
    }
}

fn write(text: &[u8]) {
    // Whoever closed standard error does not want to hear it.
    let _ = std::io::stderr().write_all(text);
}

impl View for Transcript {
    fn events(&mut self, events: &[Event], _: Timestamp) {
        for event in events {
            self.read(PIECES);
            self.print(event);
            match &event.body.fact {
                Fact::CommandRunStarted { path, run, attempt } => self.begin(event.flow, *run, (path, *attempt), false),
                Fact::AgentRunStarted { path, run, attempt, .. } => {
                    self.begin(event.flow, *run, (path, *attempt), true)
                }
                Fact::CommandRunCompleted { run, .. } | Fact::AgentRunCompleted { run, .. } => {
                    self.open.iter_mut().filter(|open| open.run == *run).for_each(|open| open.is_over = true);
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, text: &str) {
        self.end_line();
        say(text);
    }

    fn tick(&mut self, _: Timestamp) {
        self.read(PIECES);
    }

    fn end(&mut self) {
        self.read(usize::MAX);
        self.end_line();
    }
}
