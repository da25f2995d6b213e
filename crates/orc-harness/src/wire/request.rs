//! Requests: one module for each protocol.

mod anthropic;
mod chat;
mod responses;

use bytes::Bytes;
use orc_domain::model::Protocol;
use serde::Serialize;

pub(super) use self::chat::THOUGHTS;
use crate::talk::Question;

/// A request as it goes to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its headers, names in lower case; no credentials.
    pub headers: Vec<(String, String)>,
    /// Its body: JSON.
    pub body: Bytes,
}

/// A question in the words of a protocol.
#[must_use]
pub fn request(protocol: Protocol, question: &Question) -> Outgoing {
    match protocol {
        Protocol::AnthropicMessages => anthropic::request(question),
        Protocol::OpenaiResponses => responses::request(question),
        Protocol::OpenaiChat => chat::request(question),
    }
}

fn outgoing(body: &impl Serialize, others: &[(&str, &str)]) -> Outgoing {
    let headers = [("content-type", "application/json")].iter().chain(others);
    let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    #[expect(clippy::expect_used, reason = "invariant: bodies have keys that are texts, and no values that JSON lacks")]
    let body = serde_json::to_vec(body).expect("a body is JSON");
    Outgoing { headers, body: body.into() }
}

#[cfg(test)]
mod tests;
