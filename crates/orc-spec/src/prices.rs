//! Prices of models, `prices.yaml`, to a [`PriceTable`], or every reason why not; and the table that comes with the program.
//!
//! A file of prices lies over the known ones name by name: the prices of a name that it has replace all known prices of
//! exactly that name, and what one of them leaves out is taken from the known price of that name at its day. Names that it
//! does not have keep their prices. Among names that fit a model, the one with the most characters beside `*` counts.
//!
//! Money is read from its text, as whole micro-dollars; a price is for a million tokens.

use std::collections::BTreeSet;

use orc_domain::money::UsdMicros;
use orc_domain::price::{Price, PriceTable, Priced, Rates};
use orc_domain::time::Timestamp;

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::keys::{self, MAX_PRICE};
use crate::read::{self, Fields};
use crate::source::{SourceFile, Span};
use crate::yaml::{self, Entry, Kind, Node};

/// What came of a file.
#[derive(Clone, Debug)]
pub struct CompiledPrices {
    /// All prices: those of the file, and the known ones that it leaves; none when there is an error.
    pub table: Option<PriceTable>,
    /// Everything to say about the file, in order of place.
    pub diagnostics: Vec<Diagnostic>,
}

/// The prices that come with the program.
#[must_use]
pub fn shipped_prices() -> PriceTable {
    let file = SourceFile::new("prices/shipped.yaml", include_str!("prices/shipped.yaml"));
    #[expect(clippy::expect_used, reason = "invariant: a test reads the file")]
    compile_prices(&file, &PriceTable::default()).table.expect("the prices that come with the program are readable")
}

/// Compiles one file over the prices that are known. Pure: equal texts give equal results.
#[must_use]
pub fn compile_prices(file: &SourceFile, known: &PriceTable) -> CompiledPrices {
    let mut report = Report::new(&file.name);
    let rows = yaml::parse(&file.text, &mut report).and_then(|root| rows(&root, known, &mut report));
    let table = rows.filter(|_| !report.has_errors()).map(|rows| {
        let names: BTreeSet<&str> = rows.iter().map(|row| row.pattern.as_str()).collect();
        let left = known.rows.iter().filter(|row| !names.contains(row.pattern.as_str())).cloned();
        PriceTable { rows: left.chain(rows.iter().cloned()).collect() }
    });
    CompiledPrices { table, diagnostics: report.finish() }
}

fn rows(root: &Node, known: &PriceTable, report: &mut Report) -> Option<Vec<Priced>> {
    let fields = read::fields(root, &keys::PRICES, report)?;
    let Some(node) = fields.get("models") else {
        if fields.lacks("models") {
            report
                .error(Code::MissingKey, root.span, "this file has no prices")
                .help("add `models: { \"NAME*\": { input: 3, output: 15 } }`");
        }
        return None;
    };
    let entries = read::map(node, "`models`", report)?;
    Some(entries.iter().flat_map(|entry| rows_of(entry, known, report)).collect())
}

fn rows_of(entry: &Entry, known: &PriceTable, report: &mut Report) -> Vec<Priced> {
    let pattern = entry.key.text.as_str();
    if pattern.is_empty() {
        report.error(Code::BadValue, entry.key.span, "a model has a name").help("`*` is the name of any model");
    }
    let items =
        if let Kind::List(items) = &entry.value.kind { items.as_slice() } else { std::slice::from_ref(&entry.value) };
    if items.is_empty() {
        report.error(Code::BadValue, entry.value.span, format!("`{pattern}` has no price")).help("remove the name");
    }
    let mut rows: Vec<(Priced, Span)> = Vec::new();
    for item in items {
        let Some(row) = row(pattern, item, known, report) else { continue };
        if let Some((_, first)) = rows.iter().find(|(other, _)| other.from == row.from) {
            report
                .error(Code::Conflict, item.span, format!("`{pattern}` has two prices from the same day"))
                .label(*first, "the other one")
                .help("give one of them another `from:`, or remove it");
        }
        rows.push((row, item.span));
    }
    rows.into_iter().map(|(row, _)| row).collect()
}

fn row(pattern: &str, node: &Node, known: &PriceTable, report: &mut Report) -> Option<Priced> {
    let fields = read::fields(node, &keys::PRICE, report)?;
    let from = optional(&fields, "from", report, date)?;
    let same = known.rows.iter().filter(|row| row.pattern == pattern);
    let below = same.filter(|row| from.is_none_or(|from| row.from <= from)).max_by_key(|row| row.from);
    let below = below.map(|row| row.price);
    let rates = rates(&fields, node, below.map(|price| price.rates), report);
    let long = match fields.get("long") {
        Some(node) => Some(long(node, below.and_then(|price| price.long), report)),
        None => below.and_then(|price| price.long).map(Some),
    };
    let server_tool = optional(&fields, "server_tool", report, price);
    let tally = |key: &str, report: &mut Report| optional(&fields, key, report, read::tally);
    let (most_output, window) = (tally("most_output", report), tally("window", report));
    let price = Price {
        rates: rates?,
        long: match long {
            Some(long) => Some(long?),
            None => None,
        },
        server_tool: server_tool?.or(below.map(|price| price.server_tool)).unwrap_or(0),
        most_output: most_output?.or(below.and_then(|price| price.most_output)),
        window: window?.or(below.and_then(|price| price.window)),
    };
    Some(Priced { pattern: pattern.to_owned(), from: from.unwrap_or(Timestamp::from_millis(0)), price })
}

fn long(node: &Node, below: Option<(u64, Rates)>, report: &mut Report) -> Option<(u64, Rates)> {
    let fields = read::fields(node, &keys::LONG, report)?;
    let above = optional(&fields, "above", report, read::tally);
    let rates = rates(&fields, node, below.map(|(_, rates)| rates), report);
    let above = above?.or(below.map(|(above, _)| above));
    if above.is_none() && fields.lacks("above") {
        report
            .error(Code::MissingKey, node.span, "`long` does not say from how many tokens on")
            .help("add `above: 200_000`");
    }
    Some((above?, rates?))
}

/// The price of each class: as written, else as known, else that of the class that is most like it.
fn rates(fields: &Fields<'_>, node: &Node, below: Option<Rates>, report: &mut Report) -> Option<Rates> {
    let [input, output, cache_read, cache_write, cache_write_long] =
        ["input", "output", "cache_read", "cache_write", "cache_write_long"]
            .map(|key| optional(fields, key, report, price));
    let mut needed = |key: &str, written: Option<Option<u64>>, known: Option<u64>| {
        let value = written?.or(known);
        if value.is_none() && fields.lacks(key) {
            report
                .error(Code::MissingKey, node.span, format!("there is no price of `{key}`, and none is known"))
                .help(format!("add `{key}:` with dollars for a million tokens; what costs nothing is `{key}: 0`"));
        }
        value
    };
    let input = needed("input", input, below.map(|rates| rates.input));
    let output = needed("output", output, below.map(|rates| rates.output));
    let (input, output) = (input?, output?);
    let cache_write = cache_write?.or(below.map(|rates| rates.cache_write)).unwrap_or(input);
    Some(Rates {
        input,
        output,
        cache_read: cache_read?.or(below.map(|rates| rates.cache_read)).unwrap_or(input),
        cache_write,
        cache_write_long: cache_write_long?.or(below.map(|rates| rates.cache_write_long)).unwrap_or(cache_write),
    })
}

/// The value of a key that may be absent; `None` when it was reported.
fn optional<T>(
    fields: &Fields<'_>,
    key: &str,
    report: &mut Report,
    read: impl Fn(&Node, &str, &mut Report) -> Option<T>,
) -> Option<Option<T>> {
    match fields.get(key) {
        None => Some(None),
        Some(node) => read(node, &format!("`{key}`"), report).map(Some),
    }
}

/// Micro-dollars; what costs nothing has a price too.
fn price(node: &Node, what: &str, report: &mut Report) -> Option<u64> {
    const WANTED: &str = "dollars such as `0.30`";
    let scalar = read::scalar(node, what, WANTED, report)?;
    let most = UsdMicros::from_micros(MAX_PRICE * 1_000_000);
    let amount = UsdMicros::parse(&scalar.text).filter(|amount| *amount <= most);
    if amount.is_none() {
        let message = format!("{what} needs {WANTED}, not `{}`", read::excerpt(&scalar.text));
        let help = format!(
            "digits with at most six decimals, from 0 to {MAX_PRICE}, without a sign or the name of a currency"
        );
        report.error(Code::BadValue, node.span, message).help(help);
    }
    amount.and_then(|amount| u64::try_from(amount.as_micros()).ok())
}

fn date(node: &Node, what: &str, report: &mut Report) -> Option<Timestamp> {
    const WANTED: &str = "a day such as `2026-12-24`";
    let scalar = read::scalar(node, what, WANTED, report)?;
    let day = Timestamp::parse(&format!("{}T00:00:00Z", scalar.text)).filter(|_| scalar.text.len() == 10);
    if day.is_none() {
        let message = format!("{what} needs {WANTED}, not `{}`", read::excerpt(&scalar.text));
        report.error(Code::BadValue, node.span, message);
    }
    day
}

#[cfg(test)]
mod tests;
