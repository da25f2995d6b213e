//! What calls of models used and cost, for people, as documents and for spreadsheets. Money is whole millionths of a dollar
//! until it is text, and text is made of its digits.

use orc_domain::ledger::Sum;
use orc_domain::money::UsdMicros;
use serde_json::{Value, json};

use super::agent::{counted, short_number};

/// What stands in the cells of a sum: calls, tokens of input and of output, cost, and what is to be known about them.
pub(crate) fn cells(sum: &Sum) -> [String; 5] {
    let output = sum.tokens.output.saturating_add(sum.tokens.reasoning);
    let input = short_number(sum.tokens.context());
    [sum.calls.to_string(), input, short_number(output), cost(sum), remarks(sum)]
}

/// Titles of [`cells`].
pub(crate) const TITLES: [&str; 5] = ["CALLS", "INPUT", "OUTPUT", "COST", "NOTE"];

/// `$0.42, 3 calls, 12.3k tokens; 1 unpriced`; nothing where nothing was called.
pub(crate) fn words(sum: &Sum) -> Option<String> {
    if sum.calls == 0 && sum.in_flight == 0 {
        return None;
    }
    let tokens = sum.tokens.total().saturating_add(sum.lost_tokens);
    let parts = [Some(cost(sum)), counted(sum.calls, "call"), counted(tokens, "token")];
    let mut words = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let remarks = remarks(sum);
    if !remarks.is_empty() {
        words.push_str(&format!("; {remarks}"));
    }
    Some(words)
}

fn cost(sum: &Sum) -> String {
    if sum.calls > 0 && sum.unpriced == sum.calls { "unpriced".to_owned() } else { sum.micros.to_string() }
}

/// What makes figures less than sure.
pub(crate) fn remarks(sum: &Sum) -> String {
    let is_some = |micros: UsdMicros| micros.as_micros() > 0;
    let parts = [
        (sum.unpriced > 0 && sum.unpriced < sum.calls)
            .then(|| format!("{} of {} calls unpriced", sum.unpriced, sum.calls)),
        is_some(sum.unsure).then(|| format!("{} of it estimated", sum.unsure)),
        counted(sum.lost_tokens, "token").map(|tokens| format!("up to {tokens} of lost calls")),
        (sum.in_flight > 0).then(|| format!("{} in flight, {} reserved", sum.in_flight, sum.reserved)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The figures of a sum; money in millionths of a dollar.
pub(crate) fn document(sum: &Sum) -> Value {
    let tokens = &sum.tokens;
    json!({
        "calls": sum.calls,
        "tokens": {
            "input": tokens.input,
            "cache_read": tokens.cache_read,
            "cache_write": tokens.cache_write,
            "cache_write_long": tokens.cache_write_long,
            "output": tokens.output,
            "reasoning": tokens.reasoning,
            "total": tokens.total(),
        },
        "server_tools": tokens.server_tools,
        "lost_tokens": sum.lost_tokens,
        "cost_usd_micros": sum.micros.as_micros(),
        "estimated_usd_micros": sum.unsure.as_micros(),
        "unpriced_calls": sum.unpriced,
        "in_flight_calls": sum.in_flight,
        "reserved_usd_micros": sum.reserved.as_micros(),
    })
}

/// Titles of [`fields`].
pub(crate) const FIELDS: [&str; 14] = [
    "calls",
    "input",
    "cache_read",
    "cache_write",
    "cache_write_long",
    "output",
    "reasoning",
    "server_tools",
    "lost_tokens",
    "cost_usd",
    "estimated_usd",
    "unpriced_calls",
    "in_flight_calls",
    "reserved_usd",
];

/// The figures of a sum for a spreadsheet.
pub(crate) fn fields(sum: &Sum) -> [String; 14] {
    let tokens = &sum.tokens;
    [
        sum.calls.to_string(),
        tokens.input.to_string(),
        tokens.cache_read.to_string(),
        tokens.cache_write.to_string(),
        tokens.cache_write_long.to_string(),
        tokens.output.to_string(),
        tokens.reasoning.to_string(),
        tokens.server_tools.to_string(),
        sum.lost_tokens.to_string(),
        dollars(sum.micros),
        dollars(sum.unsure),
        sum.unpriced.to_string(),
        sum.in_flight.to_string(),
        dollars(sum.reserved),
    ]
}

/// Dollars with six decimals and nothing else: `0.012500`.
pub(crate) fn dollars(money: UsdMicros) -> String {
    let micros = money.as_micros().unsigned_abs();
    let sign = if money.as_micros() < 0 { "-" } else { "" };
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A line of RFC 4180 without its end. What is not plain is quoted.
pub(crate) fn csv_line(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let cell = |cell: &str| {
        if cell.contains([',', '"', '\r', '\n']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.to_owned()
        }
    };
    cells.into_iter().map(|text| cell(text.as_ref())).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use orc_domain::model::Tokens;

    use super::*;

    #[test]
    fn a_sum_is_said_with_what_is_not_sure_about_it() {
        let money = UsdMicros::from_micros;
        let mut sum = Sum {
            calls: 3,
            tokens: Tokens { input: 11_000, cache_read: 1_000, output: 300, reasoning: 45, ..Tokens::default() },
            micros: money(420_000),
            ..Sum::default()
        };
        assert_eq!(words(&sum).as_deref(), Some("$0.42, 3 calls, 12.3k tokens"));
        assert_eq!(cells(&sum), ["3", "12.0k", "345", "$0.42", ""]);
        (sum.unsure, sum.unpriced, sum.lost_tokens) = (money(20_000), 1, 700);
        (sum.in_flight, sum.reserved) = (2, money(5));
        let wanted = "1 of 3 calls unpriced, $0.02 of it estimated, up to 700 tokens of lost calls, 2 in flight, $0.000005 reserved";
        assert_eq!(remarks(&sum), wanted);
        sum.unpriced = 3;
        assert!(words(&sum).is_some_and(|words| words.starts_with("unpriced, 3 calls, 13.0k tokens; $0.02 of it")));
        assert_eq!(words(&Sum::default()), None);
        assert_eq!(FIELDS.len(), fields(&sum).len());
    }

    #[test]
    fn a_spreadsheet_gets_digits_and_quotes() {
        let texts = [0, 1, 12_500, 1_000_000, i64::MAX, -5].map(|micros| dollars(UsdMicros::from_micros(micros)));
        assert_eq!(texts, ["0.000000", "0.000001", "0.012500", "1.000000", "9223372036854.775807", "-0.000005"]);
        assert_eq!(
            csv_line(["plain", "a,b", "say \"x\"", "two\nlines", ""]),
            "plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\","
        );
    }
}
