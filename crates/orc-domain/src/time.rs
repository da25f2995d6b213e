//! Points in time and spans of time, both in whole milliseconds.
//!
//! Wall time is for records; timeouts are measured by the runtime on a monotonic clock. Nothing here reads a clock.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// A length of time in milliseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(u64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Reads RFC 3339 with an offset: `2026-12-24T18:00:00Z`, `2026-12-24T18:00:00+01:00`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.trim().parse::<jiff::Timestamp>().ok().map(|time| Self(time.as_millisecond()))
    }

    /// Reads a date as HTTP writes it (RFC 9110, 5.6.7): `Thu, 24 Dec 2026 18:00:00 GMT`.
    #[must_use]
    pub fn parse_http(text: &str) -> Option<Self> {
        let parser = jiff::fmt::rfc2822::DateTimeParser::new();
        parser.parse_timestamp(text.trim()).ok().map(|time| Self(time.as_millisecond()))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Time since `earlier`, zero if `earlier` lies in the future (a clock may jump).
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        let span = self.0.saturating_sub(earlier.0);
        Millis(if span < 0 { 0 } else { span.unsigned_abs() })
    }
}

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// From milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// From whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Whole milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// As the standard library's type, for timers.
    #[must_use]
    pub const fn as_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }

    /// `self` times `factor`, at most the largest value.
    #[must_use]
    pub const fn saturating_mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// Reads what a user writes: a whole number with one of `ms s m h d`, or several such parts (`1h30m`).
    /// Returns `None` for anything else, a bare number included, because its unit would be a guess.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return None;
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let number: u64 = rest[..digits].parse().ok()?;
            rest = &rest[digits..];
            let unit_len = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let unit: u64 = match &rest[..unit_len] {
                "ms" => 1,
                "s" => 1000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return None,
            };
            rest = &rest[unit_len..];
            total = total.checked_add(number.checked_mul(unit)?)?;
        }
        Some(Self(total))
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;

    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add_unsigned(span.0))
    }
}

impl Sub<Millis> for Timestamp {
    type Output = Self;

    fn sub(self, span: Millis) -> Self {
        Self(self.0.saturating_sub_unsigned(span.0))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with milliseconds. Civil date from day count: Howard Hinnant, "chrono-Compatible Low-Level Date
    /// Algorithms", `civil_from_days`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.div_euclid(86_400_000);
        let ms = self.0.rem_euclid(86_400_000);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_index = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_index + 2) / 5 + 1;
        let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (hour, minute, second, milli) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

impl fmt::Display for Millis {
    /// The two largest units that matter: `850ms`, `12s`, `3m20s`, `2h5m`, `4d3h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        let (major, major_unit, minor, minor_unit) = match ms {
            0..1000 => return write!(f, "{ms}ms"),
            1000..60_000 => {
                return if ms.is_multiple_of(1000) || ms >= 10_000 {
                    write!(f, "{}s", ms / 1000)
                } else {
                    write!(f, "{}.{}s", ms / 1000, ms % 1000 / 100)
                };
            }
            60_000..3_600_000 => (ms / 60_000, "m", ms / 1000 % 60, "s"),
            3_600_000..86_400_000 => (ms / 3_600_000, "h", ms / 60_000 % 60, "m"),
            _ => (ms / 86_400_000, "d", ms / 3_600_000 % 24, "h"),
        };
        if minor == 0 { write!(f, "{major}{major_unit}") } else { write!(f, "{major}{major_unit}{minor}{minor_unit}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_unit_and_refused_without() {
        let cases: [(&str, Option<u64>); 11] = [
            ("250ms", Some(250)),
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            ("3d", Some(259_200_000)),
            ("30", None),
            ("", None),
            ("1.5h", None),
            ("-1s", None),
            ("1w", None),
            ("s", None),
            ("99999999999999999999d", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(Millis::parse(text), wanted.map(Millis::from_millis), "{text}");
        }
    }

    #[test]
    fn a_point_in_time_prints_as_rfc_3339() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(1_709_208_000_123).to_string(), "2024-02-29T12:00:00.123Z");
        assert_eq!(Timestamp::from_millis(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(4_102_444_800_000).to_string(), "2100-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_span_prints_its_two_largest_units() {
        let cases = [(850, "850ms"), (1500, "1.5s"), (12_300, "12s"), (200_000, "3m20s"), (7_500_000, "2h5m")];
        for (ms, wanted) in cases {
            assert_eq!(Millis::from_millis(ms).to_string(), wanted);
        }
    }

    #[test]
    fn a_clock_that_jumps_back_gives_no_negative_span() {
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Millis::ZERO);
    }
}
