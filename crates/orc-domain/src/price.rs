//! Prices of models: dated, by pattern, in whole micro-dollars per million tokens.
//!
//! A cost is computed once per call, in 128 bits, and rounded up once. `orc-spec` reads tables; nothing here knows one.

use serde::{Deserialize, Serialize};

use crate::ids::ContentHash;
use crate::model::Tokens;
use crate::money::UsdMicros;
use crate::time::Timestamp;

/// Prices are for so many tokens.
const PER: u128 = 1_000_000;

/// Micro-dollars per million tokens of each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// Input that came from no cache.
    pub input: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache that is kept for minutes.
    pub cache_write: u64,
    /// Input written to a cache that is kept for an hour or more.
    pub cache_write_long: u64,
    /// Output, reasoning included.
    pub output: u64,
}

impl Rates {
    /// The highest price that a token of input can have.
    #[must_use]
    pub fn dearest_input(&self) -> u64 {
        self.input.max(self.cache_read).max(self.cache_write).max(self.cache_write_long)
    }

    /// The higher one of each class.
    #[must_use]
    pub fn dearest(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write: self.cache_write.max(other.cache_write),
            cache_write_long: self.cache_write_long.max(other.cache_write_long),
            output: self.output.max(other.output),
        }
    }
}

/// What a model costs, and the bounds that its provider publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Prices.
    pub rates: Rates,
    /// Prices of the whole call once its input is larger than so many tokens.
    pub long: Option<(u64, Rates)>,
    /// Micro-dollars for one use of a tool that runs at the provider.
    pub server_tool: u64,
    /// Tokens of output at most.
    pub most_output: Option<u64>,
    /// Tokens of input at most.
    pub window: Option<u64>,
}

impl Price {
    /// What a call costs that used so much.
    #[must_use]
    pub fn cost(&self, tokens: Tokens) -> UsdMicros {
        let rates = match self.long {
            Some((above, rates)) if tokens.context() > above => rates,
            _ => self.rates,
        };
        let of = |count: u64, rate: u64| u128::from(count) * u128::from(rate);
        let classes = of(tokens.input, rates.input)
            + of(tokens.cache_read, rates.cache_read)
            + of(tokens.cache_write, rates.cache_write)
            + of(tokens.cache_write_long, rates.cache_write_long)
            + of(tokens.output, rates.output)
            + of(tokens.reasoning, rates.output);
        money(classes.div_ceil(PER) + of(tokens.server_tools, self.server_tool))
    }

    /// The prices at which a call is reserved whose input may have so many tokens.
    #[must_use]
    pub fn worst(&self, input: u64) -> Rates {
        match self.long {
            Some((above, rates)) if input > above => self.rates.dearest(rates),
            _ => self.rates,
        }
    }
}

/// The most that so much input and output can cost at these prices.
#[must_use]
pub fn worst_cost(rates: Rates, input: u64, output: u64) -> UsdMicros {
    let sum = u128::from(input) * u128::from(rates.dearest_input()) + u128::from(output) * u128::from(rates.output);
    money(sum.div_ceil(PER))
}

/// Tokens of output that so much money surely covers after so much input; `None`: as many as one likes.
#[must_use]
pub fn covered_output(rates: Rates, money: UsdMicros, input: u64) -> Option<u64> {
    let have = u128::try_from(money.as_micros()).unwrap_or(0) * PER;
    let left = have.checked_sub(u128::from(input) * u128::from(rates.dearest_input()));
    let Some(left) = left else { return Some(0) };
    left.checked_div(u128::from(rates.output)).map(|tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
}

fn money(micros: u128) -> UsdMicros {
    UsdMicros::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// A price and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priced {
    /// Names of models, with `*` for any characters.
    pub pattern: String,
    /// Since when.
    pub from: Timestamp,
    /// What it costs since then.
    pub price: Price,
}

/// All prices that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceTable {
    /// In any order; the more literal pattern counts, of equal ones the later date, of those the later row.
    pub rows: Vec<Priced>,
}

impl PriceTable {
    /// What a model costs at a time; `None`: nobody knows.
    #[must_use]
    pub fn find(&self, model: &str, at: Timestamp) -> Option<&Priced> {
        let literal = |row: &Priced| row.pattern.chars().filter(|c| *c != '*').count();
        let fits = |row: &&Priced| row.from <= at && matches(&row.pattern, model);
        self.rows.iter().filter(fits).max_by_key(|row| (literal(row), row.from))
    }

    /// The name of exactly these prices, for rows that were computed with them.
    ///
    /// # Errors
    /// Never: everything in it has a JSON form.
    pub fn content_hash(&self) -> Result<ContentHash, serde_json::Error> {
        Ok(ContentHash::of(&serde_json::to_vec(self)?))
    }
}

/// Whether a text fits a pattern, in which `*` stands for any characters and everything else for itself.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            let Some(at) = rest.find(middle) else { return false };
            rest = &rest[at + middle.len()..];
        }
    }
    last.map_or(rest.is_empty(), |end| rest.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(input: u64, output: u64) -> Rates {
        Rates { input, cache_read: input / 10, cache_write: input * 5 / 4, cache_write_long: input * 2, output }
    }

    #[test]
    fn patterns() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*bc", "abc", true),
            ("ab*bc", "abc", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("", "a", false),
            ("**", "a", true),
        ] {
            assert_eq!(matches(pattern, text), wanted, "{pattern} {text}");
        }
    }

    #[test]
    fn a_cost_is_rounded_up_once_and_long_contexts_have_their_own_prices() {
        let price = Price {
            rates: rates(3_000_000, 15_000_000),
            long: Some((10, rates(6_000_000, 22_500_000))),
            ..Price::default()
        };
        let cost = |tokens| price.cost(tokens).as_micros();
        assert_eq!(cost(Tokens { input: 1, ..Tokens::default() }), 3);
        // 0.3 + 3.75: not 1 + 4.
        assert_eq!(cost(Tokens { cache_read: 1, cache_write: 1, ..Tokens::default() }), 5);
        assert_eq!(cost(Tokens { cache_read: 4, cache_write: 6, output: 1, ..Tokens::default() }), 39);
        assert_eq!(cost(Tokens { cache_read: 5, cache_write: 6, output: 1, ..Tokens::default() }), 71);
        assert_eq!(cost(Tokens { reasoning: 2, ..Tokens::default() }), 30);
        assert_eq!(
            cost(Tokens { output: u64::MAX, ..Tokens::default() }),
            276_701_161_105_643_274_240_i128.min(i64::MAX.into()) as i64
        );
        let searches = Price { server_tool: 10_000, ..Price::default() };
        assert_eq!(searches.cost(Tokens { server_tools: 3, ..Tokens::default() }).as_micros(), 30_000);
    }

    #[test]
    fn what_money_covers_costs_no_more_than_it() {
        let rates = rates(3_000_000, 15_000_000);
        for (micros, input) in
            [(0, 0), (1, 0), (14, 0), (15, 0), (1_000_000, 2_000), (11_999, 2_000), (12_000, 2_000), (12_015, 2_000)]
        {
            let money = UsdMicros::from_micros(micros);
            let output = covered_output(rates, money, input).unwrap();
            assert!(output == 0 || worst_cost(rates, input, output) <= money, "{micros} {input}");
            assert!(worst_cost(rates, input, output + 1) > money, "{micros} {input}");
        }
        assert_eq!(covered_output(Rates::default(), UsdMicros::default(), 9), None);
    }

    #[test]
    fn the_more_literal_pattern_counts_then_the_later_date() {
        let row = |pattern: &str, from, input| Priced {
            pattern: pattern.to_owned(),
            from: Timestamp::from_millis(from),
            price: Price { rates: rates(input, 0), ..Price::default() },
        };
        let table = PriceTable { rows: vec![row("m-*", 5, 1), row("m-*", 9, 2), row("*", 9, 3), row("m-a*", 0, 4)] };
        let found = |model, at| table.find(model, Timestamp::from_millis(at)).map(|row| row.price.rates.input);
        assert_eq!(
            [found("m-b", 4), found("m-b", 5), found("m-b", 9), found("x", 9), found("m-a1", 9), found("x", 8)],
            [None, Some(1), Some(2), Some(3), Some(4), None]
        );
    }
}
