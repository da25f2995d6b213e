//! A request: whatever waits for a person or an automatic answer. One row, one state machine, one inbox.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::action::{OnTimeout, Tier};
use crate::budget::Wall;
use crate::flow::StepNo;
use crate::ids::{ContentHash, FlowId, RequestId, RunId};
use crate::path::StepPath;
use crate::permission::{AskedCall, Lasting, Scope};
use crate::principal::Principal;
use crate::time::{Millis, Timestamp};

/// Something that waits for an answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Its id; `approvals approve ID` takes it.
    pub id: RequestId,
    /// The flow that waits.
    pub flow: FlowId,
    /// The step that waits; none: the flow as a whole.
    pub step: Option<(StepNo, StepPath)>,
    /// What kind of answer is wanted.
    pub kind: RequestKind,
    /// What is asked, for people.
    pub message: String,
    /// Hash of exactly what is asked: an answer to something else does not count.
    pub subject: ContentHash,
    /// On whose behalf it is asked; with `four_eyes` this principal may not answer.
    pub asked_by: Principal,
    /// Whether that matters.
    pub four_eyes: bool,
    /// Names and groups of the settings that may answer; empty: the role admin.
    pub by: Vec<String>,
    /// Who else may after a while.
    pub tiers: Vec<Tier>,
    /// People are reminded each time this has passed.
    pub remind: Option<Millis>,
    /// What its deadline means.
    pub on_timeout: OnTimeout,
    /// Where it stands.
    pub state: RequestState,
}

/// What a request asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// An approval step.
    Approval,
    /// A question of an agent: yes lets it go on, with what was said.
    Question {
        /// The run that ended with it.
        run: RunId,
    },
    /// Whether a call of an agent may run: its run ended with it, and goes on with the answer, whatever that is.
    Permission {
        /// The run that ended with it.
        run: RunId,
        /// The call.
        call: AskedCall,
    },
    /// A wall was reached: yes raises it by what it was.
    Wall(Wall),
}

impl RequestKind {
    /// The word in rows and status.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question { .. } => "question",
            Self::Permission { .. } => "permission",
            Self::Wall(_) => "wall",
        }
    }
}

/// Where a request stands; resolved once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// Waits, until its deadline.
    Open {
        /// Since when.
        since: Timestamp,
        /// Its alarm.
        deadline: Timestamp,
        /// When people are told again: a reminder, or the next tier.
        tell_at: Option<Timestamp>,
        /// Tiers that may answer by now.
        tier: u32,
    },
    /// Answered, or no longer wanted.
    Resolved {
        /// When.
        at: Timestamp,
        /// By whom; `system` at the deadline.
        by: Principal,
        /// How.
        answer: Answer,
        /// For how long.
        #[serde(default)]
        scope: Scope,
        /// In the words of whoever answered; may be empty.
        reason: String,
    },
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Go on.
    Approved,
    /// Do not.
    Denied,
    /// Nobody wants to know any more: what asked is over.
    Withdrawn,
}

impl Answer {
    /// The word in rows and documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// What somebody is, as far as a request asks: established where the answer comes in, from the settings of that moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Standing {
    /// Names of `people:` and `groups:` that they answer to.
    pub names: BTreeSet<String>,
    /// Whether they have the role admin.
    pub admin: bool,
}

/// Why an answer does not count.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AnswerError {
    /// It has an answer already.
    #[error("{by} has {} it already", answer.word())]
    Resolved {
        /// Who gave it.
        by: Principal,
        /// Which.
        answer: Answer,
    },
    /// They may not answer.
    #[error("{by} may not answer: {}", wanted(may))]
    Stranger {
        /// Who tried.
        by: Principal,
        /// Who may.
        may: Vec<String>,
    },
    /// They asked for it themselves.
    #[error("{by} asked for it, and `four_eyes` wants somebody else to answer")]
    OwnRequest {
        /// Who tried.
        by: Principal,
    },
    /// What is asked has changed since they saw it.
    #[error("what is asked is not what you saw any more: look at it again")]
    OtherSubject,
    /// It cannot hold for so long.
    #[error("an answer to this cannot hold for longer: {}", short(*scope, lasting.as_ref()))]
    Scope {
        /// For how long it was to hold.
        scope: Scope,
        /// For how long it may; none: it is about no call.
        lasting: Option<Lasting>,
    },
}

const fn short(scope: Scope, lasting: Option<&Lasting>) -> &'static str {
    match (lasting, scope) {
        (None, _) => "it is about no call of an agent",
        (Some(Lasting::Once), _) => "a rule asks about each such call",
        (Some(Lasting::Run | Lasting::Rule { .. }), _) => {
            "no rule could say exactly this; it can hold for the run (`--scope run`)"
        }
    }
}

fn wanted(may: &[String]) -> String {
    if may.is_empty() { "it needs the role admin".to_owned() } else { format!("it is for {}", may.join(", ")) }
}

impl Request {
    /// Names and groups that may answer by now.
    #[must_use]
    pub fn may_answer(&self) -> Vec<String> {
        let tier = match self.state {
            RequestState::Open { tier, .. } => tier as usize,
            RequestState::Resolved { .. } => 0,
        };
        let tiers = self.tiers.iter().take(tier).flat_map(|tier| &tier.by);
        self.by.iter().chain(tiers).cloned().collect()
    }

    /// Whether `by` may answer it now. The role admin alone counts where nobody is named: who is named decides. Tiers only
    /// add to those who may.
    ///
    /// # Errors
    /// [`AnswerError`] says why not.
    pub fn check_answer(
        &self,
        by: &Principal,
        standing: &Standing,
        (subject, scope): (Option<&ContentHash>, Scope),
    ) -> Result<(), AnswerError> {
        if let RequestState::Resolved { by, answer, .. } = &self.state {
            return Err(AnswerError::Resolved { by: by.clone(), answer: *answer });
        }
        if subject.is_some_and(|subject| *subject != self.subject) {
            return Err(AnswerError::OtherSubject);
        }
        if self.four_eyes && *by == self.asked_by {
            return Err(AnswerError::OwnRequest { by: by.clone() });
        }
        let lasting = match &self.kind {
            RequestKind::Permission { call, .. } => Some(&call.lasting),
            RequestKind::Approval | RequestKind::Question { .. } | RequestKind::Wall(_) => None,
        };
        if !lasting.map_or(scope == Scope::Call, |lasting| lasting.covers(scope)) {
            return Err(AnswerError::Scope { scope, lasting: lasting.cloned() });
        }
        let may = self.may_answer();
        let named = may.iter().any(|name| standing.names.contains(name));
        if named || (self.by.is_empty() && standing.admin) {
            Ok(())
        } else {
            Err(AnswerError::Stranger { by: by.clone(), may })
        }
    }
}
