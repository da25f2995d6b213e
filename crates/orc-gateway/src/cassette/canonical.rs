//! What counts as the same request, and where two of them differ.
//!
//! A request is its protocol, what it wants, its query and its body as JSON with sorted keys. What the gateway itself may
//! change is left out: the output limit and `include_usage`.

use std::collections::BTreeMap;

use orc_domain::ids::ContentHash;
use orc_domain::model::Protocol;
use orc_ports::executor::Secrets;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::masked;
use super::normal::normal;
use crate::provider::{Outgoing, Want};
use crate::wire::Request;

/// Limits of output of all protocols.
const LIMITS: [&str; 3] = ["max_tokens", "max_output_tokens", "max_completion_tokens"];
/// Characters of a value that a message shows.
const SHOWN: usize = 60;

/// A request, as a cassette has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Canonical {
    pub(super) protocol: Protocol,
    pub(super) want: String,
    pub(super) query: String,
    pub(super) model: String,
    pub(super) body: Value,
}

/// The conversation that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Track {
    pub(super) kind: String,
    pub(super) model: String,
    pub(super) system: String,
    pub(super) prompt: String,
    pub(super) tools: String,
}

const WANTS: [(Want, &str); 3] = [(Want::Answer, "answer"), (Want::Count, "count"), (Want::Models, "models")];

impl Canonical {
    pub(super) fn of(outgoing: &Outgoing, secrets: &Secrets) -> Self {
        let want = WANTS.iter().find(|(want, _)| *want == outgoing.want).map_or("answer", |(_, word)| word);
        let body = match serde_json::from_slice(&outgoing.body) {
            Ok(value) => value,
            Err(_) => Value::String(String::from_utf8_lossy(&outgoing.body).into_owned()),
        };
        let mask = |text: &str| masked::text(secrets, text);
        let mut body = map(body, &mask);
        if let Value::Object(members) = &mut body {
            for limit in LIMITS {
                members.remove(limit);
            }
            let options = members.get_mut("stream_options").and_then(Value::as_object_mut);
            if options.is_some_and(|options| options.remove("include_usage").is_some() && options.is_empty()) {
                members.remove("stream_options");
            }
        }
        Self {
            protocol: outgoing.protocol,
            want: (*want).to_owned(),
            query: mask(&outgoing.query),
            model: outgoing.model.clone(),
            body,
        }
    }

    /// The same with what changes from run to run left out of every text.
    pub(super) fn loose(&self) -> Self {
        Self { body: map(self.body.clone(), &normal), query: normal(&self.query), ..self.clone() }
    }

    pub(super) fn hash(&self) -> ContentHash {
        let parts = [self.protocol.word(), &self.want, &self.query, &self.model, &self.body.to_string()];
        ContentHash::of(serde_json::Value::from(parts.map(str::to_owned).to_vec()).to_string().as_bytes())
    }

    pub(super) fn track(&self) -> Track {
        let want = WANTS.iter().find(|(_, word)| *word == self.want).map_or(Want::Answer, |(want, _)| *want);
        let read = Request::read(self.protocol, want, self.body.to_string().into());
        let track = read.map(|request| request.track).unwrap_or_default();
        Track {
            kind: format!("{} {}", self.protocol, self.want),
            model: self.model.clone(),
            system: normal(&track.system),
            prompt: normal(&track.prompt),
            tools: normal(&track.tools.join(", ")),
        }
    }
}

impl Track {
    /// What it is, by name, for messages.
    fn parts(&self) -> [(&'static str, &str); 5] {
        [
            ("the protocol", &self.kind),
            ("the model", &self.model),
            ("the tools", &self.tools),
            ("the system text", &self.system),
            ("the first message", &self.prompt),
        ]
    }

    /// In a few words.
    pub(super) fn summary(&self) -> String {
        format!("{} of `{}`, first message `{}`", self.kind, self.model, shorten(&self.prompt, 0))
    }

    /// How this one, which is asked for, differs from the one of `known` that is closest; none: there are none.
    pub(super) fn closest(&self, known: &[Self]) -> Option<String> {
        let differs = |other: &Self| {
            let pairs = self.parts().into_iter().zip(other.parts());
            pairs
                .filter(|(mine, other)| mine.1 != other.1)
                .map(|(mine, other)| (mine.0, other.1.to_owned(), mine.1.to_owned()))
                .collect::<Vec<_>>()
        };
        let closest = known.iter().map(differs).min_by_key(Vec::len)?;
        let (name, recorded, asked) = closest.into_iter().next()?;
        let (recorded, asked) = around(&recorded, &asked);
        Some(format!("in the closest one {name} is `{recorded}`, and here it is `{asked}`"))
    }
}

/// A value with sorted keys and changed texts.
fn map(value: Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text)),
        Value::Array(items) => items.into_iter().map(|item| map(item, change)).collect(),
        Value::Object(members) => {
            let sorted: BTreeMap<String, Value> =
                members.into_iter().map(|(key, value)| (change(&key), map(value, change))).collect();
            sorted.into_iter().collect()
        }
        other => other,
    }
}

/// The first place where two requests differ, with both values, shortened: `messages[2].content: ...`.
pub(super) fn first_difference(recorded: &Canonical, asked: &Canonical) -> Option<String> {
    let (left, right) = (serde_json::to_value(recorded).ok()?, serde_json::to_value(asked).ok()?);
    let (path, recorded, asked) = differ(&left, &right, "")?;
    // The body is what people know.
    let path = path.strip_prefix("body.").unwrap_or(&path);
    Some(format!("`{path}` is {recorded} in the recording, and {asked} here"))
}

fn differ(left: &Value, right: &Value, path: &str) -> Option<(String, String, String)> {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            keys.into_iter().find_map(|key| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                of_both(left.get(key), right.get(key), path)
            })
        }
        (Value::Array(left), Value::Array(right)) => (0..left.len().max(right.len()))
            .find_map(|at| of_both(left.get(at), right.get(at), format!("{path}[{at}]"))),
        (left, right) if left == right => None,
        (Value::String(left), Value::String(right)) => {
            let (left, right) = around(left, right);
            Some((path.to_owned(), format!("`{left}`"), format!("`{right}`")))
        }
        (left, right) => Some((path.to_owned(), shown(Some(left)), shown(Some(right)))),
    }
}

fn of_both(left: Option<&Value>, right: Option<&Value>, path: String) -> Option<(String, String, String)> {
    match (left, right) {
        (Some(left), Some(right)) => differ(left, right, &path),
        (left, right) => Some((path, shown(left), shown(right))),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), |value| format!("`{}`", shorten(&value.to_string(), 0)))
}

/// Both texts around the first character in which they differ.
fn around(left: &str, right: &str) -> (String, String) {
    let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
    (shorten(left, same), shorten(right, same))
}

/// A piece of a text, in one line, that has the character at `at`.
fn shorten(text: &str, at: usize) -> String {
    let from = at.saturating_sub(SHOWN / 3);
    let mut short: String = text.chars().skip(from).take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if from > 0 {
        short.insert(0, '…');
    }
    if text.chars().nth(from + SHOWN).is_some() {
        short.push('…');
    }
    short
}
