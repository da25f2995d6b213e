//! `approval:` and `wait:`: steps that run nothing and hold no slot.

use orc_domain::action::{
    ApprovalAction, DEFAULT_APPROVAL_TIMEOUT, DEFAULT_EVENT_TIMEOUT, OnTimeout, Tier, WaitAction, WaitEvent,
};
use orc_domain::expr::{Template, TemplatePart};
use orc_domain::suggest::closest;
use orc_domain::time::{Millis, Timestamp};

use super::step::Draft;
use super::view::View;
use crate::diagnostic::{Code, Report};
use crate::keys;
use crate::read;
use crate::yaml::{Kind, Name, Node, Scalar};

impl Draft<'_> {
    pub(super) fn approval(&self, view: &View<'_>, report: &mut Report) -> Option<ApprovalAction> {
        let node = self.field("approval")?;
        let mut approval = ApprovalAction {
            by: Vec::new(),
            message: None,
            timeout: DEFAULT_APPROVAL_TIMEOUT,
            on_timeout: OnTimeout::Deny,
            remind: None,
            tiers: Vec::new(),
            four_eyes: false,
        };
        let is_names = match &node.kind {
            Kind::Scalar(scalar) => !scalar.is_null(),
            Kind::List(_) => true,
            Kind::Map(_) | Kind::Broken => false,
        };
        if is_names {
            approval.by = people(node, "`approval`", view, report);
            return Some(approval);
        }
        if let Kind::Scalar(_) = &node.kind {
            report
                .error(Code::WrongType, node.span, "`approval` needs people, or a map of its keys, not nothing")
                .help("write `approval: [NAME]`, or `approval: {}` for whoever has the role admin");
            return None;
        }
        let fields = read::fields(node, &keys::APPROVAL, report)?;
        approval.by = fields.get("by").map(|node| people(node, "`by`", view, report)).unwrap_or_default();
        if let Some(node) = fields.get("message") {
            let names = view.names("`message`", true);
            approval.message = Some(view.reader(&names).template(node, "`message`", report)?.0);
        }
        let timeout = fields.get("timeout").and_then(|node| read::duration(node, "`timeout`", report));
        approval.timeout = timeout.unwrap_or(DEFAULT_APPROVAL_TIMEOUT);
        let on_timeout =
            fields.get("on_timeout").and_then(|node| read::word(node, "`on_timeout`", keys::ON_TIMEOUT, report));
        if on_timeout == Some("approve") {
            approval.on_timeout = OnTimeout::Approve;
        }
        if let Some(node) = fields.get("remind") {
            approval.remind = read::duration(node, "`remind`", report);
            within(approval.remind, &approval, node, "`remind`", report);
        }
        approval.tiers = fields.get("tiers").map(|node| tiers(node, &approval, view, report)).unwrap_or_default();
        let four_eyes = fields.get("four_eyes").and_then(|node| read::boolean(node, "`four_eyes`", report));
        approval.four_eyes = four_eyes.unwrap_or(false);
        Some(approval)
    }

    pub(super) fn wait(&self, view: &View<'_>, report: &mut Report) -> Option<WaitAction> {
        let node = self.field("wait")?;
        let names = view.names("`wait`", true);
        let template = |node: &Node, what: &str, report: &mut Report| {
            read::scalar(node, what, "a time", report)?;
            Some(view.reader(&names).template(node, what, report)?.0)
        };
        if let Kind::Scalar(scalar) = &node.kind {
            if Timestamp::parse(&scalar.text).is_some() {
                report
                    .error(Code::BadValue, node.span, "`wait` needs a length of time, and this is a point in time")
                    .help(format!("write `wait: {{ until: \"{}\" }}`", scalar.text));
                return None;
            }
            let length = template(node, "`wait`", report)?;
            check_length(&length, node, "`wait`", report)?;
            return Some(WaitAction::For(length));
        }
        let fields = read::fields(node, &keys::WAIT, report)?;
        let kinds: Vec<&str> = ["for", "until", "event"].into_iter().filter(|key| fields.get(key).is_some()).collect();
        let [kind] = kinds.as_slice() else {
            if !fields.has_unknown() {
                report
                    .error(Code::Conflict, node.span, "`wait` needs one of `for`, `until` and `event`")
                    .help("write `wait: 10m`, `wait: { until: ... }` or `wait: { event: FlowFinished }`");
            }
            return None;
        };
        if *kind != "event" {
            for name in ["pipeline", "timeout"] {
                if let Some(entry) = fields.entry(name) {
                    let message = format!("`{name}` has a meaning beside `event` only");
                    report.error(Code::Conflict, entry.key.span, message).help("remove it");
                }
            }
        }
        let node = fields.get(kind)?;
        match *kind {
            "for" => {
                let length = template(node, "`for`", report)?;
                check_length(&length, node, "`for`", report)?;
                Some(WaitAction::For(length))
            }
            "until" => {
                let time = template(node, "`until`", report)?;
                check_time(&time, node, report)?;
                Some(WaitAction::Until(time))
            }
            _ => {
                let event = event(node, report);
                let pipeline = match fields.get("pipeline") {
                    Some(node) => Some(template(node, "`pipeline`", report)?),
                    None => None,
                };
                let timeout = fields.get("timeout").and_then(|node| read::duration(node, "`timeout`", report));
                Some(WaitAction::Event { event: event?, pipeline, timeout: timeout.unwrap_or(DEFAULT_EVENT_TIMEOUT) })
            }
        }
    }
}

/// Names of people and groups; those that the settings do not have are reported, where the settings are known.
fn people(node: &Node, what: &str, view: &View<'_>, report: &mut Report) -> Vec<String> {
    if matches!(&node.kind, Kind::List(items) if items.is_empty()) {
        report
            .error(Code::BadValue, node.span, format!("{what} names nobody"))
            .help("name people or groups of the settings; without names, whoever has the role admin may answer");
        return Vec::new();
    }
    let mut names: Vec<String> = Vec::new();
    for Name { text, span } in read::names(node, what, report) {
        if let Some(known) = view.shared.library.people
            && !known.contains(&text)
        {
            let message = format!("the settings have no person and no group `{}`", read::excerpt(&text));
            let problem = report.error(Code::UnknownName, span, message);
            match closest(&text, known.iter().map(String::as_str)) {
                Some(close) => problem.help(format!("did you mean `{close}`?")),
                None => problem.help("add it under `people:` or `groups:` in orchestrator.yaml"),
            };
        }
        if !names.contains(&text) {
            names.push(text);
        }
    }
    names
}

fn within(time: Option<Millis>, approval: &ApprovalAction, node: &Node, what: &str, report: &mut Report) -> bool {
    if time.is_none_or(|time| time < approval.timeout) {
        return true;
    }
    let message = format!("{what} is not before the `timeout`, which is {}", approval.timeout);
    report.error(Code::Conflict, node.span, message).help("make it shorter, or the `timeout` longer");
    false
}

fn tiers(node: &Node, approval: &ApprovalAction, view: &View<'_>, report: &mut Report) -> Vec<Tier> {
    let Kind::List(items) = &node.kind else {
        read::wrong_type(node, "`tiers`", "a list of maps such as `{ after: 1d, by: [leads] }`", report);
        return Vec::new();
    };
    let mut tiers: Vec<Tier> = Vec::new();
    for item in items {
        let Some(fields) = read::fields(item, &keys::TIER, report) else {
            continue;
        };
        for name in ["after", "by"] {
            if fields.lacks(name) {
                let help = "write `{ after: 1d, by: [leads] }`";
                report.error(Code::MissingKey, item.span, format!("this tier has no `{name}`")).help(help);
            }
        }
        let by = fields.get("by").map(|node| people(node, "`by`", view, report));
        let Some(node) = fields.get("after") else {
            continue;
        };
        let Some(after) = read::duration(node, "`after`", report) else {
            continue;
        };
        if let Some(last) = tiers.last().filter(|last| last.after >= after) {
            let message = format!("this tier is not after the one before it, which is after {}", last.after);
            report.error(Code::Conflict, node.span, message).help("write the tiers in order of time");
        }
        within(Some(after), approval, node, "`after`", report);
        tiers.push(Tier { after, by: by.unwrap_or_default() });
    }
    tiers
}

/// The text of a template without expressions.
fn literal(template: &Template) -> Option<String> {
    template
        .parts
        .iter()
        .map(|part| match part {
            TemplatePart::Literal(text) => Some(text.as_str()),
            TemplatePart::Expr(_) => None,
        })
        .collect()
}

/// A length of time that is written out; one that an expression gives is checked when it is used.
fn check_length(length: &Template, node: &Node, what: &str, report: &mut Report) -> Option<()> {
    match literal(length) {
        Some(_) => read::duration(node, what, report).map(|_| ()),
        None => Some(()),
    }
}

fn check_time(time: &Template, node: &Node, report: &mut Report) -> Option<()> {
    let Some(text) = literal(time) else {
        return Some(());
    };
    if Timestamp::parse(&text).is_some() {
        return Some(());
    }
    let message = format!("`until` needs a time such as `2026-12-24T18:00:00Z`, not `{}`", read::excerpt(&text));
    let problem = report.error(Code::BadValue, node.span, message);
    if Millis::parse(&text).is_some() {
        problem.help(format!("for a length of time write `wait: {text}`"));
    } else {
        problem.help("date, `T`, time and offset: `Z` for UTC, or `+01:00`");
    }
    None
}

/// The event that is waited for; those that the design names and nothing produces yet are refused by name.
fn event(node: &Node, report: &mut Report) -> Option<WaitEvent> {
    if let Kind::Scalar(Scalar { text, .. }) = &node.kind
        && keys::LATER_EVENTS.contains(&text.as_str())
    {
        report.error(Code::NotAvailable, node.span, format!("the event `{text}` is not available yet"));
        return None;
    }
    let word = read::word(node, "`event`", keys::WAIT_EVENTS, report)?;
    WaitEvent::ALL.iter().copied().find(|event| event.word() == word)
}
