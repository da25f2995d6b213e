//! Whether a rule leaves another one nothing to say. Wildcards of the other are tried with letters that no rule has: what
//! covers those covers everything.

use crate::glob::{Glob, Token};
use crate::path::{Around, PathOf};
use crate::rule::{CommandPattern, Meet, Pattern, Rule};
use crate::verdict::Verdict;
use crate::view::{Arg, Part};

/// For a wildcard.
const LETTER: &str = "\u{2}";

/// Whether the first covers all that the second does.
pub(super) fn all_of((by, by_says): (&Rule, Verdict), (rule, says): (&Rule, Verdict), around: &Around) -> bool {
    let strict = by_says > Verdict::Allow;
    match (&by.pattern, &rule.pattern) {
        (Pattern::Tool(tool), other) => covers_tool(tool, other),
        (Pattern::Command(by), Pattern::Command(other)) => covers_command(by, other, strict),
        (Pattern::Reads(pattern), Pattern::Reads(other)) | (Pattern::Edits(pattern), Pattern::Edits(other)) => {
            let paths = other.samples(around, &rule.base, says);
            paths.iter().all(|path| covers_path((by, pattern), path, around, strict))
        }
        // What may not be read may not be changed; what may be changed may be read.
        (Pattern::Reads(pattern), Pattern::Edits(other)) if strict => {
            let paths = other.samples(around, &rule.base, says);
            paths.iter().all(|path| covers_path((by, pattern), path, around, true))
        }
        (Pattern::Edits(pattern), Pattern::Reads(other)) if !strict => {
            let paths = other.samples(around, &rule.base, says);
            paths.iter().all(|path| covers_path((by, pattern), path, around, false))
        }
        (Pattern::Host(by), Pattern::Host(other)) | (Pattern::Agent(by), Pattern::Agent(other)) => {
            by.matches(&sample(other))
        }
        (by, other) => by == other,
    }
}

fn covers_tool(tool: &Glob, other: &Pattern) -> bool {
    let name = match other {
        Pattern::Tool(other) => sample(other),
        Pattern::Command(_) => "Bash".to_owned(),
        Pattern::Reads(_) => "Read".to_owned(),
        Pattern::Edits(_) => "Edit".to_owned(),
        Pattern::Host(_) => "WebFetch".to_owned(),
        Pattern::Agent(_) => "Agent".to_owned(),
        Pattern::Value { tool, .. } => tool.clone(),
        Pattern::Outside(_) | Pattern::Effect(_) => return false,
    };
    let server = tool.text().is_some_and(|tool| tool.starts_with("mcp__") && name.starts_with(&format!("{tool}__")));
    tool.matches(&name) || server
}

fn covers_command(by: &CommandPattern, other: &CommandPattern, strict: bool) -> bool {
    let words = other.words().iter().map(|word| Arg { glob: Glob::of_words(word), ..Arg::default() });
    let part = Part { words: words.collect(), outer: true, ..Part::default() };
    if part.words.is_empty() {
        return by.is_any();
    }
    if strict {
        return by.could_be(&part) == Meet::Certain;
    }
    by.is(&part, false) && (by.is_open() || !other.is_open())
}

fn covers_path(
    (rule, pattern): (&Rule, &crate::path::PathPattern),
    path: &Glob,
    around: &Around,
    strict: bool,
) -> bool {
    if !strict {
        return pattern.covers_text(path, around, &rule.base);
    }
    let path =
        PathOf { written: String::new(), place: path.clone(), target: path.clone(), exact: true, unknown: false };
    pattern.covers_some(&path, around, &rule.base)
}

/// A text that a pattern stands for.
fn sample(glob: &Glob) -> String {
    glob.tokens().iter().fold(String::new(), |mut text, token| {
        match token {
            Token::Is(letter) => text.push(*letter),
            Token::One | Token::Some | Token::Any => text.push_str(LETTER),
        }
        text
    })
}
