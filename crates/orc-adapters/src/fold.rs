//! From what a command agent tells, and how its process ended, to one result.
//!
//! Nothing is believed without its evidence. An exit with code 0 is no delivery: what is owed (an output that fits its
//! schema, or else anything at all) must be there. The family of a failure is decided here and nowhere else. The last of
//! `ask`, `blocked` and `error` counts, and a later output takes it back. Memory is bounded whatever is heard.

use orc_domain::agent::{AgentEvent, AgentOutcome, AgentResult, AgentStop, Statistics, ToolState, Usage};
use orc_domain::json_schema::{JsonSchema, list};
use orc_domain::permission::AskedCall;
use orc_domain::run::ErrorFamily;
use orc_domain::time::Timestamp;
use orc_domain::value::{self, Value};
use orc_ports::adapter::{End, Finding, Listener};
use orc_ports::executor::{Exit, Stream};

use crate::lines::{Line, Lines, MAX_LINE_BYTES};
use crate::looping::{Looping, MAX_REPEATS};
use crate::vocabulary;

/// Bytes of a final message; of a longer one the end is kept, because that is where the answer stands.
pub const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// Characters that a reason repeats of a line.
const MAX_REASON_CHARS: usize = 500;

/// Hears one run of a command agent.
#[derive(Debug)]
pub struct CommandListener {
    out: Heard,
    err: Heard,
    told: Told,
}

/// One stream.
#[derive(Debug, Default)]
struct Heard {
    lines: Lines,
    looping: Looping,
    repeats: u32,
    /// The last line that is not blank, cut.
    last: String,
}

/// Everything that was told so far.
#[derive(Debug)]
struct Told {
    schema: Option<JsonSchema>,
    statistics: Statistics,
    usage: Usage,
    message: Option<String>,
    text: Tail,
    output: Option<serde_json::Value>,
    /// What is wrong with an output that could not be read.
    refused_output: Option<String>,
    trouble: Option<Trouble>,
    done: Option<AgentStop>,
    /// What it repeats.
    looping: Option<String>,
    /// What is found and not told yet.
    finding: Option<Finding>,
    /// The last line of its output is an event that is cut off.
    torn: bool,
}

/// Its last word, when that is no good one.
#[derive(Debug)]
enum Trouble {
    Ask(String, Option<AskedCall>),
    Blocked(String),
    Error(ErrorFamily, String),
}

/// The end of a text.
#[derive(Debug, Default)]
struct Tail {
    text: String,
    is_cut: bool,
}

impl CommandListener {
    /// A listener for one run; `schema` is what it must submit.
    #[must_use]
    pub fn new(schema: Option<JsonSchema>) -> Self {
        let told = Told {
            schema,
            statistics: Statistics { repeats: 1, ..Statistics::default() },
            usage: Usage::default(),
            message: None,
            text: Tail::default(),
            output: None,
            refused_output: None,
            trouble: None,
            done: None,
            looping: None,
            finding: None,
            torn: false,
        };
        Self { out: Heard::default(), err: Heard::default(), told }
    }
}

impl Listener for CommandListener {
    fn hear(&mut self, stream: Stream, bytes: &[u8], at: Timestamp) -> Option<Finding> {
        if bytes.is_empty() {
            return None;
        }
        let statistics = &mut self.told.statistics;
        statistics.bytes = statistics.bytes.saturating_add(bytes.len() as u64);
        statistics.last_output_at = Some(at);
        let heard = match stream {
            Stream::Stdout => &mut self.out,
            Stream::Stderr => &mut self.err,
        };
        let mut lines = std::mem::take(&mut heard.lines);
        lines.push(bytes, |line| self.told.line(stream, line, heard, at));
        heard.lines = lines;
        statistics_repeats(&mut self.told.statistics, &self.out, &self.err);
        self.told.finding.take()
    }

    fn statistics(&self) -> Statistics {
        self.told.statistics
    }

    fn usage(&self) -> Usage {
        self.told.usage
    }

    fn says_blocked(&self) -> bool {
        matches!(self.told.trouble, Some(Trouble::Ask(..) | Trouble::Blocked(_)))
    }

    fn finish(mut self: Box<Self>, end: End) -> AgentResult {
        let at = self.told.statistics.last_output_at.unwrap_or(Timestamp::from_millis(0));
        for (stream, heard) in [(Stream::Stdout, &mut self.out), (Stream::Stderr, &mut self.err)] {
            let mut lines = std::mem::take(&mut heard.lines);
            lines.finish(|line| {
                self.told.line(stream, line, heard, at);
                if let (Stream::Stdout, Line::Whole(bytes)) = (stream, line) {
                    self.told.torn = vocabulary::is_torn(bytes);
                }
            });
        }
        statistics_repeats(&mut self.told.statistics, &self.out, &self.err);
        // Programs say what went wrong on either, and warn of something else on the other.
        let said = [&*self.out.last, &*self.err.last];
        let said: Vec<&str> = said.into_iter().filter(|last| !last.is_empty()).collect();
        self.told.into_result(end, &said.join("; "))
    }
}

fn statistics_repeats(statistics: &mut Statistics, out: &Heard, err: &Heard) {
    statistics.repeats = out.repeats.max(err.repeats).max(1);
}

impl Told {
    fn line(&mut self, stream: Stream, line: Line<'_>, heard: &mut Heard, at: Timestamp) {
        self.statistics.lines = self.statistics.lines.saturating_add(1);
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::Overlong(_) => {
                self.statistics.overlong = self.statistics.overlong.saturating_add(1);
                return;
            }
        };
        if bytes.trim_ascii().is_empty() {
            if stream == Stream::Stdout {
                self.text.push("");
            }
            return;
        }
        let event = (stream == Stream::Stdout).then(|| vocabulary::parse(bytes));
        if matches!(event, None | Some(AgentEvent::Text { .. })) {
            heard.last = excerpt(&String::from_utf8_lossy(bytes), MAX_REASON_CHARS);
        }
        if !event.as_ref().is_some_and(is_sign_of_life) {
            heard.repeats = heard.looping.push(bytes);
            if heard.repeats >= MAX_REPEATS && self.looping.is_none() {
                let what = excerpt(&String::from_utf8_lossy(bytes), 80);
                self.looping = Some(what.clone());
                self.finding.get_or_insert(Finding::Looping { what });
            }
        }
        if let Some(event) = event {
            self.event(event, at);
        }
    }

    fn event(&mut self, event: AgentEvent, at: Timestamp) {
        if let AgentEvent::Text { line } = event {
            self.text.push(&line);
            return;
        }
        self.statistics.events = self.statistics.events.saturating_add(1);
        match event {
            AgentEvent::Message { text } => self.message = Some(Tail::of(&text)),
            AgentEvent::Tool { state, .. } => {
                if state == ToolState::Finished {
                    self.statistics.last_progress_at = Some(at);
                }
                if matches!(state, ToolState::Finished | ToolState::Failed) {
                    self.usage.tool_calls = self.usage.tool_calls.saturating_add(1);
                }
            }
            AgentEvent::Usage(usage) => self.usage = self.usage.plus(usage),
            AgentEvent::Output { value } => {
                self.output = Some(value);
                self.refused_output = None;
                self.trouble = None;
                self.statistics.last_progress_at = Some(at);
            }
            AgentEvent::Ask { text, call } => self.trouble = Some(Trouble::Ask(Tail::of(&text), call)),
            AgentEvent::Blocked { why } => self.trouble = Some(Trouble::Blocked(Tail::of(&why))),
            AgentEvent::Error { family, message } => {
                self.trouble = Some(Trouble::Error(family, Tail::of(&message)));
            }
            AgentEvent::Stop { reason } => {
                if self.done.is_none() {
                    self.finding.get_or_insert(Finding::Done);
                }
                self.done = Some(reason);
            }
            AgentEvent::Unknown { kind, why } => {
                self.statistics.unknown = self.statistics.unknown.saturating_add(1);
                if kind == "output" {
                    self.refused_output = Some(why);
                }
            }
            AgentEvent::Text { .. } | AgentEvent::Progress { .. } => {}
        }
    }

    fn into_result(mut self, end: End, last: &str) -> AgentResult {
        let output = self.output.take().map(|output| self.checked(&output));
        let message = self.message.take().or_else(|| self.text.take());
        let (outcome, stop) = match end.stopped {
            // It said that it was done and did not go: how it was ended says nothing about its work.
            Some(_) if self.done.is_some() => self.judge(Exit::Code(0), last, output.as_ref(), message.is_some()),
            Some(stop @ AgentStop::Silence) => {
                failed(ErrorFamily::SilentRun, "it said nothing for longer than it may".to_owned(), Some(stop))
            }
            Some(stop @ AgentStop::Looping) => {
                let what = self.looping.as_deref().unwrap_or_default();
                failed(ErrorFamily::Unknown, format!("it repeated itself: `{what}`"), Some(stop))
            }
            Some(stop @ AgentStop::Spend) => {
                failed(ErrorFamily::BudgetExceeded, "it spent what it may".to_owned(), Some(stop))
            }
            Some(stop @ (AgentStop::Abort | AgentStop::Takeover | AgentStop::Paused)) => {
                (AgentOutcome::Cancelled, Some(stop))
            }
            _ => self.judge(end.exit, last, output.as_ref(), message.is_some()),
        };
        let output = output.and_then(Result::ok);
        AgentResult { outcome, stop, message, output, usage: self.usage, statistics: self.statistics }
    }

    /// The output, or what is wrong with it.
    fn checked(&self, output: &serde_json::Value) -> Result<Value, String> {
        let problems = self.schema.as_ref().map(|schema| schema.problems(output)).unwrap_or_default();
        if !problems.is_empty() {
            return Err(format!("its output does not fit the schema: {}", list(&problems)));
        }
        Value::parse_json(&output.to_string())
            .ok_or_else(|| format!("its output is nested deeper than {} levels", value::MAX_DEPTH))
    }

    /// Its own end: its last word first, then the exit status, then what it owes.
    fn judge(
        &self,
        exit: Exit,
        last: &str,
        output: Option<&Result<Value, String>>,
        has_message: bool,
    ) -> (AgentOutcome, Option<AgentStop>) {
        let done = self.done.unwrap_or(AgentStop::NoToolUse);
        let blocked = |why: &String, asks, call: Option<&AskedCall>| {
            (AgentOutcome::Blocked { why: why.clone(), asks, call: call.cloned() }, Some(done))
        };
        let with_last = |how: String| if last.is_empty() { how } else { format!("{how}: {last}") };
        match (&self.trouble, exit) {
            (Some(Trouble::Error(family, why)), _) => failed(*family, excerpt(why, MAX_REASON_CHARS), self.done),
            (Some(Trouble::Ask(text, call)), _) => blocked(text, true, call.as_ref()),
            (Some(Trouble::Blocked(why)), _) => blocked(why, false, None),
            (None, Exit::Code(0)) => self.judge_delivery(done, output, has_message),
            (None, Exit::Code(code)) => failed(ErrorFamily::Unknown, with_last(format!("exit code {code}")), self.done),
            (None, Exit::Signal(signal)) => {
                failed(ErrorFamily::Unknown, with_last(format!("ended by signal {signal}")), self.done)
            }
        }
    }

    fn judge_delivery(
        &self,
        done: AgentStop,
        output: Option<&Result<Value, String>>,
        has_message: bool,
    ) -> (AgentOutcome, Option<AgentStop>) {
        let missing = match output {
            Some(Ok(_)) => return (AgentOutcome::Delivered, Some(done)),
            Some(Err(problem)) => problem.clone(),
            None if self.schema.is_none() && has_message => return (AgentOutcome::Delivered, Some(done)),
            None => self.missing(),
        };
        let stop = if done == AgentStop::NoToolUse { AgentStop::Contract } else { done };
        (AgentOutcome::NoDeliverable { missing }, Some(stop))
    }

    /// What is missing when nothing was submitted, so that the agent can be told.
    fn missing(&self) -> String {
        let mut text = match &self.schema {
            Some(schema) => {
                let wanted = list(&schema.problems(&serde_json::json!({})));
                let wanted = if wanted.is_empty() { String::new() } else { format!(" ({wanted})") };
                format!("it ended well and submitted no output{wanted}")
            }
            None => "it ended well and said nothing: neither a message nor an output".to_owned(),
        };
        if let Some(why) = &self.refused_output {
            text += &format!("; an `output` event could not be read: {why}");
        }
        if self.statistics.overlong > 0 {
            text += &format!("; lines longer than {MAX_LINE_BYTES} bytes were not read: {}", self.statistics.overlong);
        }
        if self.torn {
            text += "; its last line is an event that is cut off";
        }
        text
    }
}

fn failed(family: ErrorFamily, why: String, stop: Option<AgentStop>) -> (AgentOutcome, Option<AgentStop>) {
    (AgentOutcome::Failed { family, why }, stop)
}

/// What may come over and over while all is well.
const fn is_sign_of_life(event: &AgentEvent) -> bool {
    matches!(
        event,
        AgentEvent::Progress { .. } | AgentEvent::Usage(_) | AgentEvent::Tool { state: ToolState::Progress, .. }
    )
}

/// The beginning of a line.
fn excerpt(line: &str, chars: usize) -> String {
    line.trim().chars().take(chars).map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

impl Tail {
    fn of(text: &str) -> String {
        let mut tail = Self::default();
        tail.push(text);
        tail.take().unwrap_or_default()
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        // Twice the bound, so that not every line moves the whole text.
        if self.text.len() > 2 * MAX_MESSAGE_BYTES {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let mut from = self.text.len() - MAX_MESSAGE_BYTES;
        while !self.text.is_char_boundary(from) {
            from += 1;
        }
        self.text.drain(..from);
        self.is_cut = true;
    }

    /// The text without blanks around it; `None` when there is nothing else.
    fn take(&mut self) -> Option<String> {
        if self.text.len() > MAX_MESSAGE_BYTES {
            self.cut();
        }
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        let mark = if self.is_cut { "[...] " } else { "" };
        (!text.is_empty()).then(|| format!("{mark}{text}"))
    }
}

#[cfg(test)]
mod tests;
