//! What bounds a flow or a step, and what is kept of it: `concurrency:`, `budget:`, `artifacts:`.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::budget::{Budget, OnExhausted};
use orc_domain::expr::{Template, TemplatePart};
use orc_domain::graph::{Concurrency, OnLimit};

use super::step::Draft;
use super::view::View;
use crate::diagnostic::{Code, Report};
use crate::expression::Reader;
use crate::keys;
use crate::read::{self, Fields};
use crate::yaml::{Entry, Kind, Node};

/// Characters of the name of a group that is written out.
const MAX_GROUP: usize = 200;

impl Draft<'_> {
    pub(super) fn concurrency(&self, view: &View<'_>, report: &mut Report) -> Option<Concurrency> {
        let node = self.field("concurrency")?;
        let names = view.names("`concurrency`", true);
        let concurrency = concurrency(node, &view.reader(&names), report)?;
        if concurrency.on_limit == OnLimit::CancelRunning {
            report
                .error(Code::Conflict, node.span, "`cancel_running` is for flows, and a step has none to cancel")
                .help("write `on_limit: queue` or `skip`, or move `concurrency` to the pipeline");
        }
        Some(concurrency)
    }

    /// `budget:` of an attempt: of a command only its time, because commands tell nothing of what they use.
    pub(super) fn budget(&self, view: &View<'_>, report: &mut Report) -> Option<Budget> {
        let node = self.field("budget")?;
        let fields = read::fields(node, &keys::BUDGET, report)?;
        if let Some(entry) = fields.entry("on_exhausted") {
            report
                .error(Code::Conflict, entry.key.span, "`on_exhausted` belongs to the budget of the pipeline")
                .help("a step that reaches its wall fails; remove this key, or move it");
        }
        if self.kind == Some("run") {
            for name in ["model_calls", "tool_calls", "tokens", "usd"] {
                if let Some(entry) = fields.entry(name) {
                    let message =
                        format!("`{name}` cannot be limited beside `run`: a command does not tell what it uses");
                    report.error(Code::NotHonoured, entry.key.span, message).help("limit its `time`");
                }
            }
        }
        let budget = limits(&fields, node, report);
        if let Some(above) = &view.shared.budget {
            refuse_above(&fields, &budget, above, report);
        }
        Some(budget)
    }

    /// Names of the files that are kept, as far as they are written well.
    pub(super) fn artifact_names(&self) -> Option<BTreeSet<String>> {
        let last = |node: &Node| match &node.kind {
            Kind::Scalar(scalar) => scalar.text.rsplit('/').next().map(str::to_owned),
            Kind::Map(_) | Kind::List(_) | Kind::Broken => None,
        };
        let node = self.field("artifacts")?;
        Some(match &node.kind {
            Kind::Map(entries) => entries.iter().map(|entry| entry.key.text.clone()).collect(),
            Kind::List(items) => items.iter().filter_map(last).collect(),
            Kind::Scalar(_) | Kind::Broken => last(node).into_iter().collect(),
        })
    }

    pub(super) fn artifacts(&self, view: &View<'_>, report: &mut Report) -> BTreeMap<String, Template> {
        let Some(node) = self.field("artifacts") else {
            return BTreeMap::new();
        };
        let names = view.names("`artifacts`", true);
        let reader = view.reader(&names);
        let mut artifacts = BTreeMap::new();
        if let Kind::Map(entries) = &node.kind {
            for Entry { key, value } in entries {
                if !is_artifact_name(&key.text) {
                    let message = format!("`{}` cannot be the name of an artifact", read::excerpt(&key.text));
                    report.error(Code::BadValue, key.span, message).help(ARTIFACT_NAME);
                } else if let Some(path) = artifact_path(value, &reader, report) {
                    artifacts.insert(key.text.clone(), path);
                }
            }
            return artifacts;
        }
        let items = match &node.kind {
            Kind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        for item in items {
            let Some(path) = artifact_path(item, &reader, report) else {
                continue;
            };
            let name = match path.parts.as_slice() {
                [TemplatePart::Literal(text)] => text.rsplit('/').next().filter(|name| is_artifact_name(name)),
                _ => None,
            };
            let Some(name) = name else {
                report
                    .error(Code::BadValue, item.span, "this path does not end in a name that an artifact can have")
                    .help("give it a name: `artifacts: { report: PATH }`");
                continue;
            };
            if artifacts.contains_key(name) {
                let message = format!("two artifacts of this step would be called `{name}`");
                report
                    .error(Code::DuplicateName, item.span, message)
                    .help("give them names: `artifacts: { NAME: PATH }`");
            }
            artifacts.insert(name.to_owned(), path);
        }
        artifacts
    }
}

const ARTIFACT_NAME: &str = "letters, digits, `_`, `-` and `.`, beginning with a letter or digit, at most 64";

fn is_artifact_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// A path below the place where the step works; what expressions make of it is checked when it is used.
fn artifact_path(node: &Node, reader: &Reader<'_>, report: &mut Report) -> Option<Template> {
    let scalar = read::scalar(node, "`artifacts`", "the path of a file", report)?;
    let (path, _) = reader.template(node, "`artifacts`", report)?;
    let text = scalar.text.as_str();
    let is_inside = !text.starts_with(['/', '~']) && text.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_inside {
        let message = format!("`{}` is not a path below the place where the step works", read::excerpt(text));
        report.error(Code::BadValue, node.span, message).help("write it as `target/report.html`");
        return None;
    }
    if text.contains(['*', '?']) && path.expressions().next().is_none() {
        let message = format!("`{}` is a pattern, and an artifact is one file", read::excerpt(text));
        report.error(Code::BadValue, node.span, message).help("name each file, or pack them into one in the script");
        return None;
    }
    Some(path)
}

/// `concurrency:`: the name of the group, or a map.
pub(super) fn concurrency(node: &Node, reader: &Reader<'_>, report: &mut Report) -> Option<Concurrency> {
    if let Kind::Scalar(_) = &node.kind {
        return Some(Concurrency { group: group(node, reader, report)?, limit: 1, on_limit: OnLimit::Queue });
    }
    let fields = read::fields(node, &keys::CONCURRENCY, report)?;
    if fields.lacks("group") {
        report
            .error(Code::MissingKey, node.span, "`concurrency` does not say which group it is")
            .help("add `group: NAME`");
    }
    let limit = fields.get("limit").map(|node| read::count(node, "`limit`", keys::MAX_SLOTS, report));
    let word = fields.get("on_limit").map(|node| read::word(node, "`on_limit`", keys::ON_LIMIT, report));
    let on_limit = match word.unwrap_or(Some("queue"))? {
        "skip" => OnLimit::Skip,
        "cancel_running" => OnLimit::CancelRunning,
        _ => OnLimit::Queue,
    };
    Some(Concurrency {
        group: group(fields.get("group")?, reader, report)?,
        limit: limit.unwrap_or(Some(1))?,
        on_limit,
    })
}

fn group(node: &Node, reader: &Reader<'_>, report: &mut Report) -> Option<Template> {
    let scalar = read::scalar(node, "`group`", "a name", report)?;
    let (group, _) = reader.template(node, "`group`", report)?;
    let text = scalar.text.as_str();
    if text.trim().is_empty() || text.chars().count() > MAX_GROUP || text.chars().any(char::is_control) {
        let message = format!("the name of a group is one line of 1 to {MAX_GROUP} characters");
        report.error(Code::BadValue, node.span, message);
        return None;
    }
    Some(group)
}

/// `budget:` of a pipeline.
pub(super) fn pipeline_budget(node: &Node, report: &mut Report) -> Option<Budget> {
    let fields = read::fields(node, &keys::BUDGET, report)?;
    let mut budget = limits(&fields, node, report);
    if let Some(node) = fields.get("on_exhausted") {
        budget.on_exhausted = match &node.kind {
            Kind::Map(_) => {
                let waits = read::fields(node, &keys::EXHAUSTED, report)?;
                if waits.lacks("wait") {
                    report
                        .error(Code::MissingKey, node.span, "`on_exhausted` does not say how long it waits")
                        .help("write `on_exhausted: { wait: 24h }`, or `on_exhausted: fail`");
                }
                OnExhausted::Wait(read::duration(waits.get("wait")?, "`wait`", report)?)
            }
            Kind::Scalar(scalar) if scalar.text == "wait" => {
                report
                    .error(Code::BadValue, node.span, "`on_exhausted: wait` does not say how long it waits")
                    .help("write `on_exhausted: { wait: 24h }`");
                return None;
            }
            _ => {
                read::word(node, "`on_exhausted`", keys::ON_EXHAUSTED, report)?;
                OnExhausted::Fail
            }
        };
    }
    Some(budget)
}

fn limits(fields: &Fields<'_>, node: &Node, report: &mut Report) -> Budget {
    let names = ["time", "model_calls", "tool_calls", "tokens", "usd"];
    if names.iter().all(|name| fields.lacks(name)) && !fields.has_unknown() {
        report
            .error(Code::BadValue, node.span, "this budget has no limit")
            .help("write one of `time`, `model_calls`, `tool_calls`, `tokens` and `usd`");
    }
    let tally =
        |name: &str, what: &str, report: &mut Report| fields.get(name).and_then(|node| read::tally(node, what, report));
    Budget {
        time: fields.get("time").and_then(|node| read::duration(node, "`time`", report)),
        model_calls: tally("model_calls", "`model_calls`", report),
        tool_calls: tally("tool_calls", "`tool_calls`", report),
        tokens: tally("tokens", "`tokens`", report),
        usd: fields.get("usd").and_then(|node| read::money(node, "`usd`", report)),
        on_exhausted: OnExhausted::Fail,
    }
}

/// A wall of a step above that of the pipeline would never be reached.
fn refuse_above(fields: &Fields<'_>, budget: &Budget, above: &Budget, report: &mut Report) {
    let count = |own: Option<u64>, above: Option<u64>| {
        own.zip(above).filter(|(own, above)| own > above).map(|(_, above)| above.to_string())
    };
    let walls = [
        ("time", budget.time.zip(above.time).filter(|(own, above)| own > above).map(|(_, above)| above.to_string())),
        ("model_calls", count(budget.model_calls, above.model_calls)),
        ("tool_calls", count(budget.tool_calls, above.tool_calls)),
        ("tokens", count(budget.tokens, above.tokens)),
        ("usd", budget.usd.zip(above.usd).filter(|(own, above)| own > above).map(|(_, above)| above.to_string())),
    ];
    for (name, above) in walls {
        if let (Some(above), Some(node)) = (above, fields.get(name)) {
            let message = format!("`{name}` of this step is above that of the pipeline, which is {above}");
            report.error(Code::Conflict, node.span, message).help("the whole flow would end first; lower it");
        }
    }
}
