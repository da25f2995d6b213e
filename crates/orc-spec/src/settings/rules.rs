//! `permissions:` of settings files, and the rules in settings files of others.

use std::collections::BTreeSet;

use orc_domain::permission::{Permissions, Source};
use orc_policy::rule::Rule;
use orc_policy::verdict::Verdict;
use serde_json::Value;

use super::{Origin, PartialSettings, Setting, highest};
use crate::diagnostic::Report;
use crate::keys;
use crate::permissions::{self, Hands};
use crate::read::{self, Fields};

/// A settings file of others whose rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleFile {
    /// `.claude/settings.json` of the workspace.
    Project,
    /// `.claude/settings.local.json` of the workspace.
    Local,
    /// `~/.claude/settings.json`.
    User,
}

impl RuleFile {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Project, Self::Local, Self::User];

    /// The word of `files:`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Local => "local",
            Self::User => "user",
        }
    }

    /// Where rules of it come from.
    #[must_use]
    pub const fn source(self) -> Source {
        match self {
            Self::Project => Source::Project,
            Self::Local => Source::Local,
            Self::User => Source::User,
        }
    }
}

/// What one source says about rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialRules {
    /// Its own.
    pub permissions: Option<Setting<Permissions>>,
    /// `files:`.
    pub files: Option<Setting<BTreeSet<RuleFile>>>,
    /// `trusted:`.
    pub trusted: Option<Setting<bool>>,
}

/// Rules for all agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSettings {
    /// Those of each file: all of them hold.
    pub sets: Vec<Setting<Permissions>>,
    /// Which files of others are read.
    pub files: Setting<BTreeSet<RuleFile>>,
    /// Whether files of the workspace may grant.
    pub trusted: Setting<bool>,
}

impl PartialRules {
    pub(super) fn read(
        fields: &Fields<'_>,
        origin_of: &dyn Fn(&Fields<'_>, &str) -> Origin,
        report: &mut Report,
    ) -> Self {
        let Some(node) = fields.get("permissions") else { return Self::default() };
        let said = permissions::permissions(node, &keys::PERMISSIONS_OF_ALL, &Hands::any(), report);
        let permissions = Setting { value: said, origin: origin_of(fields, "permissions") };
        // Its keys were told of where its rules were read.
        let Some(inner) = read::fields(node, &keys::PERMISSIONS_OF_ALL, &mut Report::new("")) else {
            return Self { permissions: Some(permissions), ..Self::default() };
        };
        let files = inner.get("files").map(|node| {
            let names = read::names(node, "`files`", report);
            let mut known = BTreeSet::new();
            for name in names {
                match RuleFile::ALL.into_iter().find(|file| file.word() == name.text) {
                    Some(file) => drop(known.insert(file)),
                    None => {
                        let message = format!("`files` can't name `{}`", read::excerpt(&name.text));
                        let problem = report.error(crate::diagnostic::Code::BadValue, name.span, message);
                        problem.did_you_mean(&name.text, keys::RULE_FILES.iter().copied());
                    }
                }
            }
            Setting { value: known, origin: origin_of(&inner, "files") }
        });
        let trusted = inner.get("trusted").and_then(|node| read::boolean(node, "`trusted`", report));
        let trusted = trusted.map(|value| Setting { value, origin: origin_of(&inner, "trusted") });
        Self { permissions: Some(permissions), files, trusted }
    }
}

impl RuleSettings {
    pub(super) fn resolve(layers: &[PartialSettings]) -> Self {
        let own = layers.iter().filter_map(|layer| layer.rules.permissions.clone());
        Self {
            sets: own.filter(|set| !set.value.is_empty()).collect(),
            files: highest(
                layers,
                |layer| layer.rules.files.as_ref(),
                || BTreeSet::from([RuleFile::Project, RuleFile::Local]),
            ),
            trusted: highest(layers, |layer| layer.rules.trusted.as_ref(), || false),
        }
    }

    pub(super) fn rows(&self) -> Vec<(&'static str, String, &Origin)> {
        let mut rows: Vec<_> = self.sets.iter().map(|set| ("permissions", told(&set.value), &set.origin)).collect();
        let files: Vec<&str> = self.files.value.iter().map(|file| file.word()).collect();
        rows.push(("permissions.files", files.join(" "), &self.files.origin));
        rows.push(("permissions.trusted", self.trusted.value.to_string(), &self.trusted.origin));
        rows
    }
}

fn told(said: &Permissions) -> String {
    let lists = [("allow", &said.allow), ("ask", &said.ask), ("deny", &said.deny)];
    let mut parts: Vec<String> = lists
        .iter()
        .filter(|(_, rules)| !rules.is_empty())
        .map(|(name, rules)| format!("{} {name}", rules.len()))
        .collect();
    parts.extend(said.ceiling.map(|ceiling| format!("ceiling {}", ceiling.word())));
    parts.extend((!said.delegate.is_empty()).then(|| format!("{} delegate", said.delegate.len())));
    parts.join(", ")
}

/// The rules in a settings file of others (JSON, `permissions: {allow, ask, deny}`). `may_grant`: whether its grants count. A
/// grant that cannot be read grants nothing.
///
/// # Errors
/// What is wrong with it: one that says what must not happen and cannot be read is not passed over.
pub fn rules_of_file(text: &str, may_grant: bool) -> Result<Permissions, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let said = match root.get("permissions") {
        None | Some(Value::Null) => return Ok(Permissions::default()),
        Some(Value::Object(said)) => said,
        Some(_) => return Err("`permissions` is no object".to_owned()),
    };
    let list = |name: &str, verdict: Verdict| -> Result<Vec<String>, String> {
        let rules = match said.get(name) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(rules)) => rules,
            Some(_) => return Err(format!("`{name}` is no list")),
        };
        let mut read = Vec::new();
        for rule in rules {
            let text = rule.as_str().ok_or_else(|| format!("`{name}` holds what is no text"))?;
            match Rule::parse(text, verdict, Source::Project, "/") {
                Ok(rule) => read.push(rule.text),
                Err(_) if verdict == Verdict::Allow => {}
                Err(complaint) => return Err(format!("`{name}`: `{text}`: {}", complaint.what)),
            }
        }
        Ok(read)
    };
    let (ask, deny) = (list("ask", Verdict::Ask)?, list("deny", Verdict::Deny)?);
    let allow = if may_grant { list("allow", Verdict::Allow)? } else { Vec::new() };
    Ok(Permissions { allow, ask, deny, ..Permissions::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_others_are_read_strictly_where_they_forbid() {
        let text = r#"{"permissions": {"allow": ["Bash(npm test:*)", "Bash("], "ask": ["Bash(git push:*)"],
            "deny": ["Read(./.env)"], "defaultMode": "plan"}, "hooks": {}}"#;
        let said = rules_of_file(text, true).unwrap();
        assert_eq!((said.allow.len(), said.ask.len(), said.deny.len()), (1, 1, 1));
        assert_eq!(rules_of_file(text, false).unwrap().allow, Vec::<String>::new());
        assert_eq!(rules_of_file("{}", true), Ok(Permissions::default()));
        for (text, why) in [
            ("{", "it is no JSON"),
            (r#"{"permissions": []}"#, "`permissions` is no object"),
            (r#"{"permissions": {"deny": "Bash"}}"#, "`deny` is no list"),
            (r#"{"permissions": {"deny": [1]}}"#, "holds what is no text"),
            (r#"{"permissions": {"deny": ["Bash("]}}"#, "`deny`: `Bash(`"),
        ] {
            let said = rules_of_file(text, true).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
