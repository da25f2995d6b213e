//! Why there is no answer, out of what a provider says instead of one.
//!
//! The gateway in between tells its own refusals in the same forms: a wall is Anthropic's 403 `permission_error` and OpenAI's
//! `insufficient_quota`. What fails for a while arrives here after the gateway has tried for as long as it does.

use orc_domain::model::Protocol;
use serde_json::Value;

use super::one_line;
use crate::talk::CallFailure;

/// Words by which providers say that a conversation is too long; all of a group stand in it, in small letters. Sources:
/// documentation of Anthropic and OpenAI, and reports about vLLM, llama.cpp, LM Studio, Groq, xAI, Gemini, Bedrock, Qwen,
/// Kimi and OpenRouter.
const TOO_LONG: [&[&str]; 17] = [
    &["context_length_exceeded"],
    &["exceed_context_size"],
    &["prompt", "too long"],
    &["input is too long"],
    &["maximum context length"],
    &["exceed", "context window"],
    &["exceed", "context limit"],
    &["exceed", "context size"],
    &["context size", "exceeded"],
    &["exceed", "context length"],
    &["greater than the context length"],
    &["exceed", "allowed input length"],
    &["input token count", "exceed"],
    &["maximum prompt length"],
    &["range of input length"],
    &["exceeded model token limit"],
    &["exceeds max_seq_len"],
];

/// What an answer with an error status means. The body may be anything.
#[must_use]
pub fn failure(protocol: Protocol, status: u16, body: &[u8]) -> CallFailure {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let said = match &value {
        Some(value) => Complaint::of(value),
        None => Complaint { kinds: Vec::new(), why: one_line(&String::from_utf8_lossy(body)) },
    };
    said.failure(protocol, status)
}

/// What an error in an answer that began with status 200 means: its own word stands for the status. Who is too busy to go on
/// broke off: asked anew, the gateway waits for it.
pub(super) fn failure_within(protocol: Protocol, error: &Value) -> CallFailure {
    let said = Complaint::of(error);
    let Some(status) = said.status() else { return CallFailure::Broken { why: said.why } };
    match said.failure(protocol, status) {
        CallFailure::Busy { why } => CallFailure::Broken { why },
        failure => failure,
    }
}

/// What a provider says.
struct Complaint {
    /// Its words for the kind of it: `code` and `type`, in small letters.
    kinds: Vec<String>,
    /// What it says, one line.
    why: String,
}

impl Complaint {
    /// `{"error": {...}}`, `{"error": "..."}`, `{"detail": ...}`, the error alone, or any of these in a list.
    fn of(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = ["error", "detail"].iter().map(|key| &value[*key]).find(|inner| !inner.is_null()).unwrap_or(value);
        let error = error.get(0).unwrap_or(error);
        let word = |key: &str| match &error[key] {
            Value::String(text) => Some(text.to_lowercase()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let kinds: Vec<String> =
            ["code", "type", "status"].iter().filter_map(|key| word(key)).filter(|kind| !kind.is_empty()).collect();
        let text = |value: &Value| value.as_str().map(one_line).filter(|text| !text.is_empty());
        let told = [&error["message"], &error["msg"], error, &value["message"]].into_iter().find_map(text);
        // Whatever else it is says more than nothing.
        let why = told.or_else(|| kinds.first().cloned()).unwrap_or_else(|| one_line(&value.to_string()));
        Self { kinds, why }
    }

    fn is(&self, kind: &str) -> bool {
        self.kinds.iter().any(|one| one == kind)
    }

    /// The status that stands for its kind; none: it broke.
    fn status(&self) -> Option<u16> {
        let status = |kind: &String| match kind.as_str() {
            "permission_error" => Some(403),
            "insufficient_quota" => Some(429),
            "request_too_large" => Some(413),
            "authentication_error" | "invalid_api_key" => Some(401),
            "not_found_error" | "model_not_found" | "not_available" => Some(404),
            "invalid_request_error" | "invalid_prompt" | "invalid_request" | "bad_request" => Some(400),
            kind => kind.parse().ok().filter(|status| (400..600).contains(status)),
        };
        let too_long = self.is_too_long().then_some(400);
        self.kinds.iter().find_map(status).or(too_long)
    }

    fn is_too_long(&self) -> bool {
        let why = self.why.to_lowercase();
        let says = |word: &&str| why.contains(word) || self.kinds.iter().any(|kind| kind.contains(word));
        TOO_LONG.iter().any(|words| words.iter().all(says))
    }

    fn failure(self, protocol: Protocol, status: u16) -> CallFailure {
        let is_denied = match protocol {
            Protocol::AnthropicMessages => self.is("permission_error"),
            Protocol::OpenaiResponses | Protocol::OpenaiChat => self.is("insufficient_quota"),
        };
        // At these, words about too many tokens are about tokens a minute.
        let may_overflow = !matches!(status, 401 | 403 | 404 | 408 | 429 | 503 | 529);
        let is_overflow = status == 413 || (may_overflow && self.is_too_long());
        let why = if self.why.is_empty() { format!("status {status}") } else { self.why };
        match status {
            _ if is_denied => CallFailure::Denied { why },
            _ if is_overflow => CallFailure::Overflow { why },
            408 | 429 | 500.. => CallFailure::Busy { why },
            _ => CallFailure::Refused { status, why },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ANTHROPIC: Protocol = Protocol::AnthropicMessages;
    const CHAT: Protocol = Protocol::OpenaiChat;

    fn denied(why: &str) -> CallFailure {
        CallFailure::Denied { why: why.to_owned() }
    }

    fn busy(why: &str) -> CallFailure {
        CallFailure::Busy { why: why.to_owned() }
    }

    fn refused(status: u16, why: &str) -> CallFailure {
        CallFailure::Refused { status, why: why.to_owned() }
    }

    #[test]
    fn forms_of_errors() {
        let of_anthropic = |kind: &str| json!({ "type": "error", "error": { "type": kind, "message": "Words." } });
        let of_openai =
            |kind: Value, code: Value| json!({ "error": { "type": kind, "code": code, "message": "Words." } });
        for (protocol, status, body, wanted) in [
            (ANTHROPIC, 403, of_anthropic("permission_error"), denied("Words.")),
            (ANTHROPIC, 403, of_anthropic("forbidden"), refused(403, "Words.")),
            (ANTHROPIC, 429, of_anthropic("rate_limit_error"), busy("Words.")),
            (ANTHROPIC, 529, of_anthropic("overloaded_error"), busy("Words.")),
            (ANTHROPIC, 500, of_anthropic("api_error"), busy("Words.")),
            (ANTHROPIC, 401, of_anthropic("authentication_error"), refused(401, "Words.")),
            (ANTHROPIC, 402, of_anthropic("billing_error"), refused(402, "Words.")),
            (ANTHROPIC, 404, of_anthropic("not_found_error"), refused(404, "Words.")),
            (ANTHROPIC, 400, of_anthropic("invalid_request_error"), refused(400, "Words.")),
            (ANTHROPIC, 413, of_anthropic("request_too_large"), CallFailure::Overflow { why: "Words.".to_owned() }),
            (CHAT, 429, of_openai(json!("insufficient_quota"), json!("insufficient_quota")), denied("Words.")),
            (CHAT, 429, of_openai(json!("requests"), json!("rate_limit_exceeded")), busy("Words.")),
            (CHAT, 403, of_openai(json!("permission_error"), json!(null)), refused(403, "Words.")),
            (CHAT, 404, of_openai(json!("invalid_request_error"), json!("model_not_found")), refused(404, "Words.")),
            (CHAT, 503, of_openai(json!("server_error"), json!(null)), busy("Words.")),
            (CHAT, 400, json!({ "error": "words\n of\ta server" }), refused(400, "words of a server")),
            (CHAT, 422, json!({ "detail": "no such field" }), refused(422, "no such field")),
            (CHAT, 422, json!({ "detail": [{ "msg": "no", "loc": ["body"] }] }), refused(422, "no")),
            (CHAT, 400, json!({ "object": "error", "message": "no", "code": 40303 }), refused(400, "no")),
            (
                CHAT,
                400,
                json!([{ "error": { "code": 400, "message": "no", "status": "INVALID_ARGUMENT" } }]),
                refused(400, "no"),
            ),
            (CHAT, 400, json!({}), refused(400, "{}")),
            (CHAT, 400, json!(null), refused(400, "null")),
        ] {
            assert_eq!(failure(protocol, status, body.to_string().as_bytes()), wanted, "{status} {body}");
        }
        assert_eq!(failure(CHAT, 502, b"<html>\n<h1>Bad gateway</h1>"), busy("<html> <h1>Bad gateway</h1>"));
        assert_eq!(failure(CHAT, 418, b""), refused(418, "status 418"));
        assert_eq!(failure(CHAT, 418, &[0xFF, 0, 0x41]), refused(418, "\u{FFFD} A"));
        let CallFailure::Refused { why, .. } = failure(CHAT, 400, "ü".repeat(9_000).as_bytes()) else { panic!() };
        assert_eq!(why.chars().count(), 501);
    }

    #[test]
    fn conversations_that_are_too_long() {
        for (status, message) in [
            (400, "prompt is too long: 202095 tokens > 200000 maximum"),
            (400, "input length and `max_tokens` exceed context limit: 170636 + 34048 > 200000"),
            (400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
            (400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
            (400, "Input length (265330) exceeds model's maximum context length (262144)."),
            (400, "Input length 131393 exceeds the maximum allowed input length of 131040 tokens."),
            (400, "the request exceeds the available context size, try increasing it"),
            (500, "Context size has been exceeded."),
            (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
            (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
            (422, "Prompt too long: 5152 tokens exceeds max_seq_len 2048"),
            (413, "Request Entity Too Large"),
        ] {
            let body = json!({ "error": { "type": "invalid_request_error", "message": message } });
            for protocol in Protocol::ALL {
                let told = failure(protocol, status, body.to_string().as_bytes());
                assert_eq!(told, CallFailure::Overflow { why: message.to_owned() });
            }
        }
        let by_code = json!({ "error": { "code": "context_length_exceeded", "message": "Too much." } });
        let told = failure(Protocol::OpenaiResponses, 400, by_code.to_string().as_bytes());
        assert_eq!(told, CallFailure::Overflow { why: "Too much.".to_owned() });
        let minute = json!({ "error": { "message": "Too many tokens: prompt is too long for your limit a minute" } });
        assert!(matches!(failure(CHAT, 429, minute.to_string().as_bytes()), CallFailure::Busy { .. }));
    }

    #[test]
    fn errors_within_an_answer() {
        let within = |protocol, kind: &str| failure_within(protocol, &json!({ "type": kind, "message": "W." }));
        let broken = CallFailure::Broken { why: "W.".to_owned() };
        for kind in ["overloaded_error", "api_error", "rate_limit_error", "server_error", "whatever"] {
            assert_eq!(within(ANTHROPIC, kind), broken);
            assert_eq!(within(CHAT, kind), broken);
        }
        assert_eq!(within(ANTHROPIC, "permission_error"), denied("W."));
        assert_eq!(within(ANTHROPIC, "invalid_request_error"), refused(400, "W."));
        assert_eq!(within(CHAT, "insufficient_quota"), denied("W."));
        let by_code = |code: u16| failure_within(CHAT, &json!({ "error": { "code": code, "message": "W." } }));
        assert_eq!((by_code(502), by_code(429), by_code(402)), (broken.clone(), broken, refused(402, "W.")));
        let too_long = json!({ "code": "context_length_exceeded", "message": "W." });
        assert_eq!(failure_within(CHAT, &too_long), CallFailure::Overflow { why: "W.".to_owned() });
    }

    /// What the gateway says itself is understood as what it means.
    #[test]
    fn refusals_of_the_gateway() {
        use orc_gateway::wire::{BadRequest, Trouble};
        for protocol in Protocol::ALL {
            let told = |trouble: &Trouble| {
                let answer = trouble.answer(protocol);
                failure(protocol, answer.status, &answer.body)
            };
            let within = |trouble: &Trouble| {
                let mut reader = crate::wire::Reader::new(protocol);
                reader.push(&trouble.event(protocol)).unwrap_err()
            };
            let unable = Trouble::Unable { why: "no key".to_owned() };
            let ended = match protocol {
                ANTHROPIC => denied("no key"),
                _ => refused(404, "no key"),
            };
            assert_eq!((told(&unable), within(&unable)), (ended.clone(), ended), "{protocol}");
            let provider = Trouble::Provider { provider: "p".to_owned(), why: "status 529".to_owned(), after: None };
            let broken = CallFailure::Broken { why: provider.to_string() };
            assert_eq!((told(&provider), within(&provider)), (busy(&provider.to_string()), broken), "{protocol}");
            assert!(matches!(told(&Trouble::TooLarge { most: 9 }), CallFailure::Overflow { .. }));
            let bad = told(&Trouble::Request(BadRequest::NoMap));
            assert!(matches!(bad, CallFailure::Refused { status: 400, .. }), "{bad}");
            assert!(matches!(told(&Trouble::Token), CallFailure::Refused { status: 401, .. }));
            assert!(matches!(told(&Trouble::Gateway { why: "x".to_owned() }), CallFailure::Busy { .. }));
        }
    }
}
