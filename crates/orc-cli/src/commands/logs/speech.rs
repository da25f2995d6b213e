//! What agents print, in words: a line that is an event of our vocabulary says what it means.

use orc_adapters::vocabulary;
use orc_domain::agent::{AgentEvent, ToolState};
use orc_ports::log::{LogKind, LogLine};
use serde_json::{Value, json};

use crate::view::agent::usage_words;

/// Longest line that is put together from its pieces; no event that an agent is heard with is longer.
const LONGEST: usize = 1024 * 1024;

/// What an agent says in its log, as it is put into words.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// Pieces of an event that is not whole yet.
    held: Vec<LogLine>,
    bytes: usize,
    /// A line goes on of which the beginning was passed on.
    goes_on: bool,
}

impl Speech {
    /// Takes a line of the log in; what is to be shown now. An event is in words, any other line as it was.
    pub(super) fn hear(&mut self, line: LogLine) -> Vec<LogLine> {
        if line.kind != LogKind::Stdout {
            return vec![line];
        }
        let begins = self.held.is_empty() && !self.goes_on;
        let is_event = line.text.as_ref().is_some_and(|text| !begins || text.trim_start().starts_with('{'));
        self.bytes += line.text.as_ref().map_or(0, String::len);
        if self.goes_on || !is_event || self.bytes > LONGEST {
            self.goes_on = line.part;
            return self.end().into_iter().chain([line]).collect();
        }
        self.held.push(line);
        if self.held.last().is_some_and(|line| line.part) {
            return Vec::new();
        }
        let whole: String = self.held.iter().filter_map(|line| line.text.as_deref()).collect();
        let mut held = self.end();
        match (words(&whole), held.pop()) {
            (Some(words), Some(last)) => vec![LogLine { text: Some(words), ..last }],
            (_, last) => held.into_iter().chain(last).collect(),
        }
    }

    /// What is still held: nothing follows, or it is no event.
    pub(super) fn end(&mut self) -> Vec<LogLine> {
        self.bytes = 0;
        std::mem::take(&mut self.held)
    }
}

/// How a line begins that shows what is only thought.
pub(super) const THINKS: &str = "thinks: ";
/// Lines of what a tool took or gave that are shown.
const SHOWN_LINES: usize = 12;

/// What an event says; `None` for what is none.
pub(crate) fn words(text: &str) -> Option<String> {
    if let Some(words) = serde_json::from_str(text).ok().as_ref().and_then(own_words) {
        return Some(words);
    }
    match vocabulary::parse(text.as_bytes()) {
        AgentEvent::Text { .. } => None,
        AgentEvent::Message { text } => Some(format!("says: {text}")),
        AgentEvent::Progress { text: Some(text) } => Some(format!("works: {text}")),
        AgentEvent::Progress { text: None } => Some("works".to_owned()),
        AgentEvent::Tool { name, state } => {
            let state = match state {
                ToolState::Started => "begins",
                ToolState::Progress => "goes on",
                ToolState::Finished => "is through",
                ToolState::Failed => "failed",
            };
            Some(format!("tool {name} {state}"))
        }
        AgentEvent::Usage(usage) => Some(match usage_words(&usage) {
            Some(used) => format!("used {used}"),
            None => "used nothing".to_owned(),
        }),
        AgentEvent::Output { value } => Some(format!("submits: {value}")),
        AgentEvent::Ask { text, .. } => Some(format!("asks: {text}")),
        AgentEvent::Blocked { why } => Some(format!("is blocked: {why}")),
        AgentEvent::Error { family, message } => {
            let family = json!(family);
            Some(format!("error ({}): {message}", family.as_str().unwrap_or_default()))
        }
        AgentEvent::Stop { reason } => Some(format!("stops: {}", reason.word())),
        AgentEvent::Unknown { kind, why } if why.is_empty() => {
            Some(format!("tells `{kind}`, which is not known: {text}"))
        }
        AgentEvent::Unknown { kind, why } => Some(format!("tells `{kind}`, and {why}: {text}")),
    }
}

/// The events that only the built-in agent tells, or tells more of than others.
fn own_words(event: &Value) -> Option<String> {
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    match text("type")? {
        "request" => {
            let (model, turn) = (text("model")?, event.get("turn")?.as_u64()?);
            let why = text("again").map(|why| format!(", {why}")).unwrap_or_default();
            Some(format!("asks {model}, turn {turn}{why}"))
        }
        "thinking" => Some(format!("{THINKS}{}", shown(text("text")?))),
        "retracted" => Some("takes back what it said last".to_owned()),
        "tool" => {
            let name = text("name")?;
            match (text("state")?, event.get("event")) {
                ("progress", Some(inner)) => {
                    let inner = words(&inner.to_string())?;
                    Some(format!("[{}] {inner}", text("agent").unwrap_or(name)))
                }
                ("progress", None) => Some(format!("{name} goes on: {}", shown(text("text")?))),
                ("started", _) => Some(begins(name, event.get("input")?)),
                ("finished", _) => Some(format!("> {name}: {}", result(name, text("text")?))),
                ("failed", _) => Some(format!("> {name} failed: {}", shown(text("text")?))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What came of a call. Of a change its diff was shown when it began.
fn result(name: &str, text: &str) -> String {
    match name {
        "Edit" | "MultiEdit" => text.lines().next().unwrap_or_default().to_owned(),
        _ if text.trim().is_empty() => "(nothing)".to_owned(),
        _ => shown(text),
    }
}

/// A call, with what matters of its input.
fn begins(name: &str, input: &Value) -> String {
    let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default();
    let path = text("file_path");
    match name {
        "Bash" => format!("Bash: {}", shown(text("command"))),
        "Read" | "Write" => format!("{name} {path}"),
        "Edit" => format!("Edit {path}\n{}", change(input)),
        "MultiEdit" => {
            let edits = input.get("edits").and_then(Value::as_array);
            let changes: Vec<String> = edits.into_iter().flatten().map(change).collect();
            format!("MultiEdit {path}\n{}", changes.join("\n"))
        }
        "Grep" | "Glob" => format!("{name} {} {}", text("pattern"), text("path")).trim_end().to_owned(),
        "WebFetch" => format!("WebFetch {}", text("url")),
        "Agent" | "Task" => format!("starts the agent {}: {}", text("subagent_type"), shown(text("prompt"))),
        "TodoWrite" => format!("keeps its list\n{}", todos(input)),
        _ => format!("{name} {}", shown(&input.to_string())),
    }
}

/// What is replaced by what.
fn change(edit: &Value) -> String {
    let lines = |name: &str, mark: char| {
        let text = edit.get(name).and_then(Value::as_str).unwrap_or_default();
        text.lines().map(|line| format!("{mark} {line}")).collect::<Vec<_>>()
    };
    let lines = [lines("old_string", '-'), lines("new_string", '+')].concat();
    shown(&lines.join("\n"))
}

fn todos(input: &Value) -> String {
    let items = input.get("todos").and_then(Value::as_array);
    let each = items.into_iter().flatten().map(|item| {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let mark = match text("status") {
            "completed" => "x",
            "in_progress" => ">",
            _ => " ",
        };
        format!("[{mark}] {}", text("content"))
    });
    shown(&each.collect::<Vec<_>>().join("\n"))
}

/// The beginning of a text of several lines.
pub(crate) fn shown(text: &str) -> String {
    let text = text.trim_end();
    let count = text.lines().count();
    let mut lines: Vec<&str> = text.lines().take(SHOWN_LINES).collect();
    let more = format!("... {} more lines", count.saturating_sub(SHOWN_LINES));
    if count > SHOWN_LINES {
        lines.push(&more);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of lines, and what is shown of them.
    type Case<'a> = (&'a [(&'a str, bool)], &'a [&'a str]);

    /// What is shown of lines that were cut like this, text by text.
    fn heard(pieces: &[(&str, bool)]) -> Vec<String> {
        let mut speech = Speech::default();
        let line = |(text, part): &(&str, bool)| LogLine {
            v: 1,
            seq: 1,
            at: orc_domain::time::Timestamp::from_millis(0),
            kind: LogKind::Stdout,
            text: Some((*text).to_owned()),
            bytes: None,
            part: *part,
        };
        let mut shown: Vec<LogLine> = pieces.iter().flat_map(|piece| speech.hear(line(piece))).collect();
        shown.extend(speech.end());
        shown.into_iter().filter_map(|line| line.text).collect()
    }

    #[test]
    fn an_event_in_pieces_is_put_together_and_what_is_none_stays_as_it_was() {
        let long = "x".repeat(LONGEST);
        let cases: [Case<'_>; 7] = [
            (&[("{\"type\":\"mess", true), ("age\",\"text\":\"a\"}", false), ("b", false)], &["says: a", "b"]),
            (&[("{\"type\":", true), ("no", true), ("thing", false)], &["{\"type\":", "no", "thing"]),
            (&[("plain ", true), ("{\"type\":\"progress\"}", false)], &["plain ", "{\"type\":\"progress\"}"]),
            (&[("{\"type\":\"progress\"}", false)], &["works"]),
            // The end of a log.
            (&[("{\"type\":", true)], &["{\"type\":"]),
            (&[("{", true), (&long, true), ("}", false)], &["{", &long, "}"]),
            (
                &[("{", true), (&long, true), ("}", false), ("{\"type\":\"progress\"}", false)],
                &["{", &long, "}", "works"],
            ),
        ];
        for (pieces, wanted) in cases {
            assert_eq!(heard(pieces), wanted);
        }
    }

    #[test]
    fn events_become_words_and_text_stays() {
        let cases = [
            (r#"{"type":"message","text":"done"}"#, "says: done"),
            (r#"{"type":"progress"}"#, "works"),
            (r#"{"type":"tool","name":"grep","state":"finished","input":"x"}"#, "tool grep is through"),
            (r#"{"type":"usage","input":1200,"cost_usd_micros":30000}"#, "used 1.2k tokens, 1 call, $0.03"),
            (r#"{"type":"output","value":{"a":1}}"#, r#"submits: {"a":1}"#),
            (r#"{"type":"ask","text":"Which?"}"#, "asks: Which?"),
            (
                r#"{"type":"error","message":"no net","family":"transientUpstream"}"#,
                "error (transientUpstream): no net",
            ),
            (r#"{"type":"request","model":"m","turn":2,"again":null}"#, "asks m, turn 2"),
            (r#"{"type":"thinking","text":"Hm."}"#, "thinks: Hm."),
            (
                r#"{"type":"tool","name":"Edit","state":"started","id":"a","input":{"file_path":"x","old_string":"a\nb","new_string":"c"}}"#,
                "Edit x\n- a\n- b\n+ c",
            ),
            (
                r#"{"type":"tool","name":"Bash","state":"failed","id":"a","text":"no\n[exit code 1]"}"#,
                "> Bash failed: no\n[exit code 1]",
            ),
            (
                r#"{"type":"tool","name":"Agent","state":"progress","id":"a","agent":"reviewer","event":{"type":"message","text":"ok"}}"#,
                "[reviewer] says: ok",
            ),
            (r#"{"type":"dance"}"#, r#"tells `dance`, which is not known: {"type":"dance"}"#),
            (r#"{"type":"tool"}"#, r#"tells `tool`, and it has no `name`: {"type":"tool"}"#),
        ];
        for (line, wanted) in cases {
            assert_eq!(words(line).as_deref(), Some(wanted), "{line}");
        }
        for text in ["plain", "{ not json", "[1]", ""] {
            assert_eq!(words(text), None, "{text}");
        }
    }
}
