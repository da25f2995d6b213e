//! What hooks hear and say: the events, the JSON in both directions, and what a hook that fails means.
//!
//! A hook is somebody's program. What it says is read strictly: a known word in the wrong place, a shape that is none, a
//! crash or a time-out is a failure, and for the two events that decide, a failure blocks unless the hook was declared
//! otherwise. The shapes are those that existing hook scripts use (events and fields: see `docs/guides/permissions.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::glob::Glob;
use crate::verdict::Verdict;
use crate::view::tool_name;

/// When hooks are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    /// Before a tool runs.
    PreToolUse,
    /// After it ran.
    PostToolUse,
    /// After it failed.
    PostToolUseFailure,
    /// When somebody has to say whether a call runs.
    PermissionRequest,
    /// When a call was denied.
    PermissionDenied,
    /// An agent of an agent begins.
    SubagentStart,
    /// It ends.
    SubagentStop,
    /// A run begins.
    RunStart,
    /// It ends.
    RunEnd,
    /// The agent thinks that it is done.
    Stop,
    /// Before a conversation is made shorter.
    PreCompact,
    /// Somebody says something to the agent.
    UserPromptSubmit,
    /// Somebody is told something.
    Notification,
}

impl Event {
    /// Every one.
    pub const ALL: [Self; 13] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::PermissionRequest,
        Self::PermissionDenied,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::RunStart,
        Self::RunEnd,
        Self::Stop,
        Self::PreCompact,
        Self::UserPromptSubmit,
        Self::Notification,
    ];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::PermissionRequest => "PermissionRequest",
            Self::PermissionDenied => "PermissionDenied",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::RunStart => "RunStart",
            Self::RunEnd => "RunEnd",
            Self::Stop => "Stop",
            Self::PreCompact => "PreCompact",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Notification => "Notification",
        }
    }

    /// An event by its word, also by the words of others.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "SessionStart" => Some(Self::RunStart),
            "SessionEnd" => Some(Self::RunEnd),
            word => Self::ALL.into_iter().find(|event| event.word() == word),
        }
    }

    /// What a hook that fails means when it was not declared: the two that decide block.
    #[must_use]
    pub const fn posture(self) -> Posture {
        match self {
            Self::PreToolUse | Self::PermissionRequest => Posture::Block,
            _ => Posture::Ignore,
        }
    }
}

/// What a hook that fails means: `on_error:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Posture {
    /// What it was asked about does not happen.
    Block,
    /// As if it had not been there.
    Ignore,
}

/// Whether a hook's `matcher:` means this tool: names, `A|B`, `*`, wildcards, and the names that tools had before.
#[must_use]
pub fn matches(matcher: &str, tool: &str) -> bool {
    let matcher = matcher.trim();
    if matcher.is_empty() || matcher == "*" || matcher == ".*" {
        return true;
    }
    let tool = tool_name(tool);
    matcher.split('|').map(str::trim).any(|name| {
        let name = name.strip_prefix('^').unwrap_or(name);
        let name = name.strip_suffix('$').unwrap_or(name);
        Glob::of_words(&tool_name(name).replace(".*", "*")).matches(tool)
    })
}

/// What came of a hook's program.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// Its exit code; none: it was ended, or never ran.
    pub code: Option<i32>,
    /// What it wrote on standard output.
    pub output: &'a [u8],
    /// What it wrote on standard error.
    pub errors: &'a [u8],
}

/// What a hook said.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing.
    Silent,
    /// Something.
    Said {
        /// What it says of the call.
        verdict: Option<Verdict>,
        /// Why.
        reason: Option<String>,
        /// The input that takes the place of the one there was.
        input: Option<Value>,
        /// What the agent is told beside.
        context: Option<String>,
        /// The result that takes the place of the one there was.
        output: Option<Value>,
        /// The turn ends here.
        stops: bool,
        /// Whether the agent may ask again.
        retry: Option<bool>,
    },
    /// It failed, and this is what that means.
    Failed {
        /// What is wrong.
        why: String,
        /// What was declared.
        posture: Posture,
    },
}

impl Answer {
    /// What it says of a call, with the reason. One that is not trusted can only make a call less allowed.
    #[must_use]
    pub fn verdict(&self, trusted: bool) -> Option<(Verdict, String)> {
        match self {
            Self::Said { verdict: Some(verdict), reason, .. } if trusted || *verdict > Verdict::Allow => {
                let reason = reason.clone().unwrap_or_else(|| "it gave no reason".to_owned());
                Some((*verdict, format!("a hook says {verdict}: {reason}")))
            }
            Self::Failed { why, posture: Posture::Block } => {
                Some((Verdict::Deny, format!("a hook that must say yes failed: {why}")))
            }
            Self::Silent | Self::Said { .. } | Self::Failed { .. } => None,
        }
    }
}

/// Reads what a hook's program left.
#[must_use]
pub fn heard(event: &str, said: &Said<'_>, posture: Posture) -> Answer {
    let failed = |why: String| Answer::Failed { why, posture };
    let text = String::from_utf8_lossy(said.output);
    let errors = String::from_utf8_lossy(said.errors);
    let decides = matches!(Event::of(event), Some(Event::PreToolUse | Event::PermissionRequest));
    match said.code {
        Some(0) => {}
        Some(2) => {
            let reason = errors.trim();
            let reason =
                if reason.is_empty() { "it ended with 2, which blocks".to_owned() } else { crate::view::safe(reason) };
            return blocks(reason);
        }
        Some(code) => return failed(format!("it ended with {code}")),
        None => return failed("it did not end by itself".to_owned()),
    }
    let text = text.trim();
    if text.is_empty() {
        return Answer::Silent;
    }
    if !text.starts_with('{') {
        // Text for people, where nothing is to be decided.
        return if decides { failed("what it wrote is no JSON object".to_owned()) } else { Answer::Silent };
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(said)) => match object(event, &said) {
            Ok(answer) => answer,
            Err(why) => failed(why),
        },
        Ok(_) => failed("what it wrote is no JSON object".to_owned()),
        Err(error) => failed(format!("what it wrote is no JSON: {error}")),
    }
}

fn blocks(reason: String) -> Answer {
    Answer::Said {
        verdict: Some(Verdict::Deny),
        reason: Some(reason),
        input: None,
        context: None,
        output: None,
        stops: false,
        retry: None,
    }
}

const TOP: [&str; 8] = [
    "continue",
    "stopReason",
    "suppressOutput",
    "systemMessage",
    "decision",
    "reason",
    "hookSpecificOutput",
    "terminalSequence",
];

fn object(event: &str, said: &Map<String, Value>) -> Result<Answer, String> {
    if let Some(name) = said.keys().find(|name| !TOP.contains(&name.as_str())) {
        let known = ["permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"];
        let inside = known.contains(&name.as_str());
        let place =
            if inside { "stands in the wrong place: it belongs into `hookSpecificOutput`" } else { "is not known" };
        return Err(format!("`{}` {place}", crate::view::safe(name)));
    }
    let text = |value: Option<&Value>, name: &str| match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{name}` is no text")),
    };
    let mut stops = match said.get("continue") {
        None => false,
        Some(Value::Bool(goes_on)) => !goes_on,
        Some(_) => return Err("`continue` is neither true nor false".to_owned()),
    };
    let mut reason = text(said.get("reason"), "reason")?.or(text(said.get("stopReason"), "stopReason")?);
    let mut verdict = match text(said.get("decision"), "decision")?.as_deref() {
        None => None,
        Some("block" | "deny") => Some(Verdict::Deny),
        Some("approve" | "allow") => Some(Verdict::Allow),
        Some(other) => return Err(format!("`decision` can't be `{}`", crate::view::safe(other))),
    };
    let (mut input, mut context, mut output, mut retry) = (None, None, None, None);
    if let Some(specific) = said.get("hookSpecificOutput") {
        let specific = specific.as_object().ok_or("`hookSpecificOutput` is no object")?;
        let known = known_of(event);
        if let Some(name) = specific.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("`{}` in `hookSpecificOutput` is not known for {event}", crate::view::safe(name)));
        }
        if let Some(named) = text(specific.get("hookEventName"), "hookEventName")?
            && Event::of(&named) != Event::of(event)
        {
            return Err(format!("it answers {}, and was asked about {event}", crate::view::safe(&named)));
        }
        if let Some(word) = text(specific.get("permissionDecision"), "permissionDecision")? {
            verdict = verdict.max(Some(decision(&word)?));
        }
        reason = text(specific.get("permissionDecisionReason"), "permissionDecisionReason")?.or(reason);
        context = text(specific.get("additionalContext"), "additionalContext")?;
        input = object_of(specific.get("updatedInput"), "updatedInput")?;
        output = specific.get("updatedMCPToolOutput").cloned();
        retry = match specific.get("retry") {
            None => None,
            Some(Value::Bool(retry)) => Some(*retry),
            Some(_) => return Err("`retry` is neither true nor false".to_owned()),
        };
        context = context.or(text(specific.get("guidance"), "guidance")?);
        if specific.get("continue") == Some(&Value::Bool(false)) {
            stops = true;
        }
        if let Some(decided) = specific.get("decision") {
            let decided = decided.as_object().ok_or("`decision` is no object")?;
            let behavior = text(decided.get("behavior"), "behavior")?.ok_or("`decision` has no `behavior`")?;
            verdict = verdict.max(Some(match behavior.as_str() {
                "allow" => Verdict::Allow,
                "deny" => Verdict::Deny,
                other => return Err(format!("`behavior` can't be `{}`", crate::view::safe(other))),
            }));
            input = object_of(decided.get("updatedInput"), "updatedInput")?.or(input);
            reason = text(decided.get("message"), "message")?.or(reason);
        }
    }
    Ok(Answer::Said { verdict, reason, input, context, output, stops, retry })
}

fn object_of(value: Option<&Value>, name: &str) -> Result<Option<Value>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(_)) => Ok(value.cloned()),
        Some(_) => Err(format!("`{name}` is no object")),
    }
}

fn decision(word: &str) -> Result<Verdict, String> {
    match word {
        "allow" => Ok(Verdict::Allow),
        "ask" | "defer" => Ok(Verdict::Ask),
        "deny" => Ok(Verdict::Deny),
        other => Err(format!("`permissionDecision` can't be `{}`", crate::view::safe(other))),
    }
}

fn known_of(event: &str) -> &'static [&'static str] {
    match Event::of(event) {
        Some(Event::PreToolUse) => {
            &["hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"]
        }
        Some(Event::PostToolUse) => &["hookEventName", "additionalContext", "updatedMCPToolOutput", "continue"],
        Some(Event::PermissionRequest) => &["hookEventName", "decision"],
        Some(Event::PermissionDenied) => &["hookEventName", "retry", "guidance", "additionalContext"],
        _ => &["hookEventName", "additionalContext"],
    }
}

/// What every hook hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// The run, by its id.
    pub run: &'a str,
    /// The agent.
    pub agent: &'a str,
    /// The working directory.
    pub cwd: &'a str,
    /// The mode.
    pub mode: &'a str,
    /// Whether another agent started it.
    pub is_worker: bool,
}

/// The input of a hook: what every one hears, and what belongs to the event.
#[must_use]
pub fn input(event: Event, told: &Told<'_>, more: &[(&str, Value)]) -> Value {
    let mut input = json!({
        // The name that existing scripts look for.
        "session_id": told.run,
        "run_id": told.run,
        "cwd": told.cwd,
        "permission_mode": told.mode,
        "hook_event_name": event.word(),
    });
    if told.is_worker {
        input["agent_type"] = told.agent.into();
        input["agent_id"] = told.run.into();
    }
    for (name, value) in more {
        input[*name] = value.clone();
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(event: &str, code: Option<i32>, output: &str) -> Option<Verdict> {
        let said = Said { code, output: output.as_bytes(), errors: b"no" };
        heard(event, &said, Posture::Block).verdict(true).map(|(verdict, _)| verdict)
    }

    #[test]
    fn what_a_hook_says_is_read_strictly() {
        use Verdict::{Allow, Ask, Deny};
        let specific = |inside: &str| format!("{{\"hookSpecificOutput\": {inside}}}");
        for (code, output, expected) in [
            (Some(0), String::new(), None),
            (Some(2), String::new(), Some(Deny)),
            (Some(1), String::new(), Some(Deny)),
            (None, String::new(), Some(Deny)),
            (Some(0), "fine".to_owned(), Some(Deny)),
            (Some(0), "[]".to_owned(), Some(Deny)),
            (Some(0), "{".to_owned(), Some(Deny)),
            (Some(0), "{}".to_owned(), None),
            (Some(0), "{\"permissionDecision\": \"allow\"}".to_owned(), Some(Deny)),
            (Some(0), "{\"decision\": \"approve\"}".to_owned(), Some(Allow)),
            (Some(0), "{\"decision\": \"block\", \"reason\": \"x\"}".to_owned(), Some(Deny)),
            (Some(0), specific("{\"permissionDecision\": \"allow\"}"), Some(Allow)),
            (Some(0), specific("{\"permissionDecision\": \"defer\"}"), Some(Ask)),
            (Some(0), specific("{\"permissionDecision\": \"yes\"}"), Some(Deny)),
            (Some(0), specific("{\"hookEventName\": \"Stop\", \"permissionDecision\": \"allow\"}"), Some(Deny)),
            (Some(0), specific("{\"updatedInput\": 3}"), Some(Deny)),
            (Some(0), specific("{\"unknown\": 3}"), Some(Deny)),
        ] {
            assert_eq!(of("PreToolUse", code, &output), expected, "{code:?} {output}");
        }
        let asked = specific("{\"decision\": {\"behavior\": \"deny\", \"message\": \"no\"}}");
        assert_eq!(of("PermissionRequest", Some(0), &asked), Some(Verdict::Deny));
    }

    #[test]
    fn one_that_is_not_trusted_only_takes() {
        let said = Said { code: Some(0), output: b"{\"decision\": \"approve\"}", errors: b"" };
        assert_eq!(heard("PreToolUse", &said, Posture::Block).verdict(false), None);
        let ignored = Said { code: Some(1), ..said };
        assert_eq!(heard("PostToolUse", &ignored, Posture::Ignore).verdict(true), None);
    }

    #[test]
    fn matchers_know_names_of_before() {
        for (matcher, tool, expected) in [
            ("", "Bash", true),
            ("Agent", "Task", true),
            ("Task", "Agent", true),
            ("Edit|Write", "Write", true),
            ("Edit|Write", "MultiEdit", false),
            ("mcp__.*__write", "mcp__a__write", true),
            ("^Bash$", "Bash", true),
            ("Bas", "Bash", false),
        ] {
            assert_eq!(matches(matcher, tool), expected, "{matcher} {tool}");
        }
    }
}
