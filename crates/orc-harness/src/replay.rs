//! Runs a recorded run again: everything from outside comes from the record, the loop is the real one. Each question that it
//! asks must be the recorded one, each event that it tells must be the recorded one; the first that differs is named.

use std::collections::VecDeque;

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
    end: Option<Option<AgentStop>>,
}

/// Runs `run` of a record again.
///
/// # Errors
/// [`ReplayError`]: the first difference.
pub fn replay(lines: &[Line], run: RunId) -> Result<Replayed, ReplayError> {
    let no_beginning = |why: String| ReplayError::Beginning { why };
    let settings = lines.iter().find_map(|line| match &line.entry {
        Entry::Began { settings } => Some((**settings).clone()),
        _ => None,
    });
    let settings = settings.ok_or_else(|| no_beginning("nothing says what it works with".to_owned()))?;
    let mut brain = Brain::new(settings).map_err(|error| no_beginning(format!("{error}: {}", error.source)))?;
    let mut going: Option<Going> = None;
    for line in lines {
        match (&line.entry, &mut going) {
            (Entry::Run { run: next }, None) if *next == run => {
                going = Some(Going { known: brain.messages().len(), ..Going::default() });
            }
            (Entry::Run { .. }, Some(_)) => break,
            (Entry::Heard { heard }, None) => drop(brain.hear(heard.clone())),
            (Entry::Heard { heard }, Some(going)) => going.take(brain.hear(heard.clone())),
            (Entry::Asked { question }, Some(going)) => going.compare(line.seq, question)?,
            (Entry::Ended { stop, events }, Some(going)) => {
                going.compare_end(stop.as_deref(), events)?;
                return Ok(Replayed { questions: going.asked, events: std::mem::take(&mut going.events), ended: true });
            }
            _ => {}
        }
    }
    let going = going.ok_or(ReplayError::NoRun { run })?;
    Ok(Replayed { questions: going.asked, events: going.events, ended: false })
}

impl Going {
    fn take(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Ask(question) => self.questions.push_back(*question),
                Act::Tell(event) => self.tell(&event),
                Act::End(End { stop }) => self.end = Some(stop),
                Act::HangUp | Act::Use { .. } | Act::Spawn { .. } | Act::Cancel { .. } => {}
            }
        }
    }

    fn tell(&mut self, event: &Event) {
        let line = self.stream.push(event);
        self.events.push(line);
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
