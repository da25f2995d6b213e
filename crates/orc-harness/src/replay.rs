//! Runs a recorded run again: everything from outside comes from the record, the loop is the real one. Each question that it
//! asks must be the recorded one, each event that it tells must be the recorded one; the first that differs is named.
//!
//! [`tools`] beside that uses the tools again, in a place like the one that the run began in.

mod same;
pub mod tools;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use orc_domain::agent::AgentStop;
use orc_domain::ids::RunId;

use crate::brain::{Act, Brain, End, Event};
use crate::events::Stream;
use crate::record::{Entry, Line, Print};
use crate::talk::Question;

/// A run that went as it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replayed {
    /// Questions that it asked.
    pub questions: usize,
    /// The canonical stream.
    pub events: Vec<String>,
    /// Whether the record has its end; else it was killed, and went as far as is recorded.
    pub ended: bool,
}

/// Why a run did not go as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The record has no such run.
    #[error("the record has no run {run}")]
    NoRun {
        /// Which.
        run: RunId,
    },
    /// The conversation does not begin as one.
    #[error("the conversation cannot begin: {why}")]
    Beginning {
        /// Why.
        why: String,
    },
    /// A question differs.
    #[error("question {number} is not the recorded one (line {line} of the record): {what}")]
    Question {
        /// Which, from 1.
        number: usize,
        /// Where it is recorded.
        line: u64,
        /// How.
        what: String,
    },
    /// An event differs.
    #[error("event {number} is not the recorded one: {what}")]
    Event {
        /// Which, from 1.
        number: usize,
        /// What it is now.
        what: String,
    },
    /// It ended otherwise.
    #[error("it ends with {now}, and ended with {recorded}")]
    End {
        /// Why it ends now.
        now: String,
        /// Why it ended.
        recorded: String,
    },
}

/// What is compared while a run goes on.
#[derive(Default)]
struct Going {
    questions: VecDeque<Question>,
    asked: usize,
    /// Messages that the question before had.
    known: usize,
    stream: Stream,
    events: Vec<String>,
    /// With which event, from 1, a call was done.
    done: BTreeMap<String, usize>,
    end: Option<Option<AgentStop>>,
}

/// Runs `run` of a record again.
///
/// # Errors
/// [`ReplayError`]: the first difference.
pub fn replay(lines: &[Line], run: RunId) -> Result<Replayed, ReplayError> {
    let mut again = Again::begin(lines, run)?;
    for line in lines {
        if again.hear(line)?.is_break() {
            break;
        }
    }
    again.end()
}

/// A run on its way through its record.
struct Again {
    run: RunId,
    brain: Brain,
    going: Option<Going>,
    ended: bool,
}

impl Again {
    fn begin(lines: &[Line], run: RunId) -> Result<Self, ReplayError> {
        let no_beginning = |why: String| ReplayError::Beginning { why };
        let settings = lines.iter().find_map(|line| match &line.entry {
            Entry::Began { settings } => Some((**settings).clone()),
            _ => None,
        });
        let settings = settings.ok_or_else(|| no_beginning("nothing says what it works with".to_owned()))?;
        let brain = Brain::new(settings).map_err(|error| no_beginning(format!("{error}: {}", error.source)))?;
        Ok(Self { run, brain, going: None, ended: false })
    }

    /// Takes the next line in; what its hands are to do because of it. A break: of this run there is no more.
    fn hear(&mut self, line: &Line) -> Result<ControlFlow<(), Vec<Act>>, ReplayError> {
        let mut acts = Vec::new();
        match (&line.entry, &mut self.going) {
            (Entry::Run { run, .. }, None) if *run == self.run => {
                self.going = Some(Going { known: self.brain.messages().len(), ..Going::default() });
            }
            (Entry::Run { .. }, Some(_)) => return Ok(ControlFlow::Break(())),
            (Entry::Heard { heard }, None) => drop(self.brain.hear(heard.clone())),
            (Entry::Heard { heard }, Some(going)) => acts = going.take(self.brain.hear(heard.clone())),
            (Entry::Asked { question }, Some(going)) => going.compare(line.seq, question)?,
            (Entry::Ended { stop, events }, Some(going)) => {
                going.compare_end(stop.as_deref(), events)?;
                self.ended = true;
                return Ok(ControlFlow::Break(()));
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(acts))
    }

    fn end(self) -> Result<Replayed, ReplayError> {
        let going = self.going.ok_or(ReplayError::NoRun { run: self.run })?;
        Ok(Replayed { questions: going.asked, events: going.events, ended: self.ended })
    }
}

impl Going {
    /// Does what can be done here; the rest is for hands.
    fn take(&mut self, acts: Vec<Act>) -> Vec<Act> {
        let mut rest = Vec::new();
        for act in acts {
            match act {
                Act::Ask(question) => self.questions.push_back(*question),
                Act::Tell(event) => self.tell(&event),
                Act::End(End { stop }) => self.end = Some(stop),
                Act::HangUp => {}
                Act::Use { .. } | Act::Spawn { .. } | Act::Cancel { .. } => rest.push(act),
            }
        }
        rest
    }

    fn tell(&mut self, event: &Event) {
        let line = self.stream.push(event);
        self.events.push(line);
        if let Event::Done { call, .. } = event {
            self.done.insert(call.clone(), self.events.len());
        }
    }

    fn compare(&mut self, line: u64, recorded: &Print) -> Result<(), ReplayError> {
        self.asked += 1;
        let number = self.asked;
        let differs = |what: String| ReplayError::Question { number, line, what };
        let Some(question) = self.questions.pop_front() else {
            return Err(differs("the loop asks nothing here".to_owned()));
        };
        let now = Print::of(&question, self.known);
        match now.difference(recorded, self.known, &question.messages) {
            Some(what) => Err(differs(what)),
            None => {
                self.known = question.messages.len();
                Ok(())
            }
        }
    }

    fn compare_end(&self, stop: Option<&str>, events: &[String]) -> Result<(), ReplayError> {
        let digests = self.stream.digests();
        let at = digests.iter().zip(events).position(|(now, recorded)| now != recorded);
        let at = at.or_else(|| (digests.len() != events.len()).then(|| digests.len().min(events.len())));
        if let Some(at) = at {
            let what = self.events.get(at).cloned().unwrap_or_else(|| "the loop tells nothing more".to_owned());
            return Err(ReplayError::Event { number: at + 1, what });
        }
        let now = self.end.map(|stop| stop.map_or("a failure", AgentStop::word));
        let recorded = stop.unwrap_or("a failure");
        if now == Some(recorded) {
            return Ok(());
        }
        Err(ReplayError::End { now: now.unwrap_or("nothing").to_owned(), recorded: recorded.to_owned() })
    }
}
