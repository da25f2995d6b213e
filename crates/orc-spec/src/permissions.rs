//! `permissions:` of profiles, pipelines and steps: lists of rules, each of which is read here, so that none is first found
//! to be broken when a call is judged by it.

use std::collections::BTreeSet;

use orc_domain::permission::{Class, Delegate, PermissionMode, Permissions};
use orc_domain::profile::{BuiltIn, Mode};
use orc_policy::rule::{Pattern, Rule};
use orc_policy::verdict::{Source, Verdict};
use orc_policy::view::tool_name;

use crate::diagnostic::{Code, Report};
use crate::keys::{self, Table};
use crate::read::{self, Fields};
use crate::source::Span;
use crate::yaml::{Kind, Node};

/// Reads `permissions:` with the keys of this table.
pub(crate) fn permissions(node: &Node, table: &'static Table, hands: &Hands, report: &mut Report) -> Permissions {
    let Some(fields) = read::fields(node, table, report) else { return Permissions::default() };
    let mut list = |name: &str, verdict| {
        let what = format!("`{name}`");
        let names = fields.get(name).map(|node| read::names(node, &what, report)).unwrap_or_default();
        let rules = names.iter().filter_map(|name| rule(&name.text, verdict, (name.span, &what, hands), report));
        rules.collect()
    };
    let (allow, ask, deny) = (list("allow", Verdict::Allow), list("ask", Verdict::Ask), list("deny", Verdict::Deny));
    let delegate = fields.get("delegate").map(|node| delegates(node, report)).unwrap_or_default();
    let ceiling = fields.get("ceiling").and_then(|node| read::word(node, "`ceiling`", keys::CEILINGS, report));
    let ceiling = ceiling.and_then(|word| Class::ALL.into_iter().find(|class| class.word() == word));
    Permissions { allow, ask, deny, ceiling, delegate }
}

/// `delegate:`.
fn delegates(node: &Node, report: &mut Report) -> Vec<Delegate> {
    let Kind::List(items) = &node.kind else {
        read::wrong_type(
            node,
            "`delegate`",
            "a list such as `[{ to: tester, allow: [\"Bash(npm test *)\"] }]`",
            report,
        );
        return Vec::new();
    };
    let read_one = |node: &Node, report: &mut Report| {
        let fields = read::fields(node, &keys::DELEGATE, report)?;
        if let Some(missing) = ["to", "allow"].into_iter().find(|key| fields.lacks(key)) {
            report
                .error(Code::MissingKey, node.span, format!("this `delegate` does not say `{missing}`"))
                .help("write `{ to: tester, allow: [\"Bash(npm test *)\"] }`");
        }
        let to = read::text(fields.get("to")?, "`to`", report)?;
        let names = read::names(fields.get("allow")?, "`allow`", report);
        let (what, hands) = ("`allow` of `delegate`", Hands::any());
        let rules = names.iter().filter_map(|name| rule(&name.text, Verdict::Allow, (name.span, what, &hands), report));
        Some(Delegate { to, allow: rules.collect() })
    };
    items.iter().filter_map(|item| read_one(item, report)).collect()
}

/// One rule, if it can be read; one that is about nothing is told of.
fn rule(
    text: &str,
    verdict: Verdict,
    (span, what, hands): (Span, &str, &Hands),
    report: &mut Report,
) -> Option<String> {
    if text.contains("${{") {
        report
            .error(Code::BadRule, span, format!("{what}: an expression cannot stand in a rule"))
            .help("rules hold as they are written; write `*` for what differs from flow to flow");
        return None;
    }
    match Rule::parse(text, verdict, Source::Profile, "/") {
        Ok(rule) => {
            hands.warn_of_nothing(&rule, verdict, (span, what), report);
            Some(rule.text)
        }
        Err(complaint) => {
            report.error(Code::BadRule, span, format!("{what}: {}", complaint.what)).help(complaint.hint);
            None
        }
    }
}

/// What `tools:` and `disallowedTools:` of a profile say of parts of tools: grants and denies.
pub(crate) fn of_tools(fields: &Fields<'_>, hands: &Hands, report: &mut Report) -> Permissions {
    let mut list = |name: &str, verdict| -> Vec<String> {
        let what = format!("`{name}`");
        let Some(node) = fields.get(name) else { return Vec::new() };
        // Names that are wrong are told where the tools are read.
        let names = read::names(node, &what, &mut Report::new(""));
        let parts = names.iter().flat_map(|name| split(&name.text).into_iter().map(|part| (part, name.span)));
        let with_more = parts.filter(|(part, _)| part.contains('('));
        with_more.filter_map(|(part, span)| rule(part, verdict, (span, &what, hands), report)).collect()
    };
    let (allow, deny) = (list("tools", Verdict::Allow), list("disallowedTools", Verdict::Deny));
    Permissions { allow, deny, ..Permissions::default() }
}

/// At commas that stand in no parentheses.
pub(crate) fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// `permissionMode:`.
pub(crate) fn mode(node: &Node, report: &mut Report) -> Option<PermissionMode> {
    if read::text(node, "`permissionMode`", &mut Report::new("")).as_deref() == Some(PermissionMode::Auto.word()) {
        report
            .error(Code::NotAvailable, node.span, "`permissionMode: auto` is not available yet: it needs a classifier")
            .help("write `default`: people are asked");
        return None;
    }
    let word = read::word(node, "`permissionMode`", keys::PERMISSION_MODES, report)?;
    PermissionMode::ALL.into_iter().find(|mode| mode.word() == word)
}

/// Tools of whoever rules are for.
pub(crate) struct Hands {
    /// Its own.
    own: BTreeSet<&'static str>,
    /// Those that its denies are about: agents that it starts are under these.
    below: BTreeSet<&'static str>,
}

/// Tools that change files.
const CHANGES: [&str; 3] = ["Write", "Edit", "MultiEdit"];
/// Tools that look at files.
const LOOKS: [&str; 3] = ["Read", "Glob", "Grep"];
/// Tools that touch nothing of anybody's, so that no call of them is judged.
const UNJUDGED: [&str; 3] = ["TodoWrite", "BashOutput", "KillShell"];

impl Hands {
    /// Of any agent.
    pub(crate) fn any() -> Self {
        let all: BTreeSet<_> = keys::TOOLS.iter().copied().collect();
        Self { own: all.clone(), below: all }
    }

    /// Of this agent.
    pub(crate) fn of(agent: &BuiltIn, mode: Mode) -> Self {
        let has = |tool: &&str| {
            agent.tools.as_ref().is_none_or(|tools| tools.contains(*tool))
                && !agent.disallowed_tools.contains(*tool)
                && (mode == Mode::Work || !CHANGES.contains(tool))
                && (*tool != "Agent" || !agent.workers.is_empty())
        };
        let own: BTreeSet<_> = keys::TOOLS.iter().copied().filter(has).collect();
        let below = if agent.workers.is_empty() { own.clone() } else { Self::any().own };
        Self { own, below }
    }

    /// A rule that is about no call that can be made, or about none that is judged.
    fn warn_of_nothing(&self, rule: &Rule, verdict: Verdict, (span, what): (Span, &str), report: &mut Report) {
        let tools = if verdict == Verdict::Deny { &self.below } else { &self.own };
        if tools.iter().any(|tool| is_about(rule, verdict, tool)) {
            return;
        }
        let tool = rule.text.split('(').next().unwrap_or_default().trim();
        if UNJUDGED.contains(&tool) {
            report
                .warning(
                    Code::BadRule,
                    span,
                    format!("{what}: no call of `{tool}` is judged, so this rule does nothing"),
                )
                .help(format!("what takes the tool away is `disallowedTools: [{tool}]` in the profile"));
            return;
        }
        let message = format!("{what}: there is no tool that `{}` could be about", read::excerpt(&rule.text));
        let problem = report.warning(Code::BadRule, span, message).help("leave it out, or see that the tool is there");
        if !keys::TOOLS.contains(&tool) {
            problem.did_you_mean(tool, keys::TOOLS.iter().copied());
        }
    }
}

/// Whether a rule can be about calls of a tool.
fn is_about(rule: &Rule, verdict: Verdict, tool: &str) -> bool {
    // A file is the same file whichever tool touches it, and a command touches files and hosts too.
    let changes = tool == "Bash" || CHANGES.contains(&tool);
    let touches = changes || LOOKS.contains(&tool);
    match &rule.pattern {
        Pattern::Effect(_) | Pattern::Outside(_) => true,
        Pattern::Command(_) => tool == "Bash",
        Pattern::Agent(_) => tool == "Agent",
        Pattern::Host(_) => matches!(tool, "WebFetch" | "Bash"),
        Pattern::Reads(_) => touches,
        Pattern::Edits(_) => changes,
        Pattern::Value { tool: named, .. } => tool == tool_name(named),
        Pattern::Tool(named) => match named.text().as_deref() {
            Some("Read") => touches,
            Some("Edit" | "Write") => changes,
            _ => named.matches(tool) && (verdict == Verdict::Allow || !UNJUDGED.contains(&tool)),
        },
    }
}

#[cfg(test)]
mod tests;
