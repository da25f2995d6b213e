//! A call as people write it: `Bash(npm test)`, `Read(src/a.rs)`, `mcp__git__log({"repo": "."})`.

use serde_json::{Map, Value, json};

use super::{Call, Family, family, tool_name};
use crate::rule::Complaint;

impl Call {
    /// Reads one. What stands in the parentheses is the one thing that the tool is about, or its whole input as JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn written(text: &str) -> Result<Self, Complaint> {
        let complaint = |what: String, hint: &str| Complaint { what, hint: hint.to_owned() };
        let text = text.trim();
        let (tool, inside) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(inside) => (tool.trim(), Some(inside)),
                None => {
                    return Err(complaint(
                        format!("`{text}` has no `)` at its end"),
                        "write all of it in single quotes, like 'Bash(npm test)'",
                    ));
                }
            },
        };
        let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | ':');
        if tool.is_empty() || !tool.chars().all(plain) {
            return Err(complaint(
                format!("`{tool}` is no name of a tool"),
                "write a tool and what it is called with, like 'Bash(npm test)'",
            ));
        }
        let Some(inside) = inside.map(str::trim).filter(|inside| !inside.is_empty()) else {
            return Ok(Self::new(tool, Value::Object(Map::new())));
        };
        if inside.starts_with('{')
            && let Ok(input @ Value::Object(_)) = serde_json::from_str(inside)
        {
            return Ok(Self::new(tool, input));
        }
        let input = match family(tool_name(tool)) {
            Family::Shell => json!({ "command": inside }),
            Family::Looks if matches!(tool, "Glob" | "Grep" | "LS") => json!({ "path": inside }),
            Family::Looks | Family::Edits => json!({ "file_path": inside }),
            Family::Web => json!({ "url": inside }),
            Family::Agent => json!({ "subagent_type": inside }),
            _ => {
                return Err(complaint(
                    format!("what `{tool}` is called with is no JSON object"),
                    "write its input, like 'mcp__git__log({\"repo\": \".\"})'",
                ));
            }
        };
        Ok(Self::new(tool, input))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_people_write_them() {
        for (text, tool, input) in [
            ("Bash(rm -rf build && (ls))", "Bash", json!({ "command": "rm -rf build && (ls)" })),
            ("Bash({ ls; })", "Bash", json!({ "command": "{ ls; }" })),
            ("Read(src/a.rs)", "Read", json!({ "file_path": "src/a.rs" })),
            ("Grep(src)", "Grep", json!({ "path": "src" })),
            ("Task(reviewer)", "Task", json!({ "subagent_type": "reviewer" })),
            ("WebFetch(https://docs.rs/)", "WebFetch", json!({ "url": "https://docs.rs/" })),
            ("mcp__git__log({\"repo\": \".\"})", "mcp__git__log", json!({ "repo": "." })),
            ("TodoWrite", "TodoWrite", json!({})),
        ] {
            assert_eq!(Call::written(text), Ok(Call::new(tool, input)), "{text}");
        }
        for (text, what) in [
            ("Bash(npm test", "has no `)`"),
            ("npm test", "`npm test` is no name of a tool"),
            ("(ls)", "`` is no name of a tool"),
            ("mcp__git__log(repo)", "is no JSON object"),
        ] {
            assert!(Call::written(text).unwrap_err().what.contains(what), "{text}");
        }
    }
}
