//! The calls of one answer: which may run now, and what came of each.
//!
//! Those that only read run beside each other; one that changes something runs alone, after everything before it. A shell
//! command that fails keeps what stands behind it from being done. Results come in the order of the calls.

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

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    call: ToolCall,
    kind: Kind,
    state: State,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Waits,
    Runs,
    Done { text: String, failed: bool },
}

impl Calls {
    /// Takes a call in that waits for its turn.
    pub(super) fn add(&mut self, call: ToolCall, kind: Kind) {
        self.calls.push(Entry { call, kind, state: State::Waits });
    }

    /// Takes one in that has its result already.
    pub(super) fn add_done(&mut self, call: ToolCall, text: String, failed: bool) {
        self.calls.push(Entry { call, kind: Kind::Todo, state: State::Done { text, failed } });
    }

    /// The next call that may begin now; it runs from here on.
    pub(super) fn begin_next(&mut self) -> Option<(ToolCall, Kind)> {
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
        Some((self.calls[at].call.clone(), kind))
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
                State::Waits => entry.state = State::Done { text: STOPPED.to_owned(), failed: true },
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
                State::Waits | State::Runs => String::new(),
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
                State::Waits => (NOT_BEGUN.to_owned(), true),
            };
            Block::Result { call: entry.call.id, text, failed }
        });
        each.collect()
    }
}
