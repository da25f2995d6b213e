//! What an agent program may tell on standard output: JSON objects, one a line, with `type`.
//!
//! | `type` | members | means |
//! |---|---|---|
//! | `message` | `text` | it says something; the last one is its final message |
//! | `progress` | `text`, may be missing | it is alive |
//! | `tool` | `name`; `state`: `started`, `progress`, `finished` or `failed` | it uses a tool |
//! | `thinking` | `text` | it thinks aloud; a sign of life, and part of no answer |
//! | `request`, `retracted` | | the built-in agent asks its model; takes back what it said last. Signs of life |
//! | `usage` | `input`, `output`, `reasoning`, `cache_read`, `cache_write`, `calls`, `cost_usd_micros`; what is missing is 0, `calls` 1 | what it used since the last one |
//! | `output` | `value` | it submits its output; the last one counts |
//! | `ask` | `text` | it needs an answer to go on |
//! | `blocked` | `why` | it cannot go on |
//! | `error` | `message`, or `error` with `message` as providers write it; `family` | something failed |
//! | `stop` | `reason`, may be missing | it is done |
//!
//! Any other line is text. An event that is unknown or not as it should be is shown and counted and never an error: the
//! program may be newer than we are. Members that we do not know are ignored, but lines that differ in them are no
//! repetition: a `tool` event that carries its `input` does not look like a loop. What says that something is wrong (`error`,
//! `blocked`, `ask`) is heard even when a member is missing: to ignore it would make a success of it.

use orc_domain::agent::{AgentEvent, AgentStop, ToolState, Usage};
use orc_domain::money::UsdMicros;
use orc_domain::run::ErrorFamily;
use serde_json::{Map, Value};

/// Characters of an unknown `type` that are kept.
const MAX_KIND_CHARS: usize = 64;

/// The event that a line is, without its end.
#[must_use]
pub fn parse(line: &[u8]) -> AgentEvent {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    object(line).unwrap_or_else(|| AgentEvent::Text { line: readable(String::from_utf8_lossy(line).into_owned()) })
}

/// Whether a line began as an event and was cut off.
pub(crate) fn is_torn(line: &[u8]) -> bool {
    is_object(line) && serde_json::from_slice::<Value>(line).is_err()
}

/// Whether it is worth to be read as JSON.
fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{")
}

fn object(line: &[u8]) -> Option<AgentEvent> {
    if !is_object(line) {
        return None;
    }
    let Ok(Value::Object(mut members)) = serde_json::from_slice(line) else {
        return None;
    };
    let Some(Value::String(kind)) = members.remove("type") else {
        return None;
    };
    Some(
        event(&kind, members).unwrap_or_else(|why| AgentEvent::Unknown {
            kind: readable(kind.chars().take(MAX_KIND_CHARS).collect()),
            why,
        }),
    )
}

fn event(kind: &str, mut members: Map<String, Value>) -> Result<AgentEvent, String> {
    Ok(match kind {
        "message" => AgentEvent::Message { text: text(&mut members, "text")?.ok_or("it has no `text`")? },
        "progress" => AgentEvent::Progress { text: text(&mut members, "text")? },
        "thinking" | "request" | "retracted" => AgentEvent::Progress { text: None },
        "tool" => AgentEvent::Tool {
            name: text(&mut members, "name")?.ok_or("it has no `name`")?,
            state: tool_state(text(&mut members, "state")?.as_deref())?,
        },
        "usage" => AgentEvent::Usage(usage(&members)?),
        "output" => AgentEvent::Output { value: members.remove("value").ok_or("it has no `value`")? },
        "ask" => AgentEvent::Ask {
            text: said(&mut members, "text", "it does not say what it needs"),
            call: members.remove("call").and_then(|call| serde_json::from_value(call).ok()),
        },
        "blocked" => AgentEvent::Blocked { why: said(&mut members, "why", "it does not say why") },
        "error" => error(&mut members),
        "stop" => AgentEvent::Stop { reason: stop(text(&mut members, "reason")?.as_deref())? },
        _ => return Err(String::new()),
    })
}

/// A member that is text or missing.
fn text(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(readable(text))),
        Some(_) => Err(format!("its `{name}` is no text")),
    }
}

/// A member that is heard whatever it is.
fn said(members: &mut Map<String, Value>, name: &str, missing: &str) -> String {
    match members.remove(name) {
        None | Some(Value::Null) => missing.to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => missing.to_owned(),
        Some(Value::String(text)) => readable(text),
        Some(other) => other.to_string(),
    }
}

/// Databases and terminals take no NUL.
fn readable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

fn tool_state(word: Option<&str>) -> Result<ToolState, String> {
    match word {
        None | Some("started") => Ok(ToolState::Started),
        Some("progress") => Ok(ToolState::Progress),
        Some("finished") => Ok(ToolState::Finished),
        Some("failed") => Ok(ToolState::Failed),
        Some(other) => Err(format!("its `state` is `{other}`, not one of `started`, `progress`, `finished`, `failed`")),
    }
}

fn usage(members: &Map<String, Value>) -> Result<Usage, String> {
    let number = |name: &str, missing: u64| match members.get(name) {
        None | Some(Value::Null) => Ok(missing),
        Some(value) => value.as_u64().ok_or_else(|| format!("its `{name}` is no whole number from 0")),
    };
    let cost = i64::try_from(number("cost_usd_micros", 0)?);
    Ok(Usage {
        input: number("input", 0)?,
        output: number("output", 0)?,
        reasoning: number("reasoning", 0)?,
        cache_read: number("cache_read", 0)?,
        cache_write: number("cache_write", 0)?,
        calls: number("calls", 1)?,
        tool_calls: number("tool_calls", 0)?,
        cost: UsdMicros::from_micros(cost.map_err(|_| "its `cost_usd_micros` is more than there is".to_owned())?),
    })
}

/// A program cannot say that it was lost or silent: what follows from those is not its to choose.
fn error(members: &mut Map<String, Value>) -> AgentEvent {
    let family = match members.get("family").and_then(Value::as_str) {
        Some("transientUpstream") => ErrorFamily::TransientUpstream,
        Some("sandboxInfrastructure") => ErrorFamily::SandboxInfrastructure,
        Some("budgetExceeded") => ErrorFamily::BudgetExceeded,
        Some("policyDenied") => ErrorFamily::PolicyDenied,
        _ => ErrorFamily::Unknown,
    };
    // A provider's own error, passed on as it came, has its message one level deeper.
    if !members.contains_key("message")
        && let Some(inner) = members.remove("error")
    {
        let message = inner.get("message").cloned().unwrap_or(inner);
        members.insert("message".to_owned(), message);
    }
    AgentEvent::Error { family, message: said(members, "message", "it does not say what failed") }
}

/// Only reasons that a program can know.
fn stop(word: Option<&str>) -> Result<AgentStop, String> {
    let Some(word) = word else {
        return Ok(AgentStop::NoToolUse);
    };
    match AgentStop::parse(word) {
        Some(
            reason @ (AgentStop::NoToolUse
            | AgentStop::MaxTurns
            | AgentStop::PromptTooLong
            | AgentStop::Hook
            | AgentStop::Spend
            | AgentStop::Looping),
        ) => Ok(reason),
        _ => Err(format!("its `reason` is `{word}`, which is none that a program can give")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(kind: &str, why: &str) -> AgentEvent {
        AgentEvent::Unknown { kind: kind.to_owned(), why: why.to_owned() }
    }

    fn plain(line: &str) -> AgentEvent {
        AgentEvent::Text { line: line.to_owned() }
    }

    fn failed(family: ErrorFamily, message: &str) -> AgentEvent {
        AgentEvent::Error { family, message: message.to_owned() }
    }

    #[test]
    fn events_of_the_vocabulary() {
        let usage = Usage { input: 10, output: 2, cache_read: 7, calls: 3, ..Usage::default() };
        let cases = [
            (r#"{"type":"message","text":"done","more":1}"#, AgentEvent::Message { text: "done".into() }),
            (r#"  {"text":"a\nb","type":"message"}  "#, AgentEvent::Message { text: "a\nb".into() }),
            (r#"{"type":"progress"}"#, AgentEvent::Progress { text: None }),
            (r#"{"type":"progress","text":"2/3"}"#, AgentEvent::Progress { text: Some("2/3".into()) }),
            (r#"{"type":"tool","name":"Read"}"#, AgentEvent::Tool { name: "Read".into(), state: ToolState::Started }),
            (
                r#"{"type":"tool","name":"Read","state":"failed"}"#,
                AgentEvent::Tool { name: "Read".into(), state: ToolState::Failed },
            ),
            (r#"{"type":"usage","input":10,"output":2,"cache_read":7,"calls":3}"#, AgentEvent::Usage(usage)),
            (
                r#"{"type":"usage","cost_usd_micros":12500,"input":null}"#,
                AgentEvent::Usage(Usage { calls: 1, cost: UsdMicros::from_micros(12_500), ..Usage::default() }),
            ),
            (r#"{"type":"output","value":null}"#, AgentEvent::Output { value: Value::Null }),
            (r#"{"type":"ask","text":"which?"}"#, AgentEvent::Ask { text: "which?".into(), call: None }),
            (r#"{"type":"blocked","why":"no key"}"#, AgentEvent::Blocked { why: "no key".into() }),
            (r#"{"type":"stop"}"#, AgentEvent::Stop { reason: AgentStop::NoToolUse }),
            (r#"{"type":"stop","reason":"max_turns"}"#, AgentEvent::Stop { reason: AgentStop::MaxTurns }),
        ];
        for (line, event) in cases {
            assert_eq!(parse(line.as_bytes()), event, "{line}");
        }
    }

    #[test]
    fn bad_news_is_heard_whatever_it_looks_like() {
        let cases = [
            (r#"{"type":"error","family":"transientUpstream","message":"503"}"#, ErrorFamily::TransientUpstream, "503"),
            (r#"{"type":"error","family":"processLost","message":"x"}"#, ErrorFamily::Unknown, "x"),
            (r#"{"type":"error","family":7,"message":{"a":1}}"#, ErrorFamily::Unknown, r#"{"a":1}"#),
            (r#"{"type":"error"}"#, ErrorFamily::Unknown, "it does not say what failed"),
            (
                r#"{"type":"error","error":{"type":"permission_error","message":"the wall `usd`"}}"#,
                ErrorFamily::Unknown,
                "the wall `usd`",
            ),
            (r#"{"type":"error","error":"no such model"}"#, ErrorFamily::Unknown, "no such model"),
        ];
        for (line, family, message) in cases {
            assert_eq!(parse(line.as_bytes()), failed(family, message), "{line}");
        }
        assert_eq!(
            parse(br#"{"type":"blocked","why":" "}"#),
            AgentEvent::Blocked { why: "it does not say why".into() }
        );
        assert_eq!(
            parse(br#"{"type":"ask"}"#),
            AgentEvent::Ask { text: "it does not say what it needs".into(), call: None }
        );
    }

    #[test]
    fn events_that_are_not_as_they_should_be_are_unknown() {
        let cases = [
            (r#"{"type":"pondering","text":"hm"}"#, unknown("pondering", "")),
            (r#"{"type":"message"}"#, unknown("message", "it has no `text`")),
            (r#"{"type":"message","text":3}"#, unknown("message", "its `text` is no text")),
            (r#"{"type":"output"}"#, unknown("output", "it has no `value`")),
            (r#"{"type":"usage","input":-1}"#, unknown("usage", "its `input` is no whole number from 0")),
            (r#"{"type":"usage","output":1.5}"#, unknown("usage", "its `output` is no whole number from 0")),
            (
                r#"{"type":"usage","cost_usd_micros":18446744073709551615}"#,
                unknown("usage", "its `cost_usd_micros` is more than there is"),
            ),
            (
                r#"{"type":"stop","reason":"silence"}"#,
                unknown("stop", "its `reason` is `silence`, which is none that a program can give"),
            ),
        ];
        for (line, event) in cases {
            assert_eq!(parse(line.as_bytes()), event, "{line}");
        }
        let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(1000));
        assert_eq!(parse(long.as_bytes()), unknown(&"x".repeat(MAX_KIND_CHARS), ""));
    }

    #[test]
    fn everything_else_is_text() {
        for line in [
            "",
            "hello",
            "{",
            "{}",
            "[]",
            "3",
            "null",
            r#"{"type":3}"#,
            r#"{"type":"message","text":"a"#,
            r#"{"type":"message"} and more"#,
            r#"say {"type":"message","text":"a"}"#,
            r#"[{"type":"message"}]"#,
        ] {
            assert_eq!(parse(line.as_bytes()), plain(line));
        }
        assert_eq!(parse(b"a\0b\xff"), plain("a\u{fffd}b\u{fffd}"));
        assert_eq!(
            parse(b"{\"type\":\"message\",\"text\":\"\xff\"}"),
            plain("{\"type\":\"message\",\"text\":\"\u{fffd}\"}")
        );
        assert_eq!(parse(b"\xef\xbb\xbf{\"type\":\"progress\"}"), AgentEvent::Progress { text: None });
        assert_eq!(
            parse(br#"{"type":"message","text":"a\u0000b"}"#),
            AgentEvent::Message { text: "a\u{fffd}b".into() }
        );
        let deep = format!(r#"{{"type":"output","value":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        assert_eq!(parse(deep.as_bytes()), plain(&deep), "deeper than JSON is read");
    }
}
