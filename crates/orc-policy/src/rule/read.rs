//! From the text of a rule to what it means.

use std::fmt;

use super::{CommandPattern, Pattern};
use crate::glob::{Glob, fold};
use crate::path::PathPattern;
use crate::verdict::Verdict;

/// Classes of effects that `Effect(...)` may name.
pub const EFFECTS: [&str; 13] = [
    "fileDelete",
    "fileWriteOutside",
    "gitCommit",
    "gitPush",
    "prCreate",
    "prPublish",
    "ticketWrite",
    "networkEgress",
    "secretAccess",
    "packageInstall",
    "processSpawn",
    "agentSpawn",
    "settingsWrite",
];

/// Tools that are known by name.
pub const TOOLS: [&str; 20] = [
    "Read",
    "Write",
    "Edit",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "Glob",
    "Grep",
    "LS",
    "Bash",
    "BashOutput",
    "KillShell",
    "WebFetch",
    "WebSearch",
    "TodoWrite",
    "Agent",
    "Task",
    "Skill",
    "ExternalDirectory",
    "Effect",
];

/// What is wrong with a rule, and what may have been meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong.
    pub what: String,
    /// What to write.
    pub hint: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}; {}", self.what, self.hint)
    }
}

fn complaint(what: impl Into<String>, hint: impl Into<String>) -> Complaint {
    Complaint { what: what.into(), hint: hint.into() }
}

/// Reads one.
pub(super) fn pattern(text: &str, verdict: Verdict) -> Result<Pattern, Complaint> {
    if text.is_empty() {
        return Err(complaint("the rule is empty", "write a tool, like `Bash(npm test *)`"));
    }
    if text.chars().any(char::is_control) {
        return Err(complaint("the rule has a control character in it", "write it in one line"));
    }
    let Some((tool, rest)) = text.split_once('(') else {
        return whole(text, verdict);
    };
    let Some(inside) = rest.strip_suffix(')') else {
        return Err(complaint(format!("`{text}` has no `)` at its end"), format!("write `{text})`")));
    };
    let tool = tool.trim();
    if tool.is_empty() {
        return Err(complaint("no tool stands before the parentheses", "write a tool, like `Bash(npm test *)`"));
    }
    let inside = inside.trim();
    if inside.is_empty() {
        return Err(complaint(
            format!("nothing stands between the parentheses of `{text}`"),
            format!("write `{tool}` for the whole tool"),
        ));
    }
    match tool {
        "Bash" => command(inside, verdict),
        "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" => path(inside).map(Pattern::Reads),
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => path(inside).map(Pattern::Edits),
        "ExternalDirectory" => {
            Ok(Pattern::Outside(if matches!(inside, "*" | "**") { None } else { Some(path(inside)?) }))
        }
        "WebFetch" => host(inside),
        "Effect" => {
            let found = EFFECTS.into_iter().find(|effect| *effect == inside);
            let known =
                || complaint(format!("there is no effect `{inside}`"), format!("known are {}", EFFECTS.join(", ")));
            if verdict == Verdict::Allow {
                return Err(complaint(
                    "an effect can't be granted as such",
                    "grant the command or the tool that has it",
                ));
            }
            found.map(Pattern::Effect).ok_or_else(known)
        }
        "Agent" | "Task" => agent(inside),
        _ => value(tool, inside),
    }
}

fn whole(text: &str, verdict: Verdict) -> Result<Pattern, Complaint> {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '*' | '.' | ':');
    if !text.chars().all(plain) {
        return Err(complaint(format!("`{text}` is no name of a tool"), format!("for a command write `Bash({text})`")));
    }
    if matches!(text, "Effect" | "ExternalDirectory") {
        return Err(complaint(
            format!("`{text}` needs something in parentheses"),
            format!("write `{text}(*)`, or what is meant"),
        ));
    }
    if text.contains('*') && text != "*" && verdict == Verdict::Allow {
        let server = text.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")).map(|(server, _)| server);
        if server.is_none_or(|server| server.is_empty() || server.contains('*')) {
            return Err(complaint(
                format!("a grant with a wildcard names the whole server first, and `{text}` does not"),
                "write `mcp__SERVER__*`, or each tool by its name",
            ));
        }
    }
    let text = crate::view::tool_name(text);
    Ok(Pattern::Tool(Glob::of_words(text)))
}

fn command(inside: &str, verdict: Verdict) -> Result<Pattern, Complaint> {
    if let Some((name, value)) =
        inside.split_once(':').filter(|(name, value)| !value.starts_with('*') && !name.contains(' '))
    {
        match name {
            "prefix" => return CommandPattern::parse(&format!("{value}:*"), verdict).map(Pattern::Command),
            "command" => {
                return Err(complaint(
                    "`command:` is what the rule is about anyway, and a rule with it would never fire",
                    format!("write `Bash({value})`"),
                ));
            }
            "description" | "timeout" | "run_in_background" => return value_of("Bash", name, value, verdict),
            _ => {}
        }
    }
    CommandPattern::parse(inside, verdict).map(Pattern::Command)
}

fn path(inside: &str) -> Result<PathPattern, Complaint> {
    PathPattern::parse(inside).map_err(|what| complaint(what, "write a path like `src/**`, `//abs/path` or `~/x`"))
}

fn host(inside: &str) -> Result<Pattern, Complaint> {
    let Some(domain) = inside.strip_prefix("domain:") else {
        let meant = inside.split_once("://").map_or(inside, |(_, rest)| rest).split('/').next().unwrap_or(inside);
        return Err(complaint(format!("`{inside}` is no domain"), format!("write `WebFetch(domain:{meant})`")));
    };
    let domain = domain.trim().trim_end_matches('.').to_lowercase();
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '.' | '*' | ':' | '_');
    if domain.is_empty() || !domain.chars().all(plain) {
        return Err(complaint(format!("`{domain}` is no name of a host"), "write it without a scheme and a path"));
    }
    Ok(Pattern::Host(Glob::of_words(&domain)))
}

fn agent(inside: &str) -> Result<Pattern, Complaint> {
    match inside.split_once(':') {
        Some(("subagent_type" | "name", value)) => {
            Err(complaint("the type of an agent stands alone in the parentheses", format!("write `Agent({value})`")))
        }
        Some((name, value)) => value_of("Agent", name, value, Verdict::Deny),
        None => Ok(Pattern::Agent(Glob::of_words(&fold(inside)))),
    }
}

fn value(tool: &str, inside: &str) -> Result<Pattern, Complaint> {
    let Some((name, value)) = inside.split_once(':') else {
        if let Some(near) = orc_domain::suggest::closest(tool, TOOLS).filter(|near| *near != tool) {
            return Err(complaint(format!("there is no tool `{tool}`"), format!("did you mean `{near}`?")));
        }
        return Err(complaint(
            format!("`{tool}` takes no `{inside}`"),
            format!("write `{tool}` for the whole tool, or `{tool}(NAME:VALUE)` for one value of its input"),
        ));
    };
    value_of(tool, name, value, Verdict::Deny)
}

fn value_of(tool: &str, name: &str, value: &str, verdict: Verdict) -> Result<Pattern, Complaint> {
    if verdict == Verdict::Allow {
        return Err(complaint(
            "one value of an input can't grant a call",
            format!("write `{tool}`, or what it is about"),
        ));
    }
    let plain = !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'));
    if !plain {
        return Err(complaint(format!("`{name}` is no name of a value"), format!("write `{tool}(NAME:VALUE)`")));
    }
    Ok(Pattern::Value { tool: tool.to_owned(), name: name.to_owned(), value: Glob::of_words(value.trim()) })
}
