//! What rules do not say as well as they could: those that can't be read, never fire, are covered by others, or mean more or
//! less than they look.
//!
//! Nothing here changes what a rule means. In doubt nothing is said: a finding is meant to be acted on.

mod alone;
mod covers;

use serde::Serialize;

use crate::path::Around;
use crate::rule::{Complaint, Rule};
use crate::verdict::{Source, Verdict};

/// A rule of a list, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Which list it stands in.
    pub says: Verdict,
    /// As it is written.
    pub text: String,
    /// Where.
    pub source: Source,
    /// The directory that `/` at the start of a path means.
    pub base: String,
}

/// What is the matter with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It can't be read, so it is in force for nothing.
    Broken,
    /// It names a tool that nobody knows.
    Unknown,
    /// It never fires.
    Never,
    /// Whatever it says, another rule says already, or says more strictly.
    Shadowed,
    /// It means more than it looks.
    Broad,
    /// It means less than it looks.
    Narrow,
}

impl Kind {
    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Unknown => "unknown",
            Self::Never => "never",
            Self::Shadowed => "shadowed",
            Self::Broad => "broad",
            Self::Narrow => "narrow",
        }
    }

    /// Whether the rule does not do what whoever wrote it must have meant.
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Broken)
    }
}

/// One thing that is the matter with a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// Which list the rule stands in.
    pub says: Verdict,
    /// The rule, as it is written.
    pub rule: String,
    /// Where it stands.
    pub source: Source,
    /// The matter, in a sentence.
    pub what: String,
    /// What to do.
    pub hint: String,
}

/// What is the matter with these rules, in their order.
#[must_use]
pub fn lint(written: &[Written]) -> Vec<Finding> {
    let read: Vec<Option<Rule>> = written
        .iter()
        .map(|written| Rule::parse(&written.text, written.says, written.source, &written.base).ok())
        .collect();
    let mut findings = Vec::new();
    for (at, (one, rule)) in written.iter().zip(&read).enumerate() {
        let mut found = |kind: Kind, Complaint { what, hint }: Complaint| {
            let finding = Finding { kind, says: one.says, rule: one.text.clone(), source: one.source, what, hint };
            findings.push(finding);
        };
        let Some(rule) = rule else {
            if let Err(complaint) = Rule::parse(&one.text, one.says, one.source, &one.base) {
                found(Kind::Broken, complaint);
            }
            continue;
        };
        for (kind, complaint) in alone::findings(rule, one.says) {
            found(kind, complaint);
        }
        let others = written.iter().zip(&read).enumerate().filter(|(other, _)| *other != at);
        let others = others.filter_map(|(other, (written, rule))| Some((other, written.says, rule.as_ref()?)));
        if let Some(complaint) = shadow((at, one.says, rule), others) {
            found(Kind::Shadowed, complaint);
        }
    }
    findings
}

/// A place that no rule is about, to compare rules in.
fn nowhere() -> Around {
    let text = |text: &str| text.to_owned();
    Around { cwd: text("/\u{1}copy"), home: text("/\u{1}home"), worktree: text("/\u{1}copy"), ..Around::default() }
}

type Placed<'a> = (usize, Verdict, &'a Rule);

/// The strictest of the other rules that leaves this one nothing to say.
fn shadow<'a>((at, says, rule): Placed<'_>, others: impl Iterator<Item = Placed<'a>>) -> Option<Complaint> {
    let around = nowhere();
    let whole_question = |other: &Rule, other_says: Verdict| {
        other_says == Verdict::Ask && other.is_whole() && other.source != Source::Managed
    };
    let hides = |(other_at, other_says, other): &Placed<'_>| {
        // What is asked about a whole tool is asked where nothing else is said.
        if *other_says < says || (says == Verdict::Allow && whole_question(other, *other_says)) {
            return false;
        }
        let covered = covers::all_of((other, *other_says), (rule, says), &around);
        // Of two that say the same the first one stays.
        let twin = || *other_says == says && covers::all_of((rule, says), (other, *other_says), &around);
        covered && (*other_at < at || !twin())
    };
    let (_, other_says, other) = others.filter(hides).max_by_key(|(_, says, _)| *says)?;
    let whose = format!("`{}` ({})", other.text, other.source.word());
    let what = match (other_says, says) {
        (Verdict::Deny, Verdict::Deny) | (Verdict::Ask, Verdict::Ask) | (Verdict::Allow, _) => {
            format!("all that it covers is covered by {whose}")
        }
        (Verdict::Deny, _) => format!("{whose} denies all that it covers, and a deny is never lifted"),
        (Verdict::Ask, _) => format!("{whose} asks about all that it covers, and a question is not lifted by a grant"),
    };
    let hint = if other_says == says { "leave it out" } else { "leave it out, or make the stricter rule narrower" };
    Some(Complaint { what, hint: hint.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rules: &[(Verdict, &str)]) -> Vec<(Kind, String, String)> {
        let written: Vec<Written> = rules
            .iter()
            .map(|(says, text)| Written {
                says: *says,
                text: (*text).to_owned(),
                source: Source::Project,
                base: "/srv/repo".to_owned(),
            })
            .collect();
        lint(&written)
            .into_iter()
            .map(|found| (found.kind, found.rule, format!("{}; {}", found.what, found.hint)))
            .collect()
    }

    const ALLOW: Verdict = Verdict::Allow;
    const ASK: Verdict = Verdict::Ask;
    const DENY: Verdict = Verdict::Deny;

    #[test]
    fn a_rule_alone_is_judged_by_what_it_means() {
        for (says, rule, kind, words) in [
            (ALLOW, "Bash(git diff*)", Kind::Broad, "git difftool"),
            (ALLOW, "Bash(ls*)", Kind::Broad, "write `Bash(ls *)`"),
            (ALLOW, "Bash(python3 *)", Kind::Broad, "any program"),
            (ALLOW, "Bash(bash:*)", Kind::Broad, "any program"),
            (ALLOW, "Bash(env *)", Kind::Broad, "any command"),
            (ALLOW, "Bash(sudo *)", Kind::Broad, "any command"),
            (ALLOW, "Bash(xargs *)", Kind::Broad, "any command"),
            (ALLOW, "Bash(npx *)", Kind::Broad, "any command"),
            (ALLOW, "Bash(docker exec *)", Kind::Broad, "any command"),
            (ALLOW, "Bash(git *)", Kind::Broad, "git push"),
            (ALLOW, "Bash(git * main)", Kind::Broad, "any number of words"),
            (ALLOW, "Bash", Kind::Broad, "every command"),
            (ALLOW, "Bash(*)", Kind::Broad, "every command"),
            (ALLOW, "Edit", Kind::Broad, "every file"),
            (ALLOW, "Write(src/**)", Kind::Broad, "write `Edit(src/**)`"),
            (DENY, "Grep(src/**)", Kind::Broad, "write `Read(src/**)`"),
            (ALLOW, "WebFetch(domain:*.com)", Kind::Broad, "every host below `com`"),
            (ALLOW, "WebFetch(domain:*example.com)", Kind::Broad, "`evilexample.com`"),
            (DENY, "WebFetch(domain:example.com:8080)", Kind::Never, "a host stands alone"),
            (DENY, "Read(/etc/**)", Kind::Narrow, "write `Read(//etc/**)`"),
            (ALLOW, "Bash(cd src && npm test)", Kind::Never, "one command"),
            (ALLOW, "Bash(echo x > out.txt)", Kind::Never, "write `Edit(PATH)`"),
            (ALLOW, "Bash(a:* b)", Kind::Broken, "`:*` stands in the middle"),
            (DENY, "bash(rm *)", Kind::Broken, "did you mean `Bash`?"),
            (DENY, "bash", Kind::Unknown, "did you mean `Bash`?"),
            (DENY, "mcp_git_push", Kind::Unknown, "mcp__SERVER__TOOL"),
            (ASK, "Bash(", Kind::Broken, "has no `)`"),
        ] {
            let found = of(&[(says, rule)]);
            assert!(found.iter().any(|(found, _, text)| *found == kind && text.contains(words)), "{rule}: {found:?}");
        }
        for (says, rule) in [
            (ALLOW, "Bash(npm test *)"),
            (ALLOW, "Bash(git log *)"),
            (ALLOW, "Bash(git diff:*)"),
            (ALLOW, "Bash(python3 scripts/*)"),
            (ALLOW, "Bash(npm run test*)"),
            (ALLOW, "Bash(docker exec db psql *)"),
            (ALLOW, "Read(//home/dev/docs/**)"),
            (ALLOW, "Edit(src/**)"),
            (ALLOW, "WebFetch(domain:docs.rs)"),
            (ALLOW, "WebFetch(domain:*.example.com)"),
            (ALLOW, "mcp__github__list_issues"),
            (DENY, "Bash(git diff*)"),
            (DENY, "Bash(sudo *)"),
            (DENY, "Bash"),
            (DENY, "mcp__*__delete_*"),
            (ASK, "Effect(gitPush)"),
            (ASK, "Agent(model:opus)"),
            (DENY, "submit_output"),
        ] {
            assert_eq!(of(&[(says, rule)]), [], "{rule}");
        }
    }

    #[test]
    fn a_rule_beside_others_says_something_of_its_own() {
        let shadowed = |rules: &[(Verdict, &str)]| -> Vec<String> {
            of(rules).into_iter().filter(|(kind, ..)| *kind == Kind::Shadowed).map(|(_, rule, _)| rule).collect()
        };
        for (rules, expected) in [
            (&[(DENY, "Bash(aws *)"), (ALLOW, "Bash(aws s3 ls)")][..], &["Bash(aws s3 ls)"][..]),
            (&[(DENY, "Bash(aws s3 rm *)"), (ALLOW, "Bash(aws s3 *)")], &[]),
            (&[(ASK, "Bash(git push *)"), (ALLOW, "Bash(git push origin main)")], &["Bash(git push origin main)"]),
            (&[(ASK, "Bash"), (ALLOW, "Bash(git status *)")], &[]),
            (&[(DENY, "Bash"), (ALLOW, "Bash(git status *)")], &["Bash(git status *)"]),
            (&[(ALLOW, "Bash(npm test *)"), (ALLOW, "Bash(npm test)")], &["Bash(npm test)"]),
            (&[(ALLOW, "Bash(npm test)"), (ALLOW, "Bash(npm test *)")], &["Bash(npm test)"]),
            (&[(ALLOW, "Bash(npm test:*)"), (ALLOW, "Bash(npm test *)")], &["Bash(npm test *)"]),
            (&[(DENY, "Bash(rm *)"), (DENY, "Bash(rm -rf *)")], &["Bash(rm -rf *)"]),
            (&[(DENY, "Bash(git push --force *)"), (ALLOW, "Bash(git push *)")], &[]),
            (&[(DENY, "Read(.env)"), (ALLOW, "Edit(.env)")], &["Edit(.env)"]),
            (&[(DENY, "Edit(src/**)"), (ALLOW, "Read(src/**)")], &[]),
            (&[(DENY, "Read(secrets/**)"), (ALLOW, "Read(./**)")], &[]),
            (&[(DENY, "Read(./**)"), (ALLOW, "Read(src/a.rs)")], &["Read(src/a.rs)"]),
            (&[(ALLOW, "Edit(src/**)"), (ALLOW, "Edit(src/*.rs)")], &["Edit(src/*.rs)"]),
            (&[(ALLOW, "Edit(src/*)"), (ALLOW, "Edit(src/**)")], &["Edit(src/*)"]),
            (
                &[(DENY, "WebFetch(domain:*.example.com)"), (ALLOW, "WebFetch(domain:a.example.com)")],
                &["WebFetch(domain:a.example.com)"],
            ),
            (&[(DENY, "mcp__git"), (ALLOW, "mcp__git__log")], &["mcp__git__log"]),
            (&[(DENY, "Agent(deployer)"), (ALLOW, "Agent(reviewer)")], &[]),
        ] {
            assert_eq!(shadowed(rules), expected, "{rules:?}");
        }
    }
}
