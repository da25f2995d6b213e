//! `people:` and `groups:`: who may answer what, and how they are recognised.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::suggest::closest;

use crate::diagnostic::{Code, Report};
use crate::keys;
use crate::pipeline::is_identifier;
use crate::read;
use crate::yaml::{Entry, Kind, Name, Node};

/// Somebody, as far as this installation knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Number of the user on this machine.
    pub os: Option<u32>,
    /// Number of the account on GitHub.
    pub github: Option<u64>,
    /// What they may do.
    pub role: Role,
}

/// What somebody may do; a greater role may do what a smaller one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look.
    Read,
    /// Start, pause, cancel and retry.
    Operate,
    /// Answer what is asked of them.
    Approve,
    /// Everything.
    Admin,
}

impl Role {
    /// The word of `role:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }
}

pub(super) fn people(node: &Node, report: &mut Report) -> BTreeMap<String, Person> {
    let mut people = BTreeMap::new();
    let mut accounts: BTreeMap<(&str, u64), &Name> = BTreeMap::new();
    for Entry { key, value } in read::map(node, "`people`", report).unwrap_or_default() {
        check_name(key, "a person", report);
        let Some(fields) = read::fields(value, &keys::PERSON, report) else {
            continue;
        };
        let os = fields.get("os").and_then(|node| read::number_within(node, "`os`", 0..=u32::MAX, report));
        let github = fields.get("github").and_then(|node| read::tally(node, "`github`", report));
        let word = fields.get("role").map(|node| read::word(node, "`role`", keys::ROLES, report));
        if fields.lacks("os") && fields.lacks("github") {
            report
                .error(Code::MissingKey, key.span, format!("nothing says how `{}` is recognised", key.text))
                .help("add `os:` with the number of the user on this machine, or `github:` with that of the account");
        }
        for account in
            [os.map(|os| ("os", u64::from(os))), github.map(|number| ("github", number))].into_iter().flatten()
        {
            if let Some(first) = accounts.insert(account, key) {
                let message = format!(
                    "`{}` and `{}` have the same account: `{}: {}`",
                    first.text, key.text, account.0, account.1
                );
                report
                    .error(Code::DuplicateName, key.span, message)
                    .label(first.span, "it belongs to this one")
                    .help("each account belongs to one person");
            }
        }
        let role = match word.flatten() {
            Some("admin") => Role::Admin,
            Some("approve") => Role::Approve,
            Some("operate") => Role::Operate,
            _ => Role::Read,
        };
        people.insert(key.text.clone(), Person { os, github, role });
    }
    people
}

/// `people` are those of the same file, which names of members must be; without any, they stand in another file.
pub(super) fn groups(
    node: &Node,
    people: Option<&BTreeMap<String, Person>>,
    report: &mut Report,
) -> BTreeMap<String, Vec<String>> {
    let mut groups = BTreeMap::new();
    for Entry { key, value } in read::map(node, "`groups`", report).unwrap_or_default() {
        check_name(key, "a group", report);
        if people.is_some_and(|people| people.contains_key(&key.text)) {
            report
                .error(Code::DuplicateName, key.span, format!("`{}` is a person already", key.text))
                .help("people and groups are named at the same places; choose another name");
        }
        if let Kind::Map(_) = &value.kind {
            read::wrong_type(value, &format!("the group `{}`", key.text), "a list of people", report);
            continue;
        }
        let mut members: BTreeSet<String> = BTreeSet::new();
        let mut ordered = Vec::new();
        for Name { text, span } in read::names(value, &format!("the group `{}`", key.text), report) {
            if let Some(people) = people.filter(|people| !people.contains_key(&text)) {
                let message = format!("there is no person `{}`", read::excerpt(&text));
                let problem = report.error(Code::UnknownName, span, message);
                match closest(&text, people.keys().map(String::as_str)) {
                    Some(close) => problem.help(format!("did you mean `{close}`?")),
                    None => problem.help("add them under `people:`; a group has people, not groups"),
                };
            }
            if members.insert(text.clone()) {
                ordered.push(text);
            }
        }
        groups.insert(key.text.clone(), ordered);
    }
    groups
}

fn check_name(name: &Name, what: &str, report: &mut Report) {
    if !is_identifier(&name.text) {
        report
            .error(Code::BadValue, name.span, format!("`{}` cannot be the name of {what}", read::excerpt(&name.text)))
            .help("letters, digits, `_` and `-`, beginning with a letter, at most 64");
    }
}
