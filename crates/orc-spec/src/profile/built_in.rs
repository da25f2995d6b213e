//! What only the built-in agent understands.

use std::collections::BTreeSet;

use orc_domain::profile::{BuiltIn, Effort};

use super::first_key;
use crate::diagnostic::{Code, Report};
use crate::keys;
use crate::read::{self, Fields};
use crate::source::Span;
use crate::yaml::{Kind, Node};

/// Reads it; `None` when something is wrong, which is reported.
pub(super) fn read(
    fields: &Fields<'_>,
    (root, known): (&Node, Option<&BTreeSet<String>>),
    report: &mut Report,
) -> Option<BuiltIn> {
    if let Some(entry) = fields.entry("command") {
        report
            .error(Code::NotHonoured, entry.key.span, "the built-in agent is no program, and cannot honour `command`")
            .help("write `adapter: command` if this program is the agent, or remove this key");
    }
    if fields.lacks("model") {
        report
            .error(Code::MissingKey, first_key(root), "the built-in agent needs to know which model it asks")
            .help("add `model: claude-sonnet-4-5`, or another; a program of your own needs `adapter: command`");
    }
    let tools = fields.get("tools").map(|node| tools(node, "`tools`", report));
    let disallowed_tools = fields.get("disallowedTools").map(|node| tools_of(node, "`disallowedTools`", report));
    let max_turns = fields.get("maxTurns").map(|node| read::count(node, "`maxTurns`", keys::MAX_TURNS, report));
    let fallbacks = fields.get("fallback_models").map(|node| names(node, "`fallback_models`", report));
    let effort = fields.get("effort").map(|node| effort(node, report));
    let memory = fields.get("memory").map(|node| read::boolean(node, "`memory`", report));
    let git = fields.get("git").map(|node| read::boolean(node, "`git`", report));
    let workers = fields.get("workers").map(|node| workers(node, known, report));
    let plain = BuiltIn::default();
    let read = BuiltIn {
        tools: tools.unwrap_or(Some(None))?,
        disallowed_tools: disallowed_tools.unwrap_or_default(),
        max_turns: max_turns.map_or(Some(None), |read| read.map(Some))?,
        fallback_models: fallbacks.unwrap_or_default(),
        effort: effort.map_or(Some(None), |read| read.map(Some))?,
        memory: memory.unwrap_or(Some(plain.memory))?,
        git: git.unwrap_or(Some(plain.git))?,
        workers: workers.unwrap_or_default(),
    };
    if !report.has_errors() {
        warn_of_none(&read, fields, report);
    }
    Some(read)
}

fn tools(node: &Node, what: &str, report: &mut Report) -> Option<Option<BTreeSet<String>>> {
    Some(Some(tools_of(node, what, report)))
}

/// Names of tools: a list, or one text with commas, as people write it who come from elsewhere.
fn tools_of(node: &Node, what: &str, report: &mut Report) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in read::names(node, what, report) {
        for part in crate::permissions::split(&name.text) {
            let is_denied_part = part.contains('(') && what == "`disallowedTools`";
            if is_denied_part {
                // The rest of the tool stays.
                continue;
            }
            if let Some(tool) = tool(part, name.span, what, report) {
                found.insert(tool);
            }
        }
    }
    found
}

fn tool(name: &str, span: Span, what: &str, report: &mut Report) -> Option<String> {
    // What stands in parentheses is a rule, which is read with the others.
    let name = name.split_once('(').map_or(name, |(tool, _)| tool.trim());
    if name.starts_with("mcp__") {
        report
            .error(
                Code::NotAvailable,
                span,
                format!("tools of servers, like `{}`, are not available yet", read::excerpt(name)),
            )
            .help("remove it");
        return None;
    }
    let name = if name == "Task" { "Agent" } else { name };
    if matches!(name, "submit_output" | "report_blocked") {
        report
            .error(
                Code::BadValue,
                span,
                format!("{what} cannot name `{name}`: whoever owes something can always deliver it"),
            )
            .help("remove it");
        return None;
    }
    if keys::TOOLS.contains(&name) {
        return Some(name.to_owned());
    }
    let message = format!("{what}: there is no tool `{}`", read::excerpt(name));
    report
        .error(Code::BadValue, span, message)
        .help(format!("there are {}", keys::TOOLS.join(", ")))
        .did_you_mean(name, keys::TOOLS.iter().copied());
    None
}

fn names(node: &Node, what: &str, report: &mut Report) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in read::names(node, what, report) {
        let text = name.text.trim();
        if text.is_empty() || text.chars().any(char::is_control) {
            report.error(Code::BadValue, name.span, format!("{what}: a name is not empty"));
        } else if !found.iter().any(|known| known == text) {
            found.push(text.to_owned());
        }
    }
    found
}

/// Agents that there are; where that is not known, whoever compiles the pipeline finds them or not.
fn workers(node: &Node, known: Option<&BTreeSet<String>>, report: &mut Report) -> Vec<String> {
    let found = names(node, "`workers`", report);
    for name in found.iter().filter(|name| known.is_some_and(|known| !known.contains(*name))) {
        let others = known.into_iter().flatten().map(String::as_str);
        report
            .error(Code::UnknownName, node.span, format!("`workers`: there is no agent `{}`", read::excerpt(name)))
            .did_you_mean(name, others);
    }
    found
}

fn effort(node: &Node, report: &mut Report) -> Option<Effort> {
    let word = read::word(node, "`effort`", keys::EFFORTS, report)?;
    Effort::ALL.into_iter().find(|effort| effort.word() == word)
}

/// An agent without hands is most likely a mistake.
fn warn_of_none(read: &BuiltIn, fields: &Fields<'_>, report: &mut Report) {
    let has = |tool: &&&str| {
        read.tools.as_ref().is_none_or(|tools| tools.contains(**tool)) && !read.disallowed_tools.contains(**tool)
    };
    let node = fields.get("disallowedTools").or_else(|| fields.get("tools"));
    if let (None, Some(node), Kind::List(_) | Kind::Scalar(_)) =
        (keys::TOOLS.iter().find(has), node, node.map_or(&Kind::List(Vec::new()), |node| &node.kind))
    {
        report
            .warning(Code::BadValue, node.span, "this agent has no tool at all: it can only answer")
            .help("leave one of `tools` and `disallowedTools` out");
    }
}
