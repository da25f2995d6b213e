//! What was answered about calls in the whole tree of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orc_domain::ids::ContentHash;
use orc_domain::permission::{CallAnswer, Scope};

/// How often the same is asked about when nobody answers.
pub(super) const MOST_UNANSWERED: u32 = 3;

/// Answers that hold for longer than one call; all agents of a tree share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
struct Said {
    granted: BTreeSet<ContentHash>,
    refused: BTreeSet<ContentHash>,
    unanswered: BTreeMap<ContentHash, u32>,
}

/// What is known about a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Somebody said yes for longer.
    Granted,
    /// Somebody said no.
    Refused,
    /// It was asked about often enough, and nobody was there.
    Unanswered,
    /// It was not asked about, or may be asked about again.
    Nothing,
}

impl Answers {
    /// Takes an answer in. The no of somebody beats every yes.
    pub(crate) fn hear(&self, answer: &CallAnswer) {
        let (mut said, subject) = (self.said(), answer.call.subject.clone());
        match (answer.granted, answer.scope) {
            (true, Scope::Call) => {}
            (true, Scope::Run | Scope::Forever) => drop(said.granted.insert(subject)),
            (false, Scope::Call) => *said.unanswered.entry(subject).or_default() += 1,
            (false, Scope::Run | Scope::Forever) => drop(said.refused.insert(subject)),
        }
    }

    pub(super) fn to(&self, subject: &ContentHash) -> Known {
        let said = self.said();
        if said.refused.contains(subject) {
            Known::Refused
        } else if said.granted.contains(subject) {
            Known::Granted
        } else if said.unanswered.get(subject).is_some_and(|times| *times >= MOST_UNANSWERED) {
            Known::Unanswered
        } else {
            Known::Nothing
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        // A panic elsewhere leaves it as it was: nothing in it is ever half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
