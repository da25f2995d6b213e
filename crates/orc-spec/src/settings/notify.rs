//! `notifications:`: where people are told of what needs them.
//!
//! No secret stands in a file: an address that is one, and the key that signs, are named by their variable.

use std::collections::BTreeSet;

use crate::diagnostic::{Code, Report};
use crate::keys;
use crate::pipeline::is_variable;
use crate::read::{self, Fields};
use crate::yaml::{Kind, Node};

/// One of `notifications:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Who is told, and how.
    pub target: Target,
    /// What is told.
    pub on: BTreeSet<Moment>,
}

/// Where a notification goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program, with its arguments; what happened is JSON on its standard input.
    Command(Vec<String>),
    /// An address that gets what happened as JSON.
    Webhook {
        /// The address.
        url: Address,
        /// Name of the variable with the secret that signs what is sent.
        secret: Option<String>,
    },
}

/// An address, or where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `https://...`.
    Url(String),
    /// The name of a variable of the host.
    Variable(String),
}

/// What people can be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// A question is asked or repeated.
    Request,
    /// Something is wrong with the installation.
    Incident,
    /// A flow failed.
    FlowFailed,
}

impl Moment {
    /// The word of `on:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Incident => "incident",
            Self::FlowFailed => "flow_failed",
        }
    }
}

const ALL: [Moment; 3] = [Moment::Request, Moment::Incident, Moment::FlowFailed];

pub(super) fn notifications(node: &Node, report: &mut Report) -> Vec<Notification> {
    let Kind::List(items) = &node.kind else {
        read::wrong_type(node, "`notifications`", "a list such as `[{ command: [notify-send, ...] }]`", report);
        return Vec::new();
    };
    items.iter().filter_map(|item| notification(item, report)).collect()
}

fn notification(node: &Node, report: &mut Report) -> Option<Notification> {
    let fields = read::fields(node, &keys::NOTIFICATION, report)?;
    let on = fields.get("on").map(|node| moments(node, report));
    let target = match (fields.get("command"), fields.get("webhook")) {
        (Some(command), None) => {
            if let Some(entry) = fields.entry("secret") {
                report
                    .error(Code::Conflict, entry.key.span, "`secret` has a meaning beside `webhook` only")
                    .help("a command reads its secrets itself");
            }
            Target::Command(argv(command, report)?)
        }
        (None, Some(webhook)) => Target::Webhook { url: address(webhook, report)?, secret: secret(&fields, report) },
        (Some(_), Some(second)) => {
            report
                .error(Code::Conflict, second.span, "a notification has `command` or `webhook`, not both")
                .help("make two of it");
            return None;
        }
        (None, None) => {
            if !fields.has_unknown() {
                report
                    .error(Code::MissingKey, node.span, "this notification does not say where it goes")
                    .help("add `command: [PROGRAM, ARGUMENT]` or `webhook: https://...`");
            }
            return None;
        }
    };
    Some(Notification { target, on: on.unwrap_or_else(|| BTreeSet::from([Moment::Request, Moment::Incident])) })
}

fn argv(node: &Node, report: &mut Report) -> Option<Vec<String>> {
    const WANTED: &str = "a program with its arguments as a list";
    let Kind::List(items) = &node.kind else {
        read::wrong_type(node, "`command`", WANTED, report);
        return None;
    };
    let argv: Vec<Option<String>> = items.iter().map(|item| read::text(item, "`command`", report)).collect();
    let argv = argv.into_iter().collect::<Option<Vec<String>>>()?;
    if argv.first().is_none_or(|program| program.trim().is_empty()) || argv.iter().any(|part| part.contains('\0')) {
        report.error(Code::BadValue, node.span, format!("`command` needs {WANTED}")).help("write `command: [PROGRAM]`");
        return None;
    }
    Some(argv)
}

fn address(node: &Node, report: &mut Report) -> Option<Address> {
    let text = read::text(node, "`webhook`", report)?;
    if let Some(name) = text.strip_prefix("env:") {
        return is_variable(name).then(|| Address::Variable(name.to_owned())).or_else(|| bad_variable(node, report));
    }
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if host.is_some_and(|host| !host.is_empty() && !host.starts_with('/') && !text.contains(char::is_whitespace)) {
        return Some(Address::Url(text));
    }
    let message = format!("`webhook` needs an address, not `{}`", read::excerpt(&text));
    report
        .error(Code::BadValue, node.span, message)
        .help("write `https://...`, or `env:NAME` of a variable that has the address");
    None
}

fn secret(fields: &Fields<'_>, report: &mut Report) -> Option<String> {
    let node = fields.get("secret")?;
    let text = read::text(node, "`secret`", report)?;
    match text.strip_prefix("env:") {
        Some(name) if is_variable(name) => Some(name.to_owned()),
        Some(_) => bad_variable(node, report),
        None => {
            // What stands there may be the secret itself, so it is not repeated.
            report
                .error(Code::BadValue, node.span, "a secret does not stand in a file")
                .help("put it into a variable of the environment, and write `secret: env:NAME`");
            None
        }
    }
}

fn bad_variable<T>(node: &Node, report: &mut Report) -> Option<T> {
    report
        .error(Code::BadValue, node.span, "this cannot be the name of an environment variable")
        .help("letters, digits and `_`, beginning with a letter or `_`: `env:NAME`");
    None
}

fn moments(node: &Node, report: &mut Report) -> BTreeSet<Moment> {
    let items = match &node.kind {
        Kind::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if items.is_empty() {
        report.error(Code::BadValue, node.span, "`on` names nothing, so nobody would be told").help("remove it");
    }
    let words = items.iter().filter_map(|item| read::word(item, "`on`", keys::MOMENTS, report));
    words.filter_map(|word| ALL.into_iter().find(|moment| moment.word() == word)).collect()
}
