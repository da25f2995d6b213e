//! The calls of one answer: which may run now, and what came of each.
//!
//! Those that only read run beside each other; one that changes something runs alone, after everything before it. A shell
//! command that fails keeps what stands behind it from being done. Results come in the order of the calls.

use orc_domain::permission::{AskedCall, CallAnswer};

use super::Act;
use super::settings::Kind;
use crate::talk::{Block, ToolCall};

/// What a call that began, and of whose end nothing is known, is answered with.
const INTERRUPTED: &str = "Interrupted: the orchestrator ended while this ran. It may have been done, or half of it, or not at all. \
     Look at what is there before you do it again.";
/// The same of one that did not begin.
const NOT_BEGUN: &str = "Not done: the orchestrator ended before this began.";
/// What a call that did not begin is answered with when the run is to end.
const STOPPED: &str = "Not done: the run was asked to end before this began.";

/// Calls in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Calls {
    calls: Vec<Entry>,
}

/// What a call is answered with of which nobody said whether it may run.
const UNANSWERED: &str = "Not done: nobody said whether this may run.";

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    call: ToolCall,
    kind: Kind,
    state: State,
    /// What was answered about it.
    answer: Option<CallAnswer>,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Waits,
    Runs,
    /// Somebody is asked whether it may run; `below`: an agent that it started asks.
    Asks {
        asked: AskedCall,
        below: bool,
    },
    Done {
        text: String,
        failed: bool,
    },
}

impl Calls {
    /// Takes a call in that waits for its turn.
    pub(super) fn add(&mut self, call: ToolCall, kind: Kind) {
        self.calls.push(Entry { call, kind, state: State::Waits, answer: None });
    }

    /// Takes one in that has its result already.
    pub(super) fn add_done(&mut self, call: ToolCall, text: String, failed: bool) {
        self.calls.push(Entry { call, kind: Kind::Todo, state: State::Done { text, failed }, answer: None });
    }

    /// The next call that may begin now; it runs from here on.
    pub(super) fn begin_next(&mut self) -> Option<(ToolCall, Kind, Option<CallAnswer>)> {
        // What stands behind a call that is asked about may rest on it.
        if self.asked().is_some() {
            return None;
        }
        let runs = |entry: &Entry| entry.state == State::Runs;
        let at = self.calls.iter().position(|entry| entry.state == State::Waits)?;
        let kind = self.calls[at].kind;
        let free = if kind.is_shared() {
            self.calls.iter().filter(|entry| runs(entry)).all(|entry| entry.kind.is_shared())
        } else {
            !self.calls.iter().any(runs)
        };
        if !free {
            return None;
        }
        self.calls[at].state = State::Runs;
        Some((self.calls[at].call.clone(), kind, self.calls[at].answer.clone()))
    }

    /// Somebody has to say whether a call may run: nothing of it was done. One is asked about at a time; another waits for
    /// its turn again.
    pub(super) fn ask(&mut self, id: &str, asked: AskedCall, below: bool) -> bool {
        let is_first = self.asked().is_none();
        let Some(entry) = self.calls.iter_mut().find(|entry| entry.call.id == id && entry.state == State::Runs) else {
            return false;
        };
        entry.state = if is_first { State::Asks { asked, below } } else { State::Waits };
        entry.answer = None;
        is_first
    }

    /// The call that somebody is asked about.
    pub(super) fn asked(&self) -> Option<&AskedCall> {
        self.calls.iter().find_map(|entry| match &entry.state {
            State::Asks { asked, .. } => Some(asked),
            _ => None,
        })
    }

    /// Whether nothing can be done before somebody answers.
    pub(super) fn is_asking(&self) -> bool {
        self.asked().is_some() && !self.calls.iter().any(|entry| entry.state == State::Runs)
    }

    /// Takes an answer: the call waits for its turn with it, or has its result and is given back. `None` when it answers
    /// something else.
    pub(super) fn answer(&mut self, answer: &CallAnswer, text: &str) -> Option<Option<ToolCall>> {
        let is_meant = |entry: &&mut Entry| matches!(&entry.state, State::Asks { asked, .. } if *asked == answer.call);
        let entry = self.calls.iter_mut().find(is_meant)?;
        if answer.granted || matches!(entry.state, State::Asks { below: true, .. }) {
            entry.state = State::Waits;
            entry.answer = Some(answer.clone());
            return Some(None);
        }
        entry.state = State::Done { text: text.to_owned(), failed: true };
        Some(Some(entry.call.clone()))
    }

    /// Takes a result; the tool's name, and the calls that are not done because of it. `None` for one that does not run.
    pub(super) fn finish(&mut self, id: &str, text: String, failed: bool) -> Option<(String, Vec<(ToolCall, String)>)> {
        let at = self.calls.iter().position(|entry| entry.call.id == id && entry.state == State::Runs)?;
        let (name, kind) = (self.calls[at].call.name.clone(), self.calls[at].kind);
        self.calls[at].state = State::Done { text, failed };
        let mut left_out = Vec::new();
        if failed && kind == Kind::Shell {
            let why = format!("Not done: `{name}` before it in the same answer failed.");
            for entry in self.calls[at..].iter_mut().filter(|entry| entry.state == State::Waits) {
                entry.state = State::Done { text: why.clone(), failed: true };
                left_out.push((entry.call.clone(), why.clone()));
            }
        }
        Some((name, left_out))
    }

    /// Ends what runs and leaves out what waits.
    pub(super) fn cancel_all(&mut self, acts: &mut Vec<Act>) {
        for entry in &mut self.calls {
            match entry.state {
                State::Waits | State::Asks { .. } => {
                    entry.state = State::Done { text: STOPPED.to_owned(), failed: true }
                }
                State::Runs => acts.push(Act::Cancel { call: entry.call.id.clone() }),
                State::Done { .. } => {}
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether anything of it began, so that it is part of what happened.
    pub(super) fn any_begun(&self) -> bool {
        self.calls.iter().any(|entry| entry.state != State::Waits)
    }

    /// Whether each has its result.
    pub(super) fn all_done(&self) -> bool {
        self.calls.iter().all(|entry| matches!(entry.state, State::Done { .. }))
    }

    /// What was called and what came of it, for whoever looks for repetitions.
    pub(super) fn trace(&self) -> Vec<(String, String)> {
        let each = self.calls.iter().map(|entry| {
            let call = format!("{} {}", entry.call.name, super::json_of(&entry.call.input));
            let text = match &entry.state {
                State::Done { text, .. } => text.clone(),
                State::Waits | State::Runs | State::Asks { .. } => String::new(),
            };
            (call, text)
        });
        each.collect()
    }

    /// The results, in order. Those that an earlier run left open say so.
    pub(super) fn into_results(self) -> Vec<Block> {
        let each = self.calls.into_iter().map(|entry| {
            let (text, failed) = match entry.state {
                State::Done { text, failed } => (text, failed),
                State::Runs => (INTERRUPTED.to_owned(), true),
                State::Asks { .. } => (UNANSWERED.to_owned(), true),
                State::Waits => (NOT_BEGUN.to_owned(), true),
            };
            Block::Result { call: entry.call.id, text, failed }
        });
        each.collect()
    }
}
