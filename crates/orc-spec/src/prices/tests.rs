use orc_domain::price::matches;

use super::*;

fn file(text: &str) -> SourceFile {
    SourceFile::new("prices.yaml", text)
}

fn table(text: &str, known: &PriceTable) -> PriceTable {
    let file = file(text);
    let compiled = compile_prices(&file, known);
    let told: Vec<String> = compiled.diagnostics.iter().map(|problem| problem.render(&file, false)).collect();
    assert_eq!(told, [""; 0]);
    compiled.table.unwrap()
}

/// Each problem as `line:column code message; help`.
fn told(text: &str) -> Vec<String> {
    let file = file(text);
    let compiled = compile_prices(&file, &PriceTable::default());
    assert!(compiled.table.is_none(), "{text}");
    let tell = |problem: &Diagnostic| {
        let at = file.position(problem.span.start);
        let help = problem.help.clone().unwrap_or_default();
        format!("{}:{} {} {}; {help}", at.line, at.column, problem.code, problem.message)
    };
    compiled.diagnostics.iter().map(tell).collect()
}

fn day(text: &str) -> Timestamp {
    Timestamp::parse(&format!("{text}T00:00:00Z")).unwrap()
}

#[test]
fn a_price_with_everything() {
    let found = table(
        "models:\n  \"a-*\":\n    - from: 2026-01-31\n      input: 3\n      output: 15.00\n      cache_read: 0.30\n      \
         cache_write: 3.75\n      cache_write_long: 6\n      server_tool: 0.01\n      long:\n        above: 200_000\n        \
         input: 6\n        output: 22.50\n        cache_read: 0.60\n        cache_write: 7.50\n        \
         cache_write_long: 12\n      most_output: 64_000\n      window: 1_000_000\n",
        &PriceTable::default(),
    );
    let rates = Rates {
        input: 3_000_000,
        cache_read: 300_000,
        cache_write: 3_750_000,
        cache_write_long: 6_000_000,
        output: 15_000_000,
    };
    let long = Rates {
        input: 6_000_000,
        cache_read: 600_000,
        cache_write: 7_500_000,
        cache_write_long: 12_000_000,
        output: 22_500_000,
    };
    let price = Price {
        rates,
        long: Some((200_000, long)),
        server_tool: 10_000,
        most_output: Some(64_000),
        window: Some(1_000_000),
    };
    assert_eq!(found.rows, [Priced { pattern: "a-*".to_owned(), from: day("2026-01-31"), price }]);
}

#[test]
fn what_is_not_said_costs_as_much_as_what_is_most_like_it() {
    let found = table(
        "models:\n  a: { input: 2, output: 0.000001, cache_write: 3, long: { above: 9, input: 4, output: 5 } }\n  \
         \"local/*\": { input: 0, output: 0 }\n",
        &PriceTable::default(),
    );
    let rates = Rates {
        input: 2_000_000,
        cache_read: 2_000_000,
        cache_write: 3_000_000,
        cache_write_long: 3_000_000,
        output: 1,
    };
    let long = Rates {
        input: 4_000_000,
        cache_read: 4_000_000,
        cache_write: 4_000_000,
        cache_write_long: 4_000_000,
        output: 5_000_000,
    };
    let price = Price { rates, long: Some((9, long)), ..Price::default() };
    let always = Timestamp::from_millis(0);
    assert_eq!(
        found.rows,
        [
            Priced { pattern: "a".to_owned(), from: always, price },
            Priced { pattern: "local/*".to_owned(), from: always, price: Price::default() },
        ]
    );
}

#[test]
fn a_file_lies_over_what_is_known_name_by_name_and_class_by_class() {
    let known = table(
        "models:\n  a: [{ from: 2026-01-01, input: 1, output: 2, server_tool: 0.5, window: 7 }, { from: 2026-06-01, input: 3, \
         output: 4, cache_read: 0.1, most_output: 8, long: { above: 9, input: 5, output: 6 } }]\n  b: { input: 7, output: 8 }\n",
        &PriceTable::default(),
    );
    let found = |text: &str, model: &str, at: &str| {
        let price = table(text, &known).find(model, day(at)).map(|row| row.price).unwrap();
        let micros = |rate: u64| rate / 100_000;
        let long = price.long.map(|(above, rates)| (above, micros(rates.input), micros(rates.output)));
        (micros(price.rates.input), micros(price.rates.output), micros(price.rates.cache_read), long, price.window)
    };
    // Without a day: over the latest known price, and for all time.
    let text = "models: { a: { input: 2.5 } }";
    let over = (25, 40, 1, Some((9, 50, 60)), None);
    assert_eq!(found(text, "a", "2026-07-01"), over);
    assert_eq!(found(text, "a", "2026-02-01"), over);
    assert_eq!(found(text, "b", "2026-02-01"), (70, 80, 70, None, None), "what it does not name stays");
    // With a day: over the price that was known then; those before are replaced with the name.
    let text = "models: { a: { from: 2026-03-01, output: 9 } }";
    assert_eq!(found(text, "a", "2026-07-01"), (10, 90, 10, None, Some(7)));
    assert_eq!(table(text, &known).find("a", day("2026-02-01")), None);
    // A part of `long` alone.
    let text = "models: { a: { long: { output: 7 } } }";
    assert_eq!(found(text, "a", "2026-07-01"), (30, 40, 1, Some((9, 50, 70)), None));
    // A name that fits the same model, and is not the same name, is another one.
    let text = "models: { \"a*\": { input: 9, output: 9 } }";
    assert_eq!(found(text, "a", "2026-07-01").0, 30);
    assert_eq!(found(text, "ab", "2026-07-01").0, 90);
}

#[test]
fn problems_have_places() {
    for (text, wanted) in [
        ("{}", vec!["1:1 missing_key this file has no prices; add `models: { \"NAME*\": { input: 3, output: 15 } }`"]),
        ("models: []", vec!["1:9 wrong_type `models` needs a map of keys and values, not a list; "]),
        (
            "models: { a: { input: 3 } }",
            vec![
                "1:14 missing_key there is no price of `output`, and none is known; add `output:` with dollars for a million \
                 tokens; what costs nothing is `output: 0`",
            ],
        ),
        (
            "models:\n  a: { input: -3, output: 1e3 }",
            vec![
                "2:15 bad_value `input` needs dollars such as `0.30`, not `-3`; digits with at most six decimals, from 0 to \
                 1000000, without a sign or the name of a currency",
                "2:27 bad_value `output` needs dollars such as `0.30`, not `1e3`; digits with at most six decimals, from 0 to \
                 1000000, without a sign or the name of a currency",
            ],
        ),
        (
            "models: { a: { input: 1000000.000001, output: $3 } }",
            vec![
                "1:23 bad_value `input` needs dollars such as `0.30`, not `1000000.000001`; digits with at most six decimals, \
                 from 0 to 1000000, without a sign or the name of a currency",
                "1:47 bad_value `output` needs dollars such as `0.30`, not `$3`; digits with at most six decimals, from 0 to \
                 1000000, without a sign or the name of a currency",
            ],
        ),
        (
            "models: { a: { input: 1, output: 1, cached_input: 2, windows: 3, from: 2026-02-30 } }",
            vec![
                "1:37 unknown_key a price has no key `cached_input`; write `cache_read:`",
                "1:54 unknown_key a price has no key `windows`; did you mean `window`?",
                "1:72 bad_value `from` needs a day such as `2026-12-24`, not `2026-02-30`; ",
            ],
        ),
        (
            "models: { a: { input: 1, output: 1, long: { input: 1, output: 2 }, window: 0 } }",
            vec![
                "1:43 missing_key `long` does not say from how many tokens on; add `above: 200_000`",
                "1:76 bad_value `window` needs a whole number such as `5_000_000`, not `0`; ",
            ],
        ),
        (
            "models:\n  a: [{ input: 1, output: 1 }, { input: 2, output: 2 }]\n  b: []\n  \"\": { input: 1, output: 1 }",
            vec![
                "2:32 conflict `a` has two prices from the same day; give one of them another `from:`, or remove it",
                "3:6 bad_value `b` has no price; remove the name",
                "4:3 bad_value a model has a name; `*` is the name of any model",
            ],
        ),
    ] {
        assert_eq!(told(text), wanted, "{text}");
    }
}

#[test]
fn the_shipped_prices_are_whole() {
    let file = SourceFile::new("prices/shipped.yaml", include_str!("shipped.yaml"));
    let compiled = compile_prices(&file, &PriceTable::default());
    assert_eq!(compiled.diagnostics, []);
    let shipped = shipped_prices();
    assert_eq!(compiled.table, Some(shipped.clone()));
    let at = day("2026-12-01");
    for row in &shipped.rows {
        let Price { rates, long, window, .. } = row.price;
        assert!(row.from <= at, "{}", row.pattern);
        assert!(rates.cache_read <= rates.input && rates.input <= rates.output, "{}", row.pattern);
        assert!(rates.input <= rates.cache_write && rates.cache_write <= rates.cache_write_long, "{}", row.pattern);
        if let Some((above, long)) = long {
            assert!(window.is_some_and(|window| above < window), "{}", row.pattern);
            assert_eq!(long.dearest(rates), long, "{}", row.pattern);
        }
        // A name that fits a version must not fit the next one.
        assert!(!matches(&row.pattern, "claude-opus-6") && !matches(&row.pattern, "gpt-7"), "{}", row.pattern);
    }
    let input = |model: &str, at: &str| shipped.find(model, day(at)).map(|row| row.price.rates.input);
    for (model, at, wanted) in [
        ("claude-sonnet-4-5-20250929", "2026-12-01", Some(3_000_000)),
        ("claude-opus-5-5", "2026-12-01", Some(4_000_000)),
        ("claude-opus-5", "2026-12-01", Some(5_000_000)),
        ("claude-opus-5-6", "2026-12-01", None),
        ("gpt-5.6-terra", "2026-07-29", Some(2_500_000)),
        ("gpt-5.6-terra", "2026-07-30", Some(2_000_000)),
        ("gpt-5-codex", "2026-12-01", Some(1_250_000)),
        ("gpt-5-2025-08-07", "2026-12-01", Some(1_250_000)),
        ("gpt-5-mini-2025-08-07", "2026-12-01", Some(250_000)),
        ("gpt-5.7", "2026-12-01", None),
        ("mock-model", "2026-12-01", None),
    ] {
        assert_eq!(input(model, at), wanted, "{model} {at}");
    }
    let read = |at| shipped.find("claude-sonnet-5-5", day(at)).map(|row| row.price.rates.cache_read);
    assert_eq!([read("2026-10-06"), read("2026-10-07")], [Some(200_000), Some(100_000)]);
}

#[test]
fn damaged_files_are_compiled_or_told_about() {
    let text = include_str!("shipped.yaml");
    let start = text.find("  \"gpt-5.6-terra\"").unwrap();
    let text = format!("models:\n{}", &text[start..start + 900]);
    for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
        for damaged in [text[..at].to_owned(), format!("{}{}", &text[..at], &text[(at + 1).min(text.len())..])] {
            let file = file(&damaged);
            let compiled = compile_prices(&file, &PriceTable::default());
            assert!(compiled.table.is_some() || !compiled.diagnostics.is_empty(), "{damaged}");
            for problem in &compiled.diagnostics {
                assert!(problem.span.end <= damaged.len() && !problem.render(&file, false).is_empty());
            }
        }
    }
}
