//! The meter: how much may still be used below every wall, decided before a call leaves and settled after it.
//!
//! Pure: it is told what a call could use at most, and answers how long its output may become, that it has to wait, or that
//! it is refused. Invariant: of every wall, what was spent and what is reserved never exceed the limit, as long as no call
//! uses more than was reserved for it; then spend never crosses a wall. What a provider bills beyond a reservation is
//! counted all the same.
//!
//! A call waits rather than being refused while calls in flight hold what it needs: what they were reserved for is a worst
//! case, most of which comes back. So spend comes within one small answer of a wall before anybody is turned away.
//!
//! It must never: forget what is in flight, or believe a figure that a program tells. Where to go next: `orc-gateway`,
//! which carries it out and writes every reservation down before the first byte of its call leaves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, Wall};
use crate::ids::{CallId, FlowId, RunId};
use crate::model::Tokens;
use crate::money::UsdMicros;
use crate::price::{self, Price};

/// Tokens that the bytes of a request may become beyond one for each byte: what a provider puts around it.
pub const OVERHEAD_TOKENS: u64 = 2_000;
/// An answer shorter than this is of no use to anybody: a call is not lowered below it.
pub const LEAST_OUTPUT: u64 = 4_096;
/// Output of a model whose bound nobody told; the largest that known programs ask for.
pub const MOST_OUTPUT: u64 = 128_000;

/// Whose wall it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// All that goes through a gateway that runs alone.
    Gateway,
    /// A flow.
    Flow(FlowId),
    /// A run: the budget of its step.
    Run(RunId),
}

/// How much may be used; what is not set is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Money.
    pub usd: Option<UsdMicros>,
    /// Tokens of all classes.
    pub tokens: Option<u64>,
    /// Calls.
    pub calls: Option<u64>,
}

impl Limits {
    /// What a budget says about models, each limit counted `times` times (1 until it was raised).
    #[must_use]
    pub fn of(budget: &Budget, times: u32) -> Self {
        let times = u64::from(times.max(1));
        let money = |usd: UsdMicros| {
            UsdMicros::from_micros(usd.as_micros().saturating_mul(i64::try_from(times).unwrap_or(i64::MAX)))
        };
        Self {
            usd: budget.usd.map(money),
            tokens: budget.tokens.map(|tokens| tokens.saturating_mul(times)),
            calls: budget.model_calls.map(|calls| calls.saturating_mul(times)),
        }
    }

    /// Whether nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// So much of everything that is limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Micro-dollars; never negative.
    pub micros: u64,
    /// Tokens of all classes.
    pub tokens: u64,
    /// Calls.
    pub calls: u64,
}

impl Amount {
    /// What one call used.
    #[must_use]
    pub fn of_call(tokens: Tokens, cost: UsdMicros) -> Self {
        Self { micros: u64::try_from(cost.as_micros()).unwrap_or(0), tokens: tokens.total(), calls: 1 }
    }

    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            micros: self.micros.saturating_add(other.micros),
            tokens: self.tokens.saturating_add(other.tokens),
            calls: self.calls.saturating_add(other.calls),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            micros: self.micros.saturating_sub(other.micros),
            tokens: self.tokens.saturating_sub(other.tokens),
            calls: self.calls.saturating_sub(other.calls),
        }
    }
}

/// What a call could use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Bytes of the request: no more tokens than these, and [`OVERHEAD_TOKENS`].
    pub bytes: u64,
    /// It names things that it does not hold (links, files, earlier answers, tools of the provider): its input is bounded
    /// by the model's window alone.
    pub refers: bool,
    /// Tokens of output that it asks for.
    pub output: Option<u64>,
    /// Tokens of output that it cannot do without, beyond [`LEAST_OUTPUT`]; 0 when it says nothing about it.
    pub least: u64,
    /// How many answers it asks for; 0 counts as 1.
    pub answers: u64,
    /// Uses of the provider's tools at most.
    pub server_tools: u64,
    /// What the model costs; none: its money cannot be counted.
    pub price: Option<Price>,
}

impl Ask {
    /// Tokens of input at most: no provider counts more. Without a window that is known, what a request refers to counts as [`UNKNOWN_WINDOW`].
    #[must_use]
    pub fn input(&self) -> u64 {
        let held = self.bytes.saturating_add(OVERHEAD_TOKENS);
        let window = self.price.and_then(|price| price.window).unwrap_or(UNKNOWN_WINDOW);
        if self.refers { held.max(window) } else { held }
    }

    fn most(&self) -> u64 {
        self.price.and_then(|price| price.most_output).unwrap_or(MOST_OUTPUT)
    }

    /// The shortest output that it may be lowered to: a short answer that was asked for stays possible.
    fn floor(&self) -> u64 {
        self.output.unwrap_or(u64::MAX).min(LEAST_OUTPUT).max(self.least)
    }

    fn extra(&self) -> u64 {
        self.server_tools.saturating_mul(self.price.map_or(0, |price| price.server_tool))
    }

    /// The most that it uses with so much output for each of its answers.
    fn worst(&self, output: u64) -> Amount {
        let (input, output) = (self.input(), output.saturating_mul(self.answers.max(1)));
        let cost =
            self.price.map_or(UsdMicros::default(), |price| price::worst_cost(price.worst(input), input, output));
        let micros = u64::try_from(cost.as_micros()).unwrap_or(0).saturating_add(self.extra());
        Amount { micros, tokens: input.saturating_add(output), calls: 1 }
    }

    /// The longest output of each answer that so much covers.
    fn covered(&self, left: Amount, limits: &Limits) -> u64 {
        let (input, answers) = (self.input(), self.answers.max(1));
        let mut output = u64::MAX;
        if limits.tokens.is_some() {
            output = output.min(left.tokens.saturating_sub(input) / answers);
        }
        if let (Some(_), Some(price)) = (limits.usd, self.price) {
            let micros = left.micros.saturating_sub(self.extra());
            let money = UsdMicros::from_micros(i64::try_from(micros).unwrap_or(i64::MAX));
            let covered = price::covered_output(price.worst(input), money, input);
            output = output.min(covered.map_or(u64::MAX, |tokens| tokens / answers));
        }
        output
    }
}

/// Input of a request that refers to what it does not hold, where nobody told the window of its model.
pub const UNKNOWN_WINDOW: u64 = 2_000_000;

/// What the meter says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may leave.
    Granted(Grant),
    /// Calls in flight hold what it needs below this wall: ask again when one of them is settled.
    Wait(Owner),
    /// It may not.
    Refused(Refusal),
}

/// A call that may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Tokens of output that the request must be limited to; `None`: it stays as it is.
    pub output: Option<u64>,
    /// What was set aside for it.
    pub reserved: Amount,
}

/// Why a call may not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A wall has not enough left.
    Wall {
        /// Whose.
        owner: Owner,
        /// Which.
        wall: Wall,
        /// By how much.
        short: Shortfall,
    },
    /// A wall counts money, and nobody knows what the model costs.
    Unpriced {
        /// Whose.
        owner: Owner,
    },
}

/// How far a wall is from covering a call; amounts in units of the wall: micro-dollars, tokens, calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The wall.
    pub limit: u64,
    /// What was spent below it.
    pub spent: u64,
    /// What calls in flight hold.
    pub held: u64,
    /// What the call needs to be set aside at least; 0: there was none, the wall is used up.
    pub needed: u64,
    /// Tokens of output in that: the fewest that the call can do with.
    pub output: u64,
}

impl Shortfall {
    /// How often the wall has to be raised by what it was at first before the call passes; the limit counts `times` times now.
    #[must_use]
    pub fn raises(&self, times: u32) -> u64 {
        let step = (self.limit / u64::from(times.max(1))).max(1);
        self.spent.saturating_add(self.needed).saturating_sub(self.limit).div_ceil(step).max(1)
    }

    /// In words, numbers with their units.
    #[must_use]
    pub fn told(&self, wall: Wall) -> String {
        let amount = |amount: u64| match wall {
            Wall::Usd => UsdMicros::from_micros(i64::try_from(amount).unwrap_or(i64::MAX)).to_string(),
            Wall::ModelCalls | Wall::ToolCalls | Wall::Tokens | Wall::Time => amount.to_string(),
        };
        let unit = match wall {
            Wall::Usd => "",
            Wall::Tokens => " tokens",
            Wall::ModelCalls => " calls of models",
            Wall::ToolCalls => " calls of tools",
            Wall::Time => " of its time",
        };
        let mut text = format!("{} of {}{unit} are used", amount(self.spent), amount(self.limit));
        if self.held > 0 {
            text.push_str(&format!(", {} are held by calls in flight", amount(self.held)));
        }
        match (wall, self.needed) {
            (_, 0) => {}
            (Wall::ModelCalls | Wall::ToolCalls | Wall::Time, needed) => {
                text.push_str(&format!(", and the next call needs {needed}"));
            }
            (Wall::Usd | Wall::Tokens, needed) => text.push_str(&format!(
                ", and the next call needs {} set aside: its input at most, and the {} tokens of output that it cannot do \
                 without",
                amount(needed),
                self.output
            )),
        }
        text
    }
}

/// What stands below one wall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Level {
    limits: Limits,
    spent: Amount,
    reserved: Amount,
}

impl Level {
    fn left(&self, used: Amount) -> Amount {
        let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        let usd = self.limits.usd.map(|usd| u64::try_from(usd.as_micros()).unwrap_or(0));
        Amount { micros: most(usd), tokens: most(self.limits.tokens), calls: most(self.limits.calls) }.minus(used)
    }

    /// The wall that a call meets which cannot even have `floor` tokens of output, when so much of it is used.
    fn met(&self, ask: &Ask, floor: u64, used: Amount) -> Option<Wall> {
        let (left, needs) = (self.left(used), ask.worst(floor));
        let walls = [
            (Wall::ModelCalls, self.limits.calls.is_some() && left.calls < needs.calls),
            (Wall::Tokens, self.limits.tokens.is_some() && left.tokens < needs.tokens),
            (Wall::Usd, self.limits.usd.is_some() && left.micros < needs.micros),
        ];
        walls.into_iter().find_map(|(wall, is_met)| is_met.then_some(wall))
    }

    fn refusal(&self, (owner, wall): (Owner, Wall), ask: &Ask, floor: u64) -> Refusal {
        let usd = self.limits.usd.map_or(0, |usd| u64::try_from(usd.as_micros()).unwrap_or(0));
        let limit = match wall {
            Wall::ModelCalls => self.limits.calls.unwrap_or(0),
            Wall::Tokens => self.limits.tokens.unwrap_or(0),
            Wall::Usd | Wall::Time | Wall::ToolCalls => usd,
        };
        let of = |amount: Amount| match wall {
            Wall::ModelCalls => amount.calls,
            Wall::Tokens => amount.tokens,
            Wall::Usd | Wall::Time | Wall::ToolCalls => amount.micros,
        };
        let (spent, held, needed) = (of(self.spent), of(self.reserved), of(ask.worst(floor)));
        let output = floor.saturating_mul(ask.answers.max(1));
        Refusal::Wall { owner, wall, short: Shortfall { limit, spent, held, needed, output } }
    }
}

/// A call in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    above: Vec<Owner>,
    grant: Grant,
}

/// All walls that are in use, and all calls in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    levels: BTreeMap<Owner, Level>,
    open: BTreeMap<CallId, Open>,
}

impl Meter {
    /// Whether something is known of a wall.
    #[must_use]
    pub fn knows(&self, owner: Owner) -> bool {
        self.levels.contains_key(&owner)
    }

    /// Begins to watch a wall below which `spent` was spent before, calls in flight not included. One that is known already
    /// gets the limits only.
    pub fn watch(&mut self, owner: Owner, limits: Limits, spent: Amount) {
        if let Some(level) = self.levels.get_mut(&owner) {
            level.limits = limits;
            return;
        }
        let below = self.open.values().filter(|open| open.above.contains(&owner));
        let reserved = below.fold(Amount::default(), |sum, open| sum.plus(open.grant.reserved));
        self.levels.insert(owner, Level { limits, spent, reserved });
    }

    /// Forgets a wall below which nothing happens any more. One with calls in flight is kept; true when it is gone.
    pub fn forget(&mut self, owner: Owner) -> bool {
        if self.open.values().any(|open| open.above.contains(&owner)) {
            return false;
        }
        self.levels.remove(&owner);
        true
    }

    /// What was spent below a wall, and what is set aside.
    #[must_use]
    pub fn used(&self, owner: Owner) -> (Amount, Amount) {
        self.levels.get(&owner).map_or_else(Default::default, |level| (level.spent, level.reserved))
    }

    fn levels<'a>(&'a self, above: &'a [Owner]) -> impl Iterator<Item = (Owner, &'a Level)> {
        above.iter().filter_map(|owner| self.levels.get(owner).map(|level| (*owner, level)))
    }

    /// Why a call may not leave, whatever comes back of what is set aside.
    #[must_use]
    pub fn refusal(&self, above: &[Owner], ask: &Ask) -> Option<Refusal> {
        let limits_money = self.levels(above).find(|(_, level)| level.limits.usd.is_some());
        if let (Some((owner, _)), None) = (limits_money, ask.price) {
            return Some(Refusal::Unpriced { owner });
        }
        let floor = ask.floor();
        self.levels(above).find_map(|(owner, level)| {
            let wall = level.met(ask, floor, level.spent)?;
            Some(level.refusal((owner, wall), ask, floor))
        })
    }

    /// Sets aside what a call could use at most, below all of `above` that are watched. Asking again for a call in flight
    /// gives what it was granted.
    pub fn reserve(&mut self, call: CallId, above: &[Owner], ask: &Ask) -> Verdict {
        if let Some(open) = self.open.get(&call) {
            return Verdict::Granted(open.grant);
        }
        if let Some(refusal) = self.refusal(above, ask) {
            return Verdict::Refused(refusal);
        }
        let floor = ask.floor();
        let full = |(_, level): &(Owner, &Level)| level.met(ask, floor, level.spent.plus(level.reserved)).is_some();
        if let Some((owner, _)) = self.levels(above).find(full) {
            return Verdict::Wait(owner);
        }
        let covered = self
            .levels(above)
            .map(|(_, level)| ask.covered(level.left(level.spent.plus(level.reserved)), &level.limits));
        let covered = covered.min().unwrap_or(u64::MAX);
        let wanted = ask.output.unwrap_or_else(|| ask.most());
        let output = (covered < wanted).then_some(covered);
        let reserved = ask.worst(output.unwrap_or(wanted));
        for owner in above {
            if let Some(level) = self.levels.get_mut(owner) {
                level.reserved = level.reserved.plus(reserved);
            }
        }
        let grant = Grant { output, reserved };
        self.open.insert(call, Open { above: above.to_vec(), grant });
        Verdict::Granted(grant)
    }

    /// A call is over and used so much. False when it was not in flight: then nothing changes.
    pub fn settle(&mut self, call: CallId, used: Amount) -> bool {
        let Some(open) = self.open.remove(&call) else { return false };
        for owner in open.above {
            if let Some(level) = self.levels.get_mut(&owner) {
                level.reserved = level.reserved.minus(open.grant.reserved);
                level.spent = level.spent.plus(used);
            }
        }
        true
    }

    /// Calls in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests;
