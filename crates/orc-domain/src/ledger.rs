//! The ledger: what every call of a model used and cost. Entries are only ever added; every sum is derived from them.

use serde::{Deserialize, Serialize};

use crate::ids::{CallId, FlowId, InstanceId, RunId};
use crate::model::{Protocol, Tokens};
use crate::money::UsdMicros;
use crate::path::StepPath;
use crate::time::Timestamp;

/// Who a call is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The run; none for a program that nobody but its user started.
    pub run: Option<RunId>,
    /// Its flow.
    pub flow: Option<FlowId>,
    /// Its step.
    pub path: Option<StepPath>,
    /// The pipeline's name.
    pub pipeline: Option<String>,
    /// The agent's name, or what a program called itself by its token.
    pub agent: String,
    /// The ticket.
    pub ticket: Option<String>,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Set aside before the call left: the worst case.
    Reserved,
    /// Over: the provider's own figures.
    Settled,
    /// Over, and nobody told the figures: what was seen, at most the reservation.
    Estimated,
    /// Nobody saw its end because its instance died: the whole reservation.
    Lost,
}

impl EntryKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Reserved, Self::Settled, Self::Estimated, Self::Lost];

    /// The word in rows and documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Settled => "settled",
            Self::Estimated => "estimated",
            Self::Lost => "lost",
        }
    }
}

/// What is written down before a call leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The call.
    pub call: CallId,
    /// Who it is for.
    pub account: Account,
    /// The provider's name in the settings.
    pub provider: String,
    /// How it talks.
    pub protocol: Protocol,
    /// The model that was asked for.
    pub model: String,
    /// The prices that count, by the hash of their table; none: unpriced.
    pub prices: Option<String>,
    /// Money that was set aside.
    pub micros: UsdMicros,
    /// Tokens that were set aside, of all classes.
    pub tokens: u64,
    /// The instance that carries it out.
    pub instance: InstanceId,
    /// When.
    pub at: Timestamp,
}

/// What is written down when a call is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The call.
    pub call: CallId,
    /// [`EntryKind::Settled`] or [`EntryKind::Estimated`].
    pub kind: EntryKind,
    /// What it used.
    pub tokens: Tokens,
    /// What it cost; zero where it is unpriced.
    pub micros: UsdMicros,
    /// The provider's name for its answer, as it came; it repeats, or is missing.
    pub message: Option<String>,
    /// The status of the answer, and 0 when there was none.
    pub status: u16,
    /// When.
    pub at: Timestamp,
}

/// A sum over calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Calls that are over or lost.
    pub calls: u64,
    /// What they used. Lost ones count in `lost_tokens` instead: nobody knows their classes.
    pub tokens: Tokens,
    /// Tokens of reservations that were lost.
    pub lost_tokens: u64,
    /// What they cost, estimated and lost ones included.
    pub micros: UsdMicros,
    /// How much of it is estimated or lost.
    pub unsure: UsdMicros,
    /// Calls without a price.
    pub unpriced: u64,
    /// Money set aside for calls in flight.
    pub reserved: UsdMicros,
    /// Calls in flight.
    pub in_flight: u64,
}

impl Sum {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        const fn money(one: UsdMicros, other: UsdMicros) -> UsdMicros {
            UsdMicros::from_micros(one.as_micros().saturating_add(other.as_micros()))
        }
        Self {
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.plus(other.tokens),
            lost_tokens: self.lost_tokens.saturating_add(other.lost_tokens),
            micros: money(self.micros, other.micros),
            unsure: money(self.unsure, other.unsure),
            unpriced: self.unpriced.saturating_add(other.unpriced),
            reserved: money(self.reserved, other.reserved),
            in_flight: self.in_flight.saturating_add(other.in_flight),
        }
    }

    /// What counts below a wall, calls in flight not included.
    #[must_use]
    pub fn amount(&self) -> crate::meter::Amount {
        let micros = u64::try_from(self.micros.as_micros()).unwrap_or(0);
        crate::meter::Amount { micros, tokens: self.tokens.total().saturating_add(self.lost_tokens), calls: self.calls }
    }
}

/// By what costs are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostsBy {
    /// The agent.
    Agent,
    /// The model.
    Model,
    /// The pipeline.
    Pipeline,
    /// The ticket.
    Ticket,
    /// The day, in UTC.
    Day,
    /// The flow.
    Flow,
    /// The run.
    Run,
    /// The provider.
    Provider,
}

impl CostsBy {
    /// Every one.
    pub const ALL: [Self; 8] =
        [Self::Agent, Self::Model, Self::Pipeline, Self::Ticket, Self::Day, Self::Flow, Self::Run, Self::Provider];

    /// The word on the command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Model => "model",
            Self::Pipeline => "pipeline",
            Self::Ticket => "ticket",
            Self::Day => "day",
            Self::Flow => "flow",
            Self::Run => "run",
            Self::Provider => "provider",
        }
    }
}
