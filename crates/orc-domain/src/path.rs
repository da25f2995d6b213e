//! The name of a step instance inside its flow: `implement`, `implement[3]`, `review~2`, `build{os=linux}`, `plan/api`.
//!
//! Paths appear in logs, branches, refs and status. Only `orc-engine`'s expansion makes them; a path that is read back
//! (command line, rows) is checked against the same grammar.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A step's path; unique in its flow.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepPath(String);

/// A text that is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a step path: it is a step's key, with `[3]` for an element, `~2` for a round, `{{os=linux}}` for a matrix, `/` below an expansion"
)]
pub struct PathError {
    text: String,
}

/// Whether `text` may be a step's key: letters, digits, `_` and `-`, beginning with a letter, at most 64 characters.
#[must_use]
pub fn is_step_key(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
    starts_well && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl StepPath {
    /// The instance of a step that is not below any other. `key` has passed [`is_step_key`] in the compiler.
    #[must_use]
    pub fn root(key: &str) -> Self {
        Self(key.to_owned())
    }

    /// The element at `index` of this fan-out: `implement[3]`.
    #[must_use]
    pub fn element(&self, index: u32) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// A step of the body of this `repeat` in a round: `check~2/test`.
    #[must_use]
    pub fn in_round(&self, number: u32, key: &str) -> Self {
        Self(format!("{}~{number}/{key}", self.0))
    }

    /// The element of this fan-out for a combination of a `matrix`: `build{os=linux}`. Other characters than letters,
    /// digits, `.`, `_` and `-` become `%` and two hexadecimal digits each, so that distinct combinations stay distinct.
    #[must_use]
    pub fn cell<'a>(&self, axes: impl Iterator<Item = (&'a str, String)>) -> Self {
        let axes: Vec<String> = axes.map(|(axis, value)| format!("{axis}={}", escape(&value))).collect();
        Self(format!("{}{{{}}}", self.0, axes.join(",")))
    }

    /// The step that made it: the fan-out of an element, the `repeat` of a step of a round.
    #[must_use]
    pub fn above(&self) -> Option<Self> {
        let above = match self.0.chars().next_back() {
            Some(']') => self.0.rsplit_once('[')?.0,
            Some('}') => self.0.rsplit_once('{')?.0,
            _ => self.0.rsplit_once('/')?.0.rsplit_once('~')?.0,
        };
        Some(Self(above.to_owned()))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form for file names: only letters, digits, `-`, `_` and `.`; distinct paths stay distinct because every other
    /// character becomes `%` and its two hexadecimal digits.
    #[must_use]
    pub fn file_name(&self) -> String {
        escape(&self.0)
    }
}

fn escape(text: &str) -> String {
    let mut name = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || byte == b'.' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

impl fmt::Display for StepPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for StepPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let well_formed = text.len() <= 1024 && !text.is_empty() && text.split('/').all(is_path_part);
        if well_formed { Ok(Self(text.to_owned())) } else { Err(PathError { text: text.to_owned() }) }
    }
}

/// A key followed by any number of `[n]`, `~n`, `{...}`.
fn is_path_part(part: &str) -> bool {
    let key_len = part.find(['[', '~', '{']).unwrap_or(part.len());
    if !is_step_key(&part[..key_len]) {
        return false;
    }
    let mut rest = &part[key_len..];
    while !rest.is_empty() {
        let (inner, after) = match rest.as_bytes()[0] {
            b'[' => match rest[1..].split_once(']') {
                Some(split) => split,
                None => return false,
            },
            b'~' => {
                let end = rest[1..].find(['[', '~', '{']).map_or(rest.len(), |at| at + 1);
                (&rest[1..end], &rest[end..])
            }
            b'{' => match rest[1..].split_once('}') {
                Some((inner, after)) if inner.contains('=') => {
                    rest = after;
                    continue;
                }
                _ => return false,
            },
            _ => return false,
        };
        if inner.is_empty() || !inner.bytes().all(|b| b.is_ascii_digit()) {
            return false;
        }
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_design_are_read_and_others_refused() {
        for good in ["implement", "implement[3]", "review~2", "build{os=linux}", "plan/api", "check~2/test[0]"] {
            assert_eq!(good.parse::<StepPath>().map(|path| path.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "3a", "a[", "a[x]", "a//b", "../etc", "a~", "a{x}", "a b", "a[1]b"] {
            assert!(bad.parse::<StepPath>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_knows_what_made_it() {
        let above = |text: &str| text.parse::<StepPath>().unwrap().above().map(|path| path.to_string());
        assert_eq!(above("a"), None);
        assert_eq!(above("a[3]").as_deref(), Some("a"));
        assert_eq!(above("a{os=linux}").as_deref(), Some("a"));
        assert_eq!(above("a~2/b").as_deref(), Some("a"));
        assert_eq!(above("a[1]~2/b~1/c[0]").as_deref(), Some("a[1]~2/b~1/c"));
        let cell = StepPath::root("build").cell([("os", "Ubuntu 24/x".to_owned()), ("n", "1".to_owned())].into_iter());
        assert_eq!(cell.as_str(), "build{os=Ubuntu%2024%2fx,n=1}");
        assert!(cell.as_str().parse::<StepPath>().is_ok());
        assert_eq!(StepPath::root("check").in_round(2, "test").as_str(), "check~2/test");
    }

    #[test]
    fn file_names_are_safe_and_distinct() {
        assert_eq!(StepPath::root("a").element(3).file_name(), "a%5b3%5d");
    }
}
