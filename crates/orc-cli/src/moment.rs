//! Points in time as people write them: how long ago, or a date with or without its time of day.

use orc_domain::time::{Millis, Timestamp};

use crate::exit::Exit;
use crate::failure::{CommandResult, Failure};

/// `10m` is ten minutes before `now`; `2026-03-01`, `2026-03-01T12:30Z` and `2026-03-01T12:30:05+01:00` are themselves. A
/// time without a zone is UTC, as every time that is printed.
pub(crate) fn parse(option: &str, text: &str, now: Timestamp) -> CommandResult<Timestamp> {
    let parsed = Millis::parse(text).map(|ago| now - ago).or_else(|| absolute(text));
    parsed.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("`{option} {text}` is no time"))
            .hint("write how long ago (`10m`, `2h30m`), or a time such as `2026-03-01T12:30:00Z`")
    })
}

/// RFC 3339, section 5.6, where seconds, the time of day and the zone may be left out.
fn absolute(text: &str) -> Option<Timestamp> {
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00"),
    };
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4)?;
    let (month, day) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || !(1..=length).contains(&day) {
        return None;
    }
    let (clock, offset) = zone(time)?;
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = whole.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| number(second, 2))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let digits: String = fraction.chars().chain("00".chars()).take(3).collect();
    let millis = number(&digits, 3).filter(|_| fraction.bytes().all(|byte| byte.is_ascii_digit()))?;
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute - offset) * 60 + second;
    Some(Timestamp::from_millis(seconds * 1000 + millis))
}

/// A time of day without its zone, and the zone in minutes east of UTC.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(clock) = time.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (hours, minutes) = time[at + 1..].split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let east = hours * 60 + minutes;
    (hours < 24 && minutes < 60).then_some((&time[..at], if time[at..].starts_with('-') { -east } else { east }))
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Days since 1970-01-01. Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil`.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_printed() {
        for millis in [0, 1_709_208_000_123, 4_102_444_800_000, 951_782_400_000] {
            let at = Timestamp::from_millis(millis);
            assert_eq!(absolute(&at.to_string()), Some(at));
        }
    }

    #[test]
    fn times_are_read_in_the_forms_that_people_write() {
        let now = Timestamp::from_millis(10_000_000);
        let cases = [
            ("10s", 9_990_000),
            ("1970-01-02", 86_400_000),
            ("1970-01-01T01:30", 5_400_000),
            ("1970-01-01 01:30:05.5+01:00", 1_805_500),
            ("1970-01-01t00:00:00-00:30", 1_800_000),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse("--since", text, now).unwrap(), Timestamp::from_millis(wanted), "{text}");
        }
        for text in
            ["", "10", "yesterday", "1970-13-01", "1970-02-29", "1970-01-01T24:00", "1970-01-01T1:00", "1970-1-1"]
        {
            let failure = parse("--since", text, now).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{text}");
        }
    }
}
