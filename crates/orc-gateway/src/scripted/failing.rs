//! Errors in the words of each provider.

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use orc_domain::model::Protocol;
use orc_domain::script::Failure;
use serde_json::{Value, json};

use crate::provider::Incoming;

pub(super) fn answer(protocol: Protocol, failure: &Failure) -> Incoming {
    let body = Bytes::from(body(protocol, failure).to_string());
    let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    if let Some(span) = failure.retry_after {
        headers.push(("retry-after".to_owned(), span.as_millis().div_ceil(1000).to_string()));
    }
    Incoming { status: failure.status, headers, body: stream::iter([Ok(body)]).boxed() }
}

fn body(protocol: Protocol, failure: &Failure) -> Value {
    let message = &failure.message;
    match protocol {
        Protocol::AnthropicMessages => {
            let kind = failure.kind.as_deref().unwrap_or_else(|| of_anthropic(failure.status));
            json!({ "type": "error", "error": { "type": kind, "message": message } })
        }
        Protocol::OpenaiResponses | Protocol::OpenaiChat => {
            let (kind, code) = match &failure.kind {
                Some(kind) => (kind.as_str(), Some(kind.as_str())),
                None => of_openai(failure.status),
            };
            json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
        }
    }
}

/// Anthropic's documentation, "Errors".
const fn of_anthropic(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// The usual type and code of a status.
const fn of_openai(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    }
}
