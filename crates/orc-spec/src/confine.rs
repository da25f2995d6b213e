//! `box:` of pipelines, steps and profiles, and the lists of the same form in the settings.
//!
//! What an entry may be is said in [`orc_domain::confine`]; here it gets a place and advice. An entry is kept in its normal
//! form, so that two lists can be compared. What the settings allow at most is asked for each entry at its place, as far as
//! the settings are known.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::confine::BoxRules;
use orc_domain::confine::network::{Entry, EntryError};
use orc_domain::confine::paths::{self, PathError};

use crate::diagnostic::{Code, Report};
use crate::keys;
use crate::pipeline::{check_variable, is_identifier};
use crate::read;
use crate::settings::Allowance;
use crate::source::Span;
use crate::yaml::{Kind, Name, Node, Scalar};

/// A key of `box:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    Read,
    Write,
    Cache,
    Network,
    Env,
    Secrets,
}

impl Right {
    pub(crate) const ALL: [Self; 6] = [Self::Read, Self::Write, Self::Cache, Self::Network, Self::Env, Self::Secrets];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Cache => "cache",
            Self::Network => "network",
            Self::Env => "env",
            Self::Secrets => "secrets",
        }
    }

    /// What is written for one entry, in help.
    const fn example(self) -> &'static str {
        match self {
            Self::Read => "~/.cargo/bin",
            Self::Write => "/var/cache/tools",
            Self::Cache => "cargo",
            Self::Network => "api.example.com",
            Self::Env => "LANG",
            Self::Secrets => "TOKEN",
        }
    }

    pub(crate) const fn of(self, rules: &BoxRules) -> &BTreeSet<String> {
        match self {
            Self::Read => &rules.read,
            Self::Write => &rules.write,
            Self::Cache => &rules.cache,
            Self::Network => &rules.network,
            Self::Env => &rules.env,
            Self::Secrets => &rules.secrets,
        }
    }

    const fn of_mut(self, rules: &mut BoxRules) -> &mut BTreeSet<String> {
        match self {
            Self::Read => &mut rules.read,
            Self::Write => &mut rules.write,
            Self::Cache => &mut rules.cache,
            Self::Network => &mut rules.network,
            Self::Env => &mut rules.env,
            Self::Secrets => &mut rules.secrets,
        }
    }
}

/// Who has a `box:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A pipeline, or a step that runs a command: secrets reach commands.
    Commands,
    /// A profile, or a step that runs an agent: no secret reaches it.
    Agent,
}

/// Reads `box:`; what is wrong is reported and left out.
pub(crate) fn rules(node: &Node, owner: Owner, allowance: Option<&Allowance>, report: &mut Report) -> BoxRules {
    let mut rules = BoxRules::default();
    let Some(fields) = read::fields(node, &keys::BOX, report) else {
        return rules;
    };
    for right in Right::ALL {
        let Some(field) = fields.entry(right.word()) else {
            continue;
        };
        if (right, owner) == (Right::Secrets, Owner::Agent) {
            report
                .error(Code::Conflict, field.key.span, "secrets exist in `run:` steps only, never in an agent's box")
                .help("let a step with `run:` do what needs the secret, and hand its result on");
            continue;
        }
        let entries = entries(&field.value, right, report);
        for Name { text, span } in &entries {
            if let Some(excess) = allowance.and_then(|allowance| allowance.judge(right, text)) {
                excess.tell(*span, report);
            }
        }
        *right.of_mut(&mut rules) = entries.into_iter().map(|entry| entry.text).collect();
    }
    check_clashes(&rules, &fields, report);
    rules
}

/// Names that would be one variable.
fn check_clashes(rules: &BoxRules, fields: &read::Fields<'_>, report: &mut Report) {
    let place = |right: Right| fields.get(right.word()).map_or(Span::default(), |node| node.span);
    for name in rules.env.intersection(&rules.secrets) {
        let message = format!("`{name}` is a variable of the host and a secret");
        report.error(Code::Conflict, place(Right::Secrets), message).help("name it in one of the lists");
    }
    let mut variables = BTreeMap::new();
    for name in &rules.cache {
        if let Some(first) = variables.insert(name.to_uppercase().replace('-', "_"), name) {
            let message = format!("the caches `{first}` and `{name}` would have the same variable");
            report.error(Code::DuplicateName, place(Right::Cache), message).help("rename one of them");
        }
    }
}

/// The entries of a list in their normal form, each with its place; what cannot be one is reported.
pub(crate) fn entries(node: &Node, right: Right, report: &mut Report) -> Vec<Name> {
    let word = right.word();
    let Kind::List(items) = &node.kind else {
        if node.kind != Kind::Broken {
            let message = format!("`{word}` needs a list");
            let problem = report.error(Code::WrongType, node.span, message);
            match &node.kind {
                Kind::Scalar(scalar) if !scalar.is_null() => {
                    problem.help(format!("write `{word}: [{}]`", read::excerpt(&scalar.text)));
                }
                _ => drop(problem.help(format!("write `{word}: [{}]`", right.example()))),
            }
        }
        return Vec::new();
    };
    let read = |item: &Node, report: &mut Report| Some(Name { text: entry(item, right, report)?, span: item.span });
    items.iter().filter_map(|item| read(item, report)).collect()
}

fn entry(node: &Node, right: Right, report: &mut Report) -> Option<String> {
    let what = format!("`{}`", right.word());
    let text = match &node.kind {
        // Alone it is nothing in YAML, and a home for whoever writes it.
        Kind::Scalar(Scalar { text, .. }) if text == "~" => text,
        _ => &read::scalar(node, &what, "a list of texts", report)?.text,
    };
    if text.contains("${{") {
        report
            .error(Code::Expression, node.span, "an expression cannot say what a box lets through")
            .help("what a box lets through is known before a flow starts; write it out");
        return None;
    }
    match right {
        Right::Read => path(text, paths::parse, node.span, report),
        Right::Write => path(text, paths::parse_writable, node.span, report),
        Right::Network => host(text, node.span, report),
        Right::Cache => {
            if is_identifier(text) {
                return Some(text.clone());
            }
            report
                .error(Code::BadValue, node.span, format!("`{}` cannot be the name of a cache", read::excerpt(text)))
                .help("letters, digits, `_` and `-`, beginning with a letter, at most 64");
            None
        }
        Right::Env | Right::Secrets => {
            let name = Name { text: text.clone(), span: node.span };
            if right == Right::Env && text.contains('=') {
                report
                    .error(Code::BadValue, node.span, "only the name stands here: the value is the host's")
                    .help("write values of your own under `env:` of the pipeline or the step");
                return None;
            }
            check_variable(&name, report).then_some(name.text)
        }
    }
}

fn path(
    text: &str,
    parse: impl Fn(&str) -> Result<String, PathError>,
    place: Span,
    report: &mut Report,
) -> Option<String> {
    let error = match parse(text) {
        Ok(path) => return Some(path),
        Err(error) => error,
    };
    let help = match &error {
        PathError::Relative { .. } if text.starts_with('$') => "write `~/` for the home of whoever runs it",
        PathError::Relative { .. } => {
            "write it as `/opt/tools` or `~/.cargo/bin`; the step's own copy is there without being named"
        }
        PathError::Up { .. } => "write where it leads",
        PathError::Malformed { .. } => "one line without control characters, at most 4096 bytes",
        PathError::Root | PathError::Home { .. } => "name the folders in it that are needed",
        PathError::Kernel { .. } => "remove it",
        PathError::Hidden { .. } => {
            "let a step with `run:` have the one secret that it needs: `box: { secrets: [NAME] }`"
        }
        PathError::System { .. } => "write it under `read:`; what a step makes belongs in its copy or in a `cache:`",
    };
    report.error(Code::BadValue, place, error.to_string()).help(help);
    None
}

fn host(text: &str, place: Span, report: &mut Report) -> Option<String> {
    let error = match text.parse::<Entry>() {
        Ok(entry) => return Some(entry.to_string()),
        Err(error) => error,
    };
    let message = match &error {
        EntryError::Host { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    let help = match &error {
        EntryError::Never { .. } => "remove it",
        _ => "write `example.com`, `*.example.com` or `example.com:8443`",
    };
    report.error(Code::BadValue, place, message).help(help);
    None
}
