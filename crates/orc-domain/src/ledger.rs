//! The ledger: what every call of a model used and cost. Entries are only ever added; every sum is derived from them.
//!
//! A call counts on the day on which it was reserved, whenever it ends. Where to go next: `orc_ports::ledger`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{CallId, FlowId, InstanceId, RunId};
use crate::meter::Owner;
use crate::model::{Protocol, Tokens};
use crate::money::UsdMicros;
use crate::path::StepPath;
use crate::time::Timestamp;

/// No call costs a million dollars or has a trillion tokens of a class: what is said beyond is a mistake of whoever said it,
/// and counts as this much. So sums of millions of calls have room in 63 bits.
pub const MOST: u64 = 1_000_000_000_000;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// A day in UTC, as days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

impl Day {
    /// The day in which a point in time lies.
    #[must_use]
    pub const fn of(at: Timestamp) -> Self {
        Self(at.as_millis().div_euclid(DAY))
    }

    /// From days since 1970-01-01.
    #[must_use]
    pub const fn from_number(days: i64) -> Self {
        Self(days)
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Its first moment.
    #[must_use]
    pub const fn begins(self) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_mul(DAY))
    }

    /// Reads what is printed: `2026-12-01`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let day = Timestamp::parse(&format!("{text}T00:00:00Z")).map(Self::of)?;
        (day.to_string() == text).then_some(day)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begins = self.begins().to_string();
        f.write_str(begins.split('T').next().unwrap_or_default())
    }
}

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

    /// The kind that has this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

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
    /// Whose walls are above it, as the meter was told: it counts below each of them, as below its own run and flow.
    pub above: Vec<Owner>,
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

impl Reservation {
    /// The same with no figure beyond [`MOST`].
    #[must_use]
    pub fn bounded(self) -> Self {
        Self { micros: bounded(self.micros), tokens: self.tokens.min(MOST), ..self }
    }

    /// Everybody below whose walls it counts, each once: the gateway itself when it belongs to no run.
    #[must_use]
    pub fn owners(&self) -> Vec<Owner> {
        let own = self.account.run.map_or(Owner::Gateway, Owner::Run);
        let flow = self.account.flow.map(Owner::Flow);
        let mut owners: Vec<Owner> = std::iter::once(own).chain(flow).chain(self.above.iter().copied()).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }
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

impl Settlement {
    /// The same with no figure beyond [`MOST`].
    #[must_use]
    pub fn bounded(self) -> Self {
        let Tokens { input, cache_read, cache_write, cache_write_long, output, reasoning, server_tools } = self.tokens;
        let tokens = Tokens {
            input: input.min(MOST),
            cache_read: cache_read.min(MOST),
            cache_write: cache_write.min(MOST),
            cache_write_long: cache_write_long.min(MOST),
            output: output.min(MOST),
            reasoning: reasoning.min(MOST),
            server_tools: server_tools.min(MOST),
        };
        Self { micros: bounded(self.micros), tokens, ..self }
    }
}

/// Between nothing and [`MOST`].
fn bounded(micros: UsdMicros) -> UsdMicros {
    UsdMicros::from_micros(micros.as_micros().clamp(0, MOST.cast_signed()))
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
    /// Calls of those that have no price.
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_day_is_read_as_it_is_printed() {
        for (millis, text) in
            [(0, "1970-01-01"), (86_399_999, "1970-01-01"), (-1, "1969-12-31"), (1_709_208_000_123, "2024-02-29")]
        {
            let day = Day::of(Timestamp::from_millis(millis));
            assert_eq!((day.to_string().as_str(), Day::parse(text)), (text, Some(day)));
        }
        for text in ["", "2024-02-30", "2024-2-1", "2024-02-01T00:00:00Z", "today"] {
            assert_eq!(Day::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_call_counts_once_below_each_of_its_owners() {
        let (run, flow) = (RunId::from_uuid(Uuid::from_u128(1)), FlowId::from_uuid(Uuid::from_u128(2)));
        let above = FlowId::from_uuid(Uuid::from_u128(3));
        let account = Account {
            run: Some(run),
            flow: Some(flow),
            path: None,
            pipeline: None,
            agent: "a".to_owned(),
            ticket: None,
        };
        let mut reservation = Reservation {
            call: CallId::from_uuid(Uuid::from_u128(4)),
            account,
            above: vec![Owner::Run(run), Owner::Flow(above), Owner::Flow(above)],
            provider: "p".to_owned(),
            protocol: Protocol::AnthropicMessages,
            model: "m".to_owned(),
            prices: None,
            micros: UsdMicros::from_micros(-1),
            tokens: u64::MAX,
            instance: InstanceId::from_uuid(Uuid::from_u128(5)),
            at: Timestamp::from_millis(0),
        };
        assert_eq!(reservation.owners(), [Owner::Flow(flow), Owner::Flow(above), Owner::Run(run)]);
        (reservation.account.run, reservation.account.flow, reservation.above) = (None, None, Vec::new());
        assert_eq!(reservation.owners(), [Owner::Gateway]);
        let bounded = reservation.bounded();
        assert_eq!((bounded.micros.as_micros(), bounded.tokens), (0, MOST));
    }
}
