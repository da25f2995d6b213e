//! `permissions:` of profiles, pipelines and steps: lists of rules, each of which is read here, so that none is first found
//! to be broken when a call is judged by it.

use orc_domain::permission::{Class, PermissionMode, Permissions};
use orc_policy::rule::Rule;
use orc_policy::verdict::{Source, Verdict};

use crate::diagnostic::{Code, Report};
use crate::keys::{self, Table};
use crate::read::{self, Fields};
use crate::source::Span;
use crate::yaml::Node;

/// Reads `permissions:` with the keys of this table.
pub(crate) fn permissions(node: &Node, table: &'static Table, report: &mut Report) -> Permissions {
    let Some(fields) = read::fields(node, table, report) else { return Permissions::default() };
    let mut list = |name: &str, verdict| {
        let what = format!("`{name}`");
        fields.get(name).map(|node| rules(node, &what, verdict, report)).unwrap_or_default()
    };
    let (allow, ask, deny) = (list("allow", Verdict::Allow), list("ask", Verdict::Ask), list("deny", Verdict::Deny));
    let ceiling = fields.get("ceiling").and_then(|node| read::word(node, "`ceiling`", keys::CEILINGS, report));
    let ceiling = ceiling.and_then(|word| Class::ALL.into_iter().find(|class| class.word() == word));
    Permissions { allow, ask, deny, ceiling }
}

fn rules(node: &Node, what: &str, verdict: Verdict, report: &mut Report) -> Vec<String> {
    let names = read::names(node, what, report);
    names.into_iter().filter_map(|name| rule(&name.text, verdict, (name.span, what), report)).collect()
}

/// One rule, if it can be read.
pub(crate) fn rule(text: &str, verdict: Verdict, (span, what): (Span, &str), report: &mut Report) -> Option<String> {
    match Rule::parse(text, verdict, Source::Profile, "/") {
        Ok(rule) => Some(rule.text),
        Err(complaint) => {
            report.error(Code::BadRule, span, format!("{what}: {}", complaint.what)).help(complaint.hint);
            None
        }
    }
}

/// What `tools:` and `disallowedTools:` of a profile say of parts of tools: grants and denies.
pub(crate) fn of_tools(fields: &Fields<'_>, report: &mut Report) -> Permissions {
    let mut list = |name: &str, verdict| -> Vec<String> {
        let what = format!("`{name}`");
        let Some(node) = fields.get(name) else { return Vec::new() };
        // Names that are wrong are told where the tools are read.
        let names = read::names(node, &what, &mut Report::new(""));
        let parts = names.iter().flat_map(|name| split(&name.text).into_iter().map(|part| (part, name.span)));
        let with_more = parts.filter(|(part, _)| part.contains('('));
        with_more.filter_map(|(part, span)| rule(part, verdict, (span, &what), report)).collect()
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
