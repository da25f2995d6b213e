//! Money, as whole micro-dollars. Never a float, not even on the way in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Millionths of a US dollar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UsdMicros(i64);

impl UsdMicros {
    /// From millionths of a dollar.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Millionths of a dollar.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Reads the text a user writes: digits (with `_` between them), at most six decimals, no sign, no exponent.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        if decimals.len() > 6 || (text.contains('.') && decimals.is_empty()) {
            return None;
        }
        let whole = digits(whole)?;
        let fraction = if decimals.is_empty() { 0 } else { digits(decimals)? };
        let scale = 10_i64.checked_pow(u32::try_from(6 - decimals.len()).ok()?)?;
        whole.checked_mul(1_000_000)?.checked_add(fraction.checked_mul(scale)?).map(Self)
    }
}

fn digits(text: &str) -> Option<i64> {
    let well_formed = !text.starts_with('_') && !text.ends_with('_') && !text.contains("__");
    let only_digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if !well_formed || !only_digits || text.is_empty() {
        return None;
    }
    text.replace('_', "").parse().ok()
}

impl fmt::Display for UsdMicros {
    /// Dollars with at least two decimals: `$20.00`, `$0.0125`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let fraction = format!("{:06}", micros % 1_000_000);
        let kept = fraction.trim_end_matches('0');
        let width = kept.len().max(2);
        write!(f, "{sign}${}.{}", micros / 1_000_000, &fraction[..width])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_from_its_text() {
        let cases = [
            ("20.00", Some(20_000_000)),
            ("0.1", Some(100_000)),
            ("1_000", Some(1_000_000_000)),
            ("0.000001", Some(1)),
            ("0.0000001", None),
            ("-1", None),
            ("1e3", None),
            ("1.", None),
            ("", None),
            ("_1", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(UsdMicros::parse(text), wanted.map(UsdMicros::from_micros), "{text}");
        }
    }

    #[test]
    fn money_prints_what_is_there() {
        assert_eq!(UsdMicros::from_micros(20_000_000).to_string(), "$20.00");
        assert_eq!(UsdMicros::from_micros(12_500).to_string(), "$0.0125");
        assert_eq!(UsdMicros::from_micros(-1).to_string(), "-$0.000001");
    }
}
