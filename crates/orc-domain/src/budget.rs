//! Walls: hard limits of time and of what agents use, and what is done at one.

use serde::{Deserialize, Serialize};

pub use crate::agent::Usage;
use crate::meter::Shortfall;
use crate::money::UsdMicros;
use crate::time::Millis;

/// `budget:` of a pipeline or a step. A limit that is not set is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Wall time since the flow or the attempt began.
    pub time: Option<Millis>,
    /// Calls of models.
    pub model_calls: Option<u64>,
    /// Calls of tools.
    pub tool_calls: Option<u64>,
    /// Tokens of all classes.
    pub tokens: Option<u64>,
    /// Money.
    pub usd: Option<UsdMicros>,
    /// What happens at a wall.
    pub on_exhausted: OnExhausted,
}

/// What happens at a wall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The flow ends: what runs is stopped, `finally` still runs.
    #[default]
    Fail,
    /// Nothing new starts; somebody may raise the wall for this long, then the flow ends.
    Wait(Millis),
}

/// Which wall was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    /// `time`
    Time,
    /// `model_calls`
    ModelCalls,
    /// `tool_calls`
    ToolCalls,
    /// `tokens`
    Tokens,
    /// `usd`
    Usd,
}

impl Wall {
    /// The key under which it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::ModelCalls => "model_calls",
            Self::ToolCalls => "tool_calls",
            Self::Tokens => "tokens",
            Self::Usd => "usd",
        }
    }
}

impl Budget {
    /// The first wall that `usage` has reached when each limit counts `times` times. Time is judged elsewhere.
    #[must_use]
    pub fn reached(&self, usage: &Usage, times: u32) -> Option<Wall> {
        let times = u64::from(times.max(1));
        let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used >= limit.saturating_mul(times));
        let money = self.usd.map(|usd| u64::try_from(usd.as_micros()).unwrap_or(0));
        let cost = u64::try_from(usage.cost.as_micros()).unwrap_or(0);
        [
            (Wall::ModelCalls, over(self.model_calls, usage.calls)),
            (Wall::ToolCalls, over(self.tool_calls, usage.tool_calls)),
            (Wall::Tokens, over(self.tokens, usage.tokens())),
            (Wall::Usd, over(money, cost)),
        ]
        .into_iter()
        .find_map(|(wall, is_over)| is_over.then_some(wall))
    }

    /// The figures at a wall that `usage` has reached; none for time, which is judged elsewhere.
    #[must_use]
    pub fn figures(&self, wall: Wall, usage: &Usage, times: u32) -> Option<Shortfall> {
        let micros = |usd: UsdMicros| u64::try_from(usd.as_micros()).unwrap_or(0);
        let (limit, spent) = match wall {
            Wall::Time => return None,
            Wall::ModelCalls => (self.model_calls, usage.calls),
            Wall::ToolCalls => (self.tool_calls, usage.tool_calls),
            Wall::Tokens => (self.tokens, usage.tokens()),
            Wall::Usd => (self.usd.map(micros), micros(usage.cost)),
        };
        let limit = limit?.saturating_mul(u64::from(times.max(1)));
        Some(Shortfall { limit, spent, ..Shortfall::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_is_reached_at_its_limit_and_moves_when_it_is_raised() {
        let budget = Budget { model_calls: Some(3), usd: UsdMicros::parse("0.5"), ..Budget::default() };
        let used = |calls, micros| Usage { calls, cost: UsdMicros::from_micros(micros), ..Usage::default() };
        assert_eq!(budget.reached(&used(2, 0), 1), None);
        assert_eq!(budget.reached(&used(3, 0), 1), Some(Wall::ModelCalls));
        assert_eq!(budget.reached(&used(0, 500_000), 1), Some(Wall::Usd));
        assert_eq!(budget.reached(&used(3, 500_000), 2), None);
        let figures = budget.figures(Wall::Usd, &used(0, 1_250_000), 2).map(|figures| figures.told(Wall::Usd));
        assert_eq!(figures.as_deref(), Some("$1.25 of $1.00 are used"));
        let short = |spent, needed| Shortfall { limit: 1_000_000, spent, needed, ..Shortfall::default() };
        let raises = [short(0, 1_005_828), short(0, 2_005_828), short(400_000, 900_000), short(1_250_000, 0)];
        assert_eq!(raises.map(|short| (short.raises(1), short.raises(2))), [(1, 1), (2, 3), (1, 1), (1, 1)]);
        assert_eq!(budget.figures(Wall::Time, &used(0, 0), 1), None);
        assert_eq!(Budget::default().reached(&used(u64::MAX, i64::MAX), 1), None);
    }
}
