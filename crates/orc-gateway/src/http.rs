//! A provider that is reached by HTTP: the one place that knows its key, puts it in, and keeps it from coming out again.
//!
//! What a program sent goes out as it came, but for credentials and what belongs to one connection; answers come back the
//! same way, uncompressed because nothing else is asked for. No redirect is followed: a key goes where the settings say,
//! and nowhere else. Proxies of the environment are used, but not for this machine.

use std::error::Error as _;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use orc_domain::model::Protocol;
use orc_ports::clock::Clock;
use reqwest::{Client, Response, Url};

use crate::provider::{Broken, Incoming, Outgoing, Provider, SendError, Want};
use crate::redact::{self, Redactor};
use crate::shape::{Credential, HttpShape, Times};

/// Headers of a request that end here: of one connection, credentials, and what is said anew. `openai-organization` and
/// the like are no credentials.
const KEPT_FROM_PROVIDERS: [&str; 21] = [
    "accept-encoding",
    "api-key",
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
    "x-forwarded-for",
    "x-goog-api-key",
];
/// Headers of an answer that end here.
const KEPT_FROM_PROGRAMS: [&str; 10] = [
    "alt-svc",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// An answer that refuses a key is read whole, up to this.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Why there is no way to a provider.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// Its address is none.
    #[error("`base_url` of the provider `{provider}` is `{url}`, which is no address: {why}")]
    Address {
        /// Which provider.
        provider: String,
        /// What stands there.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// Its key has characters that no header can have.
    #[error("the key of the provider `{provider}` cannot be sent: it has characters that no header may have")]
    Key {
        /// Which provider.
        provider: String,
    },
}

/// A provider that is reached by HTTP.
pub struct Upstream {
    name: String,
    base: Url,
    credential: Credential,
    redactor: Redactor,
    /// Made for the first call: the roots of trust of a system are many files, and nobody may ever call.
    client: OnceLock<Client>,
    times: Times,
    clock: Arc<dyn Clock>,
}

impl Upstream {
    /// Prepares the way to a provider; nothing is connected yet.
    ///
    /// # Errors
    /// When its address or key cannot be used.
    pub fn new(name: &str, shape: &HttpShape, times: Times, clock: Arc<dyn Clock>) -> Result<Self, UpstreamError> {
        let provider = || name.to_owned();
        let base = parse_base(&shape.base_url).map_err(|why| UpstreamError::Address {
            provider: provider(),
            url: shown(&shape.base_url),
            why,
        })?;
        let key = match &shape.credential {
            Credential::Key(key) => key.expose(),
            Credential::Needless | Credential::Missing { .. } => "",
        };
        if HeaderValue::from_str(key).is_err() {
            return Err(UpstreamError::Key { provider: provider() });
        }
        let (credential, redactor) = (shape.credential.clone(), Redactor::new(key));
        Ok(Self { name: provider(), base, credential, redactor, client: OnceLock::new(), times, clock })
    }

    fn client(&self) -> Result<&Client, SendError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        // Whoever comes second is told that there is one already, which is what is wanted.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .tcp_nodelay(true)
            .connect_timeout(self.times.connect.as_std());
        if is_this_machine(&self.base) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| SendError::Unable {
            why: format!(
                "connections to the provider `{}` cannot be prepared: {}; if the system has no certificates, install them (`apt-get install ca-certificates`)",
                self.name,
                reason(&error)
            ),
        })?;
        Ok(self.client.get_or_init(|| client))
    }

    fn headers(&self, outgoing: &Outgoing) -> Result<HeaderMap, SendError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &outgoing.headers {
            if KEPT_FROM_PROVIDERS.contains(&name.as_str()) {
                continue;
            }
            // What is no header cannot have come from one.
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                headers.append(name, value);
            }
        }
        headers.insert(http::header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let (name, text) = match (&self.credential, outgoing.protocol) {
            (Credential::Needless, _) => return Ok(headers),
            (Credential::Missing { hint }, _) => {
                return Err(SendError::Unable { why: format!("the provider `{}` has no key: {hint}", self.name) });
            }
            (Credential::Key(key), Protocol::AnthropicMessages) => ("x-api-key", key.expose().to_owned()),
            (Credential::Key(key), Protocol::OpenaiResponses | Protocol::OpenaiChat) => {
                ("authorization", format!("Bearer {}", key.expose()))
            }
        };
        if let Ok(mut value) = HeaderValue::try_from(text) {
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }

    async fn exchange(&self, outgoing: Outgoing) -> Result<Incoming, SendError> {
        let headers = self.headers(&outgoing)?;
        let url = address(&self.base, outgoing.protocol, outgoing.want, &outgoing.query);
        let request = match outgoing.want {
            Want::Models => self.client()?.get(url),
            Want::Answer | Want::Count => self.client()?.post(url).body(outgoing.body),
        };
        let response = tokio::select! {
            response = request.headers(headers).send() => response.map_err(|error| self.failed(error))?,
            () = self.clock.sleep(self.times.first_byte) => {
                let seconds = self.times.first_byte.as_millis() / 1_000;
                return Err(self.silent(format!("it said nothing for {seconds} s")));
            }
        };
        self.incoming(response).await
    }

    fn silent(&self, why: String) -> SendError {
        SendError::Silent { provider: self.name.clone(), why }
    }

    fn failed(&self, error: reqwest::Error) -> SendError {
        let (connecting, why) = (error.is_connect(), self.redactor.text(&reason(&error.without_url())));
        if connecting { SendError::Unreachable { provider: self.name.clone(), why } } else { self.silent(why) }
    }

    async fn incoming(&self, response: Response) -> Result<Incoming, SendError> {
        let status = response.status().as_u16();
        if response.status().is_redirection() {
            return Err(SendError::Unable {
                why: format!(
                    "the provider `{}` answers {status} and sends its callers elsewhere, where its key does not go: set \
                     `base_url` to the address that it means",
                    self.name
                ),
            });
        }
        let headers = kept(response.headers(), &self.redactor);
        let body = body(response, self.redactor.clone(), (self.times, self.clock.clone()));
        let body = if matches!(status, 401 | 403) { self.masked(body).await } else { body };
        Ok(Incoming { status, headers, body })
    }

    /// The body of an answer that refuses a key: some show parts of it.
    async fn masked(
        &self,
        mut body: BoxStream<'static, Result<Bytes, Broken>>,
    ) -> BoxStream<'static, Result<Bytes, Broken>> {
        let (mut all, mut broken) = (Vec::new(), None);
        while let Some(piece) = body.next().await {
            match piece {
                Ok(piece) => all.extend_from_slice(&piece),
                Err(error) => broken = Some(error),
            }
            if all.len() > REFUSAL_BYTES {
                all.truncate(REFUSAL_BYTES);
                broken = Some(Broken::Cut { why: "the refusal of the key was too long".to_owned() });
            }
            if broken.is_some() {
                break;
            }
        }
        let masked = match String::from_utf8(all) {
            Ok(text) => redact::mask_hints(&text).into_bytes(),
            Err(error) => vec![b'*'; error.as_bytes().len()],
        };
        stream::iter([Ok(masked.into())].into_iter().chain(broken.map(Err))).boxed()
    }
}

impl Provider for Upstream {
    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, SendError>> {
        self.exchange(outgoing).boxed()
    }
}

/// The body as it comes, without the key, and cut when nothing comes for too long.
fn body(
    response: Response,
    redactor: Redactor,
    (times, clock): (Times, Arc<dyn Clock>),
) -> BoxStream<'static, Result<Bytes, Broken>> {
    let next = move |state: Option<(Response, Redactor)>| {
        let clock = clock.clone();
        async move {
            let (mut response, mut redactor) = state?;
            loop {
                let piece = tokio::select! {
                    piece = response.chunk() => piece,
                    () = clock.sleep(times.idle) => {
                        return Some((Err(Broken::Idle { seconds: times.idle.as_millis() / 1_000 }), None));
                    }
                };
                match piece {
                    Ok(Some(piece)) => {
                        let piece = redactor.push(piece);
                        if !piece.is_empty() {
                            return Some((Ok(piece), Some((response, redactor))));
                        }
                    }
                    Ok(None) => {
                        let rest = redactor.finish();
                        return (!rest.is_empty()).then_some((Ok(rest), None));
                    }
                    Err(error) => {
                        let why = redactor.text(&reason(&error.without_url()));
                        return Some((Err(Broken::Cut { why }), None));
                    }
                }
            }
        }
    };
    stream::unfold(Some((response, redactor)), next).boxed()
}

fn kept(headers: &HeaderMap, redactor: &Redactor) -> Vec<(String, String)> {
    let named: Vec<String> = headers
        .get_all(http::header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    let passes = |name: &str| !KEPT_FROM_PROGRAMS.contains(&name) && !named.iter().any(|one| one == name);
    headers
        .iter()
        .filter(|(name, _)| passes(name.as_str()))
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), redactor.text(value.to_str().ok()?))))
        .collect()
}

/// What an error and its causes say, in one line.
fn reason(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

fn parse_base(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("it has to begin with `https://` or `http://`".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a key has no place in it: use `key`".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it ends with a path, without `?` and `#`".to_owned());
    }
    Ok(url)
}

/// An address for a message: what may be a key is left out.
fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => format!("{}***{}", &text[..scheme + 3], &text[at..]),
        _ => text.to_owned(),
    }
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Where a call goes. The base is what the providers' own programs take: without `/v1` for Anthropic, with it for OpenAI.
fn address(base: &Url, protocol: Protocol, want: Want, query: &str) -> Url {
    let path = base.path().trim_end_matches('/');
    let before = match protocol {
        Protocol::AnthropicMessages => format!("{}/v1", path.strip_suffix("/v1").unwrap_or(path)),
        Protocol::OpenaiResponses | Protocol::OpenaiChat if path.is_empty() => "/v1".to_owned(),
        Protocol::OpenaiResponses | Protocol::OpenaiChat => path.to_owned(),
    };
    let what = match (want, protocol) {
        (Want::Models, _) => "models",
        (Want::Answer, Protocol::AnthropicMessages) => "messages",
        (Want::Count, Protocol::AnthropicMessages) => "messages/count_tokens",
        (Want::Answer, Protocol::OpenaiResponses) => "responses",
        (Want::Count, Protocol::OpenaiResponses) => "responses/input_tokens",
        (Want::Answer | Want::Count, Protocol::OpenaiChat) => "chat/completions",
    };
    let mut url = base.clone();
    url.set_path(&format!("{before}/{what}"));
    url.set_query(query.strip_prefix('?'));
    url
}

#[cfg(test)]
mod tests;
