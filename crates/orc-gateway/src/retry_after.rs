//! When a provider says that it may be asked again. Pure.
//!
//! Sources: RFC 9110 section 10.2.3 (`retry-after`: seconds, or a date), the SDKs of Anthropic and OpenAI (`retry-after-ms`),
//! Anthropic's `anthropic-ratelimit-*-reset` (RFC 3339; the `unified` one in seconds since 1970) and OpenAI's
//! `x-ratelimit-reset-*` (`6m0s`, `20ms`). A reset counts where nothing of it remains.

use orc_domain::time::{Millis, Timestamp};

/// Limits of the two providers that tell what remains and when it is reset.
const LIMITS: [(&str, &str); 6] = [
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
];

/// The time that an answer names, read at `now`; none, or one that has passed: it names none.
pub(crate) fn parse(headers: &[(String, String)], now: Timestamp) -> Option<Timestamp> {
    let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.trim());
    let millis = header("retry-after-ms").and_then(|text| decimal(text, 1)).map(|span| now + span);
    let after = || {
        let text = header("retry-after")?;
        decimal(text, 1_000).map(|span| now + span).or_else(|| Timestamp::parse_http(text))
    };
    let unified = || {
        (header("anthropic-ratelimit-unified-status")? == "rejected").then_some(())?;
        let seconds: i64 = header("anthropic-ratelimit-unified-reset")?.parse().ok()?;
        Some(Timestamp::from_millis(seconds.saturating_mul(1_000)))
    };
    let resets = || {
        let used_up = LIMITS.iter().filter(|(remaining, _)| header(remaining) == Some("0"));
        used_up.filter_map(|(_, reset)| moment(header(reset)?, now)).max()
    };
    millis.or_else(after).or_else(unified).or_else(resets).filter(|at| *at > now)
}

/// A time, or a span from now on.
fn moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    Timestamp::parse(text).or_else(|| span(text).map(|span| now + span))
}

/// `1h2m3.5s`, `20ms`; a bare number is seconds.
fn span(text: &str) -> Option<Millis> {
    let mut sum = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit);
        let millis = match unit {
            "ms" => 1,
            "s" | "" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        sum = sum.saturating_add(decimal(number, millis)?.as_millis());
        rest = next;
    }
    (!text.is_empty()).then_some(Millis::from_millis(sum))
}

/// A number with decimals or without, in units of so many milliseconds, rounded up.
fn decimal(text: &str, millis: u64) -> Option<Millis> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) {
        return None;
    }
    // What has no room is later than anything that is believed.
    let whole = whole.parse::<u64>().unwrap_or(u64::MAX).saturating_mul(millis);
    let part = part.get(..part.len().min(6)).unwrap_or_default();
    let scale = 10_u64.pow(u32::try_from(part.len()).unwrap_or(0));
    let part = part.parse::<u64>().unwrap_or(0).saturating_mul(millis).div_ceil(scale);
    Some(Millis::from_millis(whole.saturating_add(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let now = Timestamp::parse("2026-12-01T10:00:00Z").unwrap();
        for (headers, millis) in [
            (vec![("retry-after", "30")], Some(30_000)),
            (vec![("retry-after", " 1.5 ")], Some(1_500)),
            (vec![("retry-after", "0")], None),
            (vec![("retry-after", "-5")], None),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after", "")], None),
            (vec![("retry-after", "Tue, 01 Dec 2026 10:02:00 GMT")], Some(120_000)),
            (vec![("retry-after", "Tue, 01 Dec 2026 09:59:00 GMT")], None),
            (vec![("retry-after-ms", "250"), ("retry-after", "30")], Some(250)),
            (vec![("retry-after-ms", "soon"), ("retry-after", "30")], Some(30_000)),
            (vec![("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], Some(360_000)),
            (vec![("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "20ms")], Some(20)),
            (vec![("x-ratelimit-remaining-tokens", "7"), ("x-ratelimit-reset-tokens", "6m0s")], None),
            (
                vec![
                    ("anthropic-ratelimit-input-tokens-remaining", "0"),
                    ("anthropic-ratelimit-input-tokens-reset", "2026-12-01T10:00:07Z"),
                    ("anthropic-ratelimit-requests-remaining", "12"),
                    ("anthropic-ratelimit-requests-reset", "2026-12-01T11:00:00Z"),
                ],
                Some(7_000),
            ),
            (
                vec![
                    ("anthropic-ratelimit-unified-status", "rejected"),
                    ("anthropic-ratelimit-unified-reset", "1796119500"),
                ],
                Some(300_000),
            ),
            (vec![], None),
        ] {
            let headers: Vec<(String, String)> =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let wanted = millis.map(|millis| now + Millis::from_millis(millis));
            assert_eq!(parse(&headers, now), wanted, "{headers:?}");
        }
    }

    #[test]
    fn a_number_without_bounds_is_far_away_and_no_panic() {
        let headers = [("retry-after".to_owned(), "9".repeat(60))];
        assert!(parse(&headers, Timestamp::from_millis(0)).unwrap().as_millis() > 1 << 60);
        assert_eq!(span("1h2m3.5s"), Some(Millis::from_millis(3_723_500)));
        for text in ["", "h", "1x", "1..2s", "ü"] {
            assert_eq!(span(text), None, "{text}");
        }
    }
}
