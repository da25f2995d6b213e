//! From nodes to values: each reader takes what its key takes, and says what it found otherwise.
//!
//! A reader returns `None` when it has reported; a `Broken` node was reported before.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use orc_domain::money::UsdMicros;
use orc_domain::suggest::closest;
use orc_domain::time::Millis;
use orc_domain::value::{Finite, Value};

use crate::diagnostic::{Code, Report};
use crate::keys::{Shape, Table};
use crate::source::Span;
use crate::yaml::{Entry, Kind, Name, Node, Scalar};

/// The entries of a map that are keys of its table and available.
pub(crate) struct Fields<'a> {
    entries: BTreeMap<&'static str, &'a Entry>,
    /// Keys that are not available yet, in file order; they were reported.
    pub(crate) later: Vec<&'static str>,
    /// Keys that the table does not have; they were reported.
    unknown: Vec<&'a Entry>,
    table: &'static Table,
}

impl<'a> Fields<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.get(key).copied()
    }

    /// A key was not understood, so it may be one that seems to be absent.
    pub(crate) fn has_unknown(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// The key is absent, and no unknown key was answered with it.
    pub(crate) fn lacks(&self, key: &str) -> bool {
        !self.entries.contains_key(key) && !self.later.contains(&key) && self.misspelt(key).is_none()
    }

    /// The value of an unknown key that was answered with this one.
    pub(crate) fn misspelt(&self, key: &str) -> Option<&'a Node> {
        let answers = |unknown: &&&Entry| match foreign_advice(&unknown.key.text, self.table) {
            Some(advice) => advice.contains(&format!("`{key}:")),
            None => closest(&unknown.key.text, self.table.keys.iter().map(|key| key.name)) == Some(key),
        };
        self.unknown.iter().find(answers).map(|entry| &entry.value)
    }
}

/// The entries of a map.
pub(crate) fn map<'a>(node: &'a Node, what: &str, report: &mut Report) -> Option<&'a [Entry]> {
    match &node.kind {
        Kind::Map(entries) => Some(entries),
        _ => {
            wrong_type(node, what, "a map of keys and values", report);
            None
        }
    }
}

/// The entries of a map, sorted by the keys of `table`.
pub(crate) fn fields<'a>(node: &'a Node, table: &'static Table, report: &mut Report) -> Option<Fields<'a>> {
    let entries = map(node, table.name, report)?;
    let mut fields = Fields { entries: BTreeMap::new(), later: Vec::new(), unknown: Vec::new(), table };
    for entry in entries {
        let Some(key) = table.key(&entry.key.text) else {
            fields.unknown.push(entry);
            unknown_key(&entry.key, table, report);
            continue;
        };
        if matches!(key.shape, Shape::Later) {
            fields.later.push(key.name);
            report.error(Code::NotAvailable, entry.key.span, format!("`{}` is not available yet", key.name));
        } else {
            fields.entries.insert(key.name, entry);
        }
    }
    Some(fields)
}

fn unknown_key(key: &Name, table: &Table, report: &mut Report) {
    let word = key.text.as_str();
    let problem = report.error(Code::UnknownKey, key.span, format!("{} has no key `{word}`", table.name));
    match foreign_advice(word, table) {
        Some(advice) => problem.help(advice),
        None => problem.did_you_mean(word, table.keys.iter().map(|key| key.name)),
    };
}

fn foreign_advice(word: &str, table: &Table) -> Option<&'static str> {
    let plain = |word: &str| word.replace('-', "_");
    table.foreign.iter().find(|(foreign, _)| plain(foreign) == plain(word)).map(|(_, advice)| *advice)
}

/// What a node is, for messages.
fn kind_name(node: &Node) -> &'static str {
    match &node.kind {
        Kind::Scalar(scalar) if scalar.is_null() => "nothing",
        Kind::Scalar(_) => "a single value",
        Kind::List(_) => "a list",
        Kind::Map(_) => "a map",
        Kind::Broken => "something unreadable",
    }
}

/// Reports `what needs wanted`, unless the node was reported already.
pub(crate) fn wrong_type(node: &Node, what: &str, wanted: &str, report: &mut Report) {
    if node.kind == Kind::Broken {
        return;
    }
    let found = match &node.kind {
        Kind::Scalar(scalar) if !scalar.is_null() => format!("`{}`", excerpt(&scalar.text)),
        _ => kind_name(node).to_owned(),
    };
    report.error(Code::WrongType, node.span, format!("{what} needs {wanted}, not {found}"));
}

/// The first line of a text, at most 40 characters.
pub(crate) fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(40).collect();
    if short.len() < text.trim_end().len() { format!("{short}...") } else { short }
}

/// A scalar that is not null.
pub(crate) fn scalar<'a>(node: &'a Node, what: &str, wanted: &str, report: &mut Report) -> Option<&'a Scalar> {
    match &node.kind {
        Kind::Scalar(scalar) if !scalar.is_null() => Some(scalar),
        _ => {
            wrong_type(node, what, wanted, report);
            None
        }
    }
}

/// Text as it stands: `no` and `1.10` are texts here.
pub(crate) fn text(node: &Node, what: &str, report: &mut Report) -> Option<String> {
    scalar(node, what, "text", report).map(|scalar| scalar.text.clone())
}

/// `true` or `false`, not quoted.
pub(crate) fn boolean(node: &Node, what: &str, report: &mut Report) -> Option<bool> {
    let scalar = scalar(node, what, "`true` or `false`", report)?;
    match (scalar.plain, scalar.text.as_str()) {
        (true, "true" | "True" | "TRUE") => return Some(true),
        (true, "false" | "False" | "FALSE") => return Some(false),
        _ => {}
    }
    let meant = match scalar.text.to_lowercase().as_str() {
        "yes" | "on" | "y" | "true" | "1" => Some("true"),
        "no" | "off" | "n" | "false" | "0" => Some("false"),
        _ => None,
    };
    let found = excerpt(&scalar.text);
    let message = format!("{what} needs `true` or `false`, not `{found}`");
    let problem = report.error(Code::WrongType, node.span, message);
    if let Some(meant) = meant {
        problem.help(format!("write `{meant}` without quotes; in YAML 1.2 `{found}` is text"));
    }
    None
}

/// A whole number from 1 to `most`.
pub(crate) fn count(node: &Node, what: &str, most: u32, report: &mut Report) -> Option<u32> {
    number_within(node, what, 1..=most, report)
}

/// A whole number within a range.
pub(crate) fn number_within(node: &Node, what: &str, range: RangeInclusive<u32>, report: &mut Report) -> Option<u32> {
    let wanted = format!("a whole number from {} to {}", range.start(), range.end());
    let scalar = scalar(node, what, &wanted, report)?;
    match digits(scalar).and_then(|digits| digits.parse::<u32>().ok()) {
        Some(number) if range.contains(&number) => Some(number),
        Some(number) => {
            report.error(Code::BadValue, node.span, format!("{what} needs {wanted}, not {number}"));
            None
        }
        None => {
            wrong_type(node, what, &wanted, report);
            None
        }
    }
}

/// A whole number within a range that may reach below zero.
pub(crate) fn integer(node: &Node, what: &str, range: RangeInclusive<i16>, report: &mut Report) -> Option<i16> {
    let wanted = format!("a whole number from {} to {}", range.start(), range.end());
    let scalar = scalar(node, what, &wanted, report)?;
    let number = scalar.text.parse::<i16>().ok().filter(|number| scalar.plain && range.contains(number));
    if number.is_none() {
        let message = format!("{what} needs {wanted}, not `{}`", excerpt(&scalar.text));
        report.error(Code::BadValue, node.span, message);
    }
    number
}

/// A whole number from 1, as large as it may be.
pub(crate) fn tally(node: &Node, what: &str, report: &mut Report) -> Option<u64> {
    const WANTED: &str = "a whole number such as `5_000_000`";
    let scalar = scalar(node, what, WANTED, report)?;
    let number = digits(scalar).and_then(|digits| digits.parse::<u64>().ok()).filter(|number| *number > 0);
    if number.is_none() {
        let message = format!("{what} needs {WANTED}, not `{}`", excerpt(&scalar.text));
        report.error(Code::BadValue, node.span, message);
    }
    number
}

/// Money, from its text: what is written is what counts, never a rounded number.
pub(crate) fn money(node: &Node, what: &str, report: &mut Report) -> Option<UsdMicros> {
    const WANTED: &str = "dollars such as `20.00`";
    let scalar = scalar(node, what, WANTED, report)?;
    let amount = UsdMicros::parse(&scalar.text).filter(|amount| *amount > UsdMicros::from_micros(0));
    if amount.is_none() {
        let message = format!("{what} needs {WANTED}, not `{}`", excerpt(&scalar.text));
        let help = "digits with at most six decimals, above zero, without a sign or the name of a currency";
        report.error(Code::BadValue, node.span, message).help(help);
    }
    amount
}

/// The digits of a plain whole number, `_` between them left out.
fn digits(scalar: &Scalar) -> Option<String> {
    let text = scalar.text.as_str();
    let well_formed = scalar.plain
        && text.starts_with(|first: char| first.is_ascii_digit())
        && !text.ends_with('_')
        && !text.contains("__")
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    well_formed.then(|| text.replace('_', ""))
}

/// A length of time that is not zero.
pub(crate) fn duration(node: &Node, what: &str, report: &mut Report) -> Option<Millis> {
    const WANTED: &str = "a length of time such as `30s` or `1h30m`";
    let scalar = scalar(node, what, WANTED, report)?;
    match Millis::parse(&scalar.text) {
        Some(Millis::ZERO) => {
            report.error(Code::BadValue, node.span, format!("{what} cannot be zero"));
            None
        }
        // A longer time would leave the range of dates.
        Some(span) if span.as_millis() > Millis::from_secs(366 * 86_400).as_millis() => {
            report.error(Code::BadValue, node.span, format!("{what} can be a year at most"));
            None
        }
        Some(span) => Some(span),
        None => {
            let message = format!("{what} needs {WANTED}, not `{}`", excerpt(&scalar.text));
            let problem = report.error(Code::BadValue, node.span, message);
            if digits(scalar).is_some() {
                problem.help(format!("add the unit: `{0}s` or `{0}m`", scalar.text));
            } else {
                problem.help("the units are ms, s, m, h and d; numbers are whole");
            }
            None
        }
    }
}

/// A number of bytes: `5_000_000`, `64MiB`, `10 MB`.
pub(crate) fn size(node: &Node, what: &str, report: &mut Report) -> Option<u64> {
    const WANTED: &str = "a number of bytes such as `64MiB` or `1_000_000`";
    let scalar = scalar(node, what, WANTED, report)?;
    let bytes = parse_size(&scalar.text);
    if bytes.is_none() {
        let message = format!("{what} needs {WANTED}, not `{}`", excerpt(&scalar.text));
        report.error(Code::BadValue, node.span, message).help("the units are B, kB, MB, GB, KiB, MiB and GiB");
    }
    bytes
}

/// Bytes, at least 1.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|char: char| !char.is_ascii_digit() && char != '_').unwrap_or(text.len());
    let number = Scalar { text: text[..split].to_owned(), plain: true };
    let unit: u64 = match text[split..].trim_start() {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1024,
        "MiB" => 1024 * 1024,
        "GiB" => 1024 * 1024 * 1024,
        _ => return None,
    };
    let bytes = digits(&number)?.parse::<u64>().ok()?.checked_mul(unit)?;
    (bytes > 0).then_some(bytes)
}

/// One of `words`.
pub(crate) fn word<'a>(node: &Node, what: &str, words: &'a [&'a str], report: &mut Report) -> Option<&'a str> {
    let wanted = format!("one of {}", words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "));
    let scalar = scalar(node, what, &wanted, report)?;
    let found = words.iter().find(|word| **word == scalar.text);
    if found.is_none() {
        let message = format!("{what} needs {wanted}, not `{}`", excerpt(&scalar.text));
        report.error(Code::BadValue, node.span, message).did_you_mean(&scalar.text, words.iter().copied());
    }
    found.copied()
}

/// Names with their places: one, or a list of them.
pub(crate) fn names(node: &Node, what: &str, report: &mut Report) -> Vec<Name> {
    const WANTED: &str = "a name or a list of names";
    let one = |node: &Node, report: &mut Report| {
        scalar(node, what, WANTED, report).map(|scalar| Name { text: scalar.text.clone(), span: node.span })
    };
    match &node.kind {
        Kind::List(items) => items.iter().filter_map(|item| one(item, report)).collect(),
        _ => one(node, report).into_iter().collect(),
    }
}

/// The value that a node stands for. Plain `true`, `false` and `null` are themselves; a plain number is a number when it
/// would print as it was written, so `1.10`, `007` and `1_000` stay text.
pub(crate) fn value(node: &Node) -> Option<Value> {
    match &node.kind {
        Kind::Scalar(scalar) => Some(scalar_value(scalar)),
        Kind::List(items) => items.iter().map(value).collect::<Option<Vec<_>>>().map(Value::List),
        Kind::Map(entries) => {
            let members = entries.iter().map(|entry| Some((entry.key.text.clone(), value(&entry.value)?)));
            members.collect::<Option<BTreeMap<_, _>>>().map(Value::Map)
        }
        Kind::Broken => None,
    }
}

fn scalar_value(scalar: &Scalar) -> Value {
    let text = scalar.text.as_str();
    if scalar.is_null() {
        return Value::Null;
    }
    match text {
        _ if !scalar.plain => Value::text(text),
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
            match Value::parse_output(text) {
                number @ (Value::Int(_) | Value::Float(_)) => number,
                _ => Value::text(text),
            }
        }
        _ => Value::text(text),
    }
}

/// A number from text whose key or input says that it is one: `3`, `1.10`, `1_000`.
pub(crate) fn parse_number(text: &str) -> Option<Value> {
    let (sign, bare) = text.strip_prefix('-').map_or(("", text), |bare| ("-", bare));
    if let Some(digits) = digits(&Scalar { text: bare.to_owned(), plain: true }) {
        return format!("{sign}{digits}").parse().ok().map(Value::Int);
    }
    let starts = bare.starts_with(|first: char| first.is_ascii_digit());
    let all = bare.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    (starts && all).then(|| text.parse().ok().and_then(Finite::new).map(Value::Float))?
}

/// The first expression mark within a value, where none may stand.
pub(crate) fn find_expression(node: &Node) -> Option<Span> {
    match &node.kind {
        Kind::Scalar(scalar) => scalar.text.contains("${{").then_some(node.span),
        Kind::List(items) => items.iter().find_map(find_expression),
        Kind::Map(entries) => entries.iter().find_map(|entry| find_expression(&entry.value)),
        Kind::Broken => None,
    }
}
