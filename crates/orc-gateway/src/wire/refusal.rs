//! What a program is told instead of an answer, in the words of its protocol.
//!
//! A wall is told in the form at which programs end at once instead of trying again: Anthropic's 403 `permission_error`
//! and OpenAI's 429 `insufficient_quota`, both seen with real programs. `x-should-retry: false` says the same to the
//! providers' own libraries. What nobody can carry out, however often it is tried, is told with 403 and 404. Failures of a provider arrive here after the gateway itself has tried for as long as it does.

use bytes::Bytes;
use orc_domain::meter::{Owner, Refusal};
use orc_domain::model::Protocol;
use serde_json::json;

use super::request::BadRequest;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The meter refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The model that was asked for.
        model: String,
        /// The option by which its price is not known, if that is why.
        dearer: Option<String>,
    },
    /// No provider of this protocol has the model.
    Model {
        /// Which.
        model: String,
        /// Models that there are: patterns.
        known: Vec<String>,
    },
    /// The request cannot be judged.
    Request(BadRequest),
    /// The body of the request is encoded, and would have to be read.
    Encoding {
        /// How.
        encoding: String,
    },
    /// The request is larger than so many bytes.
    TooLarge {
        /// How many are taken.
        most: u64,
    },
    /// There is nothing at this path.
    Path {
        /// Which.
        path: String,
    },
    /// The token is none of ours, or its run is over.
    Token,
    /// The provider does not answer, or not with an answer, however often it is asked.
    Provider {
        /// Its name in the settings.
        provider: String,
        /// What happened last.
        why: String,
        /// Seconds after which it may be asked again, where that is known.
        after: Option<u64>,
    },
    /// There is nobody to send it to, and trying again does not help: no key, no script for it, no record of it.
    Unable {
        /// What is missing, and what helps.
        why: String,
    },
    /// The gateway itself cannot: the ledger does not answer.
    Gateway {
        /// What.
        why: String,
    },
}

/// An answer of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its status.
    pub status: u16,
    /// Its headers, `content-type` included.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Bytes,
}

/// What it is called: the status and the type for Anthropic; the status, the type and the code for OpenAI.
struct Form {
    anthropic: (u16, &'static str),
    openai: (u16, &'static str, &'static str),
}

impl Trouble {
    /// As an answer; before the head of one was sent, the same for streams and others.
    #[must_use]
    pub fn answer(&self, protocol: Protocol) -> Refused {
        let form = self.form();
        let status = match protocol {
            Protocol::AnthropicMessages => form.anthropic.0,
            Protocol::OpenaiResponses | Protocol::OpenaiChat => form.openai.0,
        };
        let mut headers = vec![("content-type", "application/json".to_owned()), ("x-should-retry", "false".to_owned())];
        if let Self::Provider { after: Some(after), .. } = self {
            headers.push(("retry-after", after.to_string()));
        }
        Refused { status, headers, body: self.error(protocol).to_string().into() }
    }

    /// As the last event of a stream that has begun.
    #[must_use]
    pub fn event(&self, protocol: Protocol) -> Bytes {
        let error = self.error(protocol);
        match protocol {
            Protocol::AnthropicMessages => format!("event: error\ndata: {error}\n\n"),
            Protocol::OpenaiResponses => {
                let error = &error["error"];
                let event = json!({
                    "type": "error", "code": error["code"], "message": error["message"], "param": null
                });
                format!("event: error\ndata: {event}\n\n")
            }
            Protocol::OpenaiChat => format!("data: {error}\n\n"),
        }
        .into()
    }

    fn error(&self, protocol: Protocol) -> serde_json::Value {
        let (form, message) = (self.form(), self.to_string());
        match protocol {
            Protocol::AnthropicMessages => {
                json!({"type": "error", "error": {"type": form.anthropic.1, "message": message}})
            }
            Protocol::OpenaiResponses | Protocol::OpenaiChat => {
                let (_, kind, code) = form.openai;
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
        }
    }

    fn form(&self) -> Form {
        let (anthropic, openai) = match self {
            Self::Refused { .. } => ((403, "permission_error"), (429, "insufficient_quota", "insufficient_quota")),
            // Both forms end the programs that are known, and by these they show the text.
            Self::Unable { .. } => ((403, "permission_error"), (404, "invalid_request_error", "not_available")),
            Self::Model { .. } => ((404, "not_found_error"), (404, "invalid_request_error", "model_not_found")),
            Self::Request(_) => ((400, "invalid_request_error"), (400, "invalid_request_error", "invalid_request")),
            Self::Encoding { .. } => {
                ((415, "invalid_request_error"), (415, "invalid_request_error", "unsupported_media_type"))
            }
            Self::TooLarge { .. } => ((413, "request_too_large"), (413, "invalid_request_error", "request_too_large")),
            Self::Path { .. } => ((404, "not_found_error"), (404, "invalid_request_error", "unknown_url")),
            Self::Token => ((401, "authentication_error"), (401, "invalid_request_error", "invalid_api_key")),
            Self::Provider { .. } => {
                ((529, "overloaded_error"), (503, "service_unavailable_error", "server_is_overloaded"))
            }
            Self::Gateway { .. } => ((500, "api_error"), (500, "server_error", "server_error")),
        };
        Form { anthropic, openai }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused { refusal, model, dearer } => refused(f, *refusal, model, dearer.as_deref()),
            Self::Model { model, known } if known.is_empty() => {
                write!(f, "no provider has the model `{model}`, or any other for this protocol")
            }
            Self::Model { model, known } => {
                write!(f, "no provider has the model `{model}`; there are: {}", known.join(", "))
            }
            Self::Request(bad) => bad.fmt(f),
            Self::Encoding { encoding } => {
                write!(f, "the body of the request has `content-encoding: {encoding}`: send it as plain JSON")
            }
            Self::TooLarge { most } => write!(f, "the request is larger than {most} bytes"),
            Self::Path { path } => write!(f, "the model gateway has nothing at `{path}`"),
            Self::Token => f.write_str(
                "this key is not known to the model gateway, or what it was for is over: a run is given its own as ANTHROPIC_API_KEY \
                 and OPENAI_API_KEY, so name neither in `env:` of its profile",
            ),
            Self::Provider { provider, why, .. } => write!(f, "the provider `{provider}` does not answer: {why}"),
            Self::Unable { why } => f.write_str(why),
            Self::Gateway { why } => write!(f, "the model gateway cannot carry out the call: {why}"),
        }
    }
}

fn refused(f: &mut std::fmt::Formatter<'_>, refusal: Refusal, model: &str, dearer: Option<&str>) -> std::fmt::Result {
    let name = |owner: Owner| match owner {
        Owner::Gateway => "this gateway".to_owned(),
        Owner::Flow(flow) => format!("the flow {flow}"),
        Owner::Run(run) => format!("the run {run}"),
    };
    match refusal {
        Refusal::Wall { owner, wall, short } => {
            write!(f, "the wall `{}` of {} is reached: {}", wall.word(), name(owner), short.told(wall))
        }
        Refusal::Unpriced { owner } => {
            let owner = name(owner);
            match dearer {
                Some(option) => write!(f, "no price is known for `{option}` of the model `{model}`: ")?,
                None => write!(f, "no price is known for the model `{model}`: ")?,
            }
            write!(
                f,
                "{owner} has a wall in money (`usd`), or the settings say `unpriced: refuse`; name its price in the file of `prices:`"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use orc_domain::budget::Wall;
    use orc_domain::ids::{FlowId, RunId};
    use orc_domain::meter::Shortfall;
    use serde_json::Value;

    use super::*;

    fn wall(wall: Wall, spent: u64, limit: u64) -> Trouble {
        let owner = Owner::Flow(FlowId::from_uuid(uuid::Uuid::from_u128(7)));
        let short = Shortfall { limit, spent, held: 0, needed: 4_000_000, output: 36_095 };
        let refusal = Refusal::Wall { owner, wall, short };
        Trouble::Refused { refusal, model: "m".to_owned(), dearer: None }
    }

    fn provider() -> Trouble {
        Trouble::Provider { provider: "anthropic".to_owned(), why: "status 529".to_owned(), after: Some(30) }
    }

    #[test]
    fn a_wall_is_told_with_its_owner_its_spend_and_its_limit() {
        for (trouble, wanted) in [
            (
                wall(Wall::Usd, 19_980_000, 20_000_000),
                "$19.98 of $20.00 are used, and the next call needs $4.00 set aside: its input at most, and the 36095 tokens of \
                 output",
            ),
            (wall(Wall::Tokens, 5, 7), "5 of 7 tokens are used"),
            (wall(Wall::ModelCalls, 3, 3), "3 of 3 calls of models are used"),
        ] {
            let text = trouble.to_string();
            assert!(text.contains(wanted) && text.contains("the flow f"), "{text}");
        }
        let owner = Owner::Run(RunId::from_uuid(uuid::Uuid::from_u128(7)));
        let refusal = Refusal::Unpriced { owner };
        let unpriced = Trouble::Refused { refusal, model: "m-1".to_owned(), dearer: None }.to_string();
        assert!(unpriced.contains("no price is known for the model `m-1`"), "{unpriced}");
        let dearer = Some("service_tier: priority".to_owned());
        let unpriced = Trouble::Refused { refusal, model: "m-1".to_owned(), dearer }.to_string();
        assert!(unpriced.contains("`service_tier: priority` of the model `m-1`"), "{unpriced}");
    }

    #[test]
    fn every_trouble_has_the_form_of_its_protocol() {
        let all = [
            (wall(Wall::Usd, 1, 2), (403, "permission_error"), (429, "insufficient_quota")),
            (
                Trouble::Model { model: "x".to_owned(), known: vec!["y*".to_owned()] },
                (404, "not_found_error"),
                (404, "model_not_found"),
            ),
            (Trouble::Request(BadRequest::NoMap), (400, "invalid_request_error"), (400, "invalid_request")),
            (Trouble::Unable { why: "no key".to_owned() }, (403, "permission_error"), (404, "not_available")),
            (Trouble::TooLarge { most: 9 }, (413, "request_too_large"), (413, "request_too_large")),
            (Trouble::Path { path: "/v1/x".to_owned() }, (404, "not_found_error"), (404, "unknown_url")),
            (Trouble::Token, (401, "authentication_error"), (401, "invalid_api_key")),
            (provider(), (529, "overloaded_error"), (503, "server_is_overloaded")),
            (Trouble::Gateway { why: "x".to_owned() }, (500, "api_error"), (500, "server_error")),
        ];
        for (trouble, anthropic, openai) in all {
            let told = trouble.answer(Protocol::AnthropicMessages);
            let body: Value = serde_json::from_slice(&told.body).unwrap();
            assert_eq!((told.status, body["error"]["type"].as_str().unwrap()), anthropic, "{trouble}");
            assert_eq!(
                (&body["type"], body["error"]["message"].as_str()),
                (&json!("error"), Some(&*trouble.to_string()))
            );
            for protocol in [Protocol::OpenaiResponses, Protocol::OpenaiChat] {
                let told = trouble.answer(protocol);
                let body: Value = serde_json::from_slice(&told.body).unwrap();
                assert_eq!((told.status, body["error"]["code"].as_str().unwrap()), openai, "{trouble}");
                assert_eq!(body["error"]["message"].as_str(), Some(&*trouble.to_string()));
            }
        }
        let headers = provider().answer(Protocol::OpenaiChat).headers;
        assert!(
            headers.contains(&("retry-after", "30".to_owned())) && headers.iter().any(|(n, _)| *n == "x-should-retry")
        );
    }

    #[test]
    fn what_we_say_in_the_middle_is_understood_as_a_failure() {
        for protocol in Protocol::ALL {
            let mut answer = crate::wire::Answer::new(protocol, 200);
            answer.feed(&provider().event(protocol));
            let end = answer.finish(0, orc_domain::meter::Amount::default()).end;
            let crate::wire::End::Failed { text, .. } = end else { panic!("{protocol}: {end:?}") };
            assert_eq!(text, provider().to_string());
        }
    }
}
