//! What agents print, in words: a line that is an event of our vocabulary says what it means.

use orc_adapters::vocabulary;
use orc_domain::agent::{AgentEvent, ToolState};
use orc_ports::log::{LogKind, LogLine};
use serde_json::json;

use crate::view::agent::usage_words;

/// The line of an agent's log in words; any other line is as it was.
pub(super) fn in_words(line: LogLine) -> LogLine {
    if line.kind != LogKind::Stdout || line.part {
        return line;
    }
    let words = line.text.as_ref().and_then(|text| words(text));
    match words {
        Some(words) => LogLine { text: Some(words), ..line },
        None => line,
    }
}

/// What an event says; `None` for what is none.
fn words(text: &str) -> Option<String> {
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
        AgentEvent::Ask { text } => Some(format!("asks: {text}")),
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

#[cfg(test)]
mod tests {
    use super::*;

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
