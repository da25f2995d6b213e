//! `WebFetch`: a page of the web as text, through the proxy that the box gives.
//!
//! Without that proxy there is no network. Which hosts can be reached is decided outside; nothing here looks up a name.

mod page;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use encoding_rs::{Encoding, UTF_8};
use orc_process::hands::{Floor, Used};
use ureq::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use ureq::{Agent, Body, Proxy, http};
use url::Url;

#[cfg(test)]
pub(super) use self::page::to_text;
use super::offers::TEXT_BYTES;
use super::text::known_kind;
use super::{Outcome, Refusal, input, spool};

/// Longest time for a page.
const MOST_TIME: Duration = Duration::from_secs(30);
/// Most bytes of a page.
const MOST_BYTES: usize = 5 << 20;
/// Most redirects within a host.
const MOST_REDIRECTS: usize = 5;
/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Bytes of a page that tells of a failure.
const FAILURE_BYTES: usize = 2_000;
/// Room for what is said besides the page.
const ROOM: usize = 600;

/// A page as it came.
struct Page {
    url: Url,
    status: u16,
    kind: String,
    length: Option<u64>,
    bytes: Vec<u8>,
    is_whole: bool,
}

pub(super) fn fetch(wanted: &input::WebFetch, floor: &dyn Floor) -> Outcome {
    let url = checked(&wanted.url)?;
    let agent = agent(&url, floor)?;
    match load(&agent, url, floor)? {
        Loaded::Elsewhere(text) => Ok(super::told(text)),
        Loaded::Page(page) => tell(&page, floor),
    }
}

/// Only addresses of pages.
fn checked(asked: &str) -> Result<Url, Refusal> {
    let url = Url::parse(asked.trim()).map_err(|error| {
        Refusal(format!("`{}` is no address: {error}. It begins with https:// or http://.", short(asked)))
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = url.scheme();
        return Err(
            format!("`{scheme}:` is not fetched; only http:// and https:// are. Files are read with Read.").into()
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("The address holds a name or a password; leave that out.".into());
    }
    Ok(url)
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

fn agent(url: &Url, floor: &dyn Floor) -> Result<Agent, Refusal> {
    let env = floor.env();
    let set = |names: [&str; 2]| names.iter().find_map(|name| env.get(*name)).filter(|value| !value.is_empty());
    let proxy = match url.scheme() {
        "https" => set(["HTTPS_PROXY", "https_proxy"]),
        _ => set(["HTTP_PROXY", "http_proxy"]),
    };
    let Some(proxy) = proxy else {
        return Err(format!(
            "There is no network here: the profile of this agent grants no host. To allow it, somebody has to add `{}` to \
             `box.network` of the profile. Do without it.",
            url.host_str().unwrap_or_default()
        )
        .into());
    };
    let proxy = Proxy::new(proxy).map_err(|error| Refusal(format!("The proxy of the box cannot be used: {error}.")))?;
    let time = floor.left().map_or(MOST_TIME, |left| left.min(MOST_TIME));
    let config = Agent::config_builder()
        .proxy(Some(proxy))
        .timeout_global(Some(time))
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent("orchestrator")
        .accept("text/html, text/plain;q=0.9, */*;q=0.5")
        .build();
    Ok(config.into())
}

enum Loaded {
    Page(Page),
    /// It leads to another host.
    Elsewhere(String),
}

fn load(agent: &Agent, mut url: Url, floor: &dyn Floor) -> Result<Loaded, Refusal> {
    for _ in 0..=MOST_REDIRECTS {
        let response = agent.get(url.as_str()).call().map_err(|error| explain(&url, &error))?;
        let status = response.status();
        let target = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).map(|to| url.join(to));
        match target {
            Some(to) if status.is_redirection() => {
                let to = to.map_err(|error| Refusal(format!("`{url}` leads to an address that is none: {error}.")))?;
                let next = checked(to.as_str())?;
                if next.host_str() != url.host_str() {
                    return Ok(Loaded::Elsewhere(format!(
                        "`{url}` leads to another host (status {}): {next}\nIt was not fetched. Call WebFetch with that address if it is \
                         what you want.",
                        status.as_u16()
                    )));
                }
                url = next;
            }
            _ => return receive(response, url, floor).map(Loaded::Page),
        }
    }
    Err(format!("`{url}` leads on and on: after {MOST_REDIRECTS} redirects there is no page.").into())
}

fn receive(response: http::Response<Body>, url: Url, floor: &dyn Floor) -> Result<Page, Refusal> {
    let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let kind = header(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    let length = header(CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let status = response.status().as_u16();
    let mut page = Page { url, status, kind, length, bytes: Vec::new(), is_whole: false };
    let mut reader = response.into_body().into_reader();
    let mut chunk = vec![0; CHUNK];
    while page.bytes.len() < MOST_BYTES {
        if floor.is_cancelled() {
            return Err("Cancelled.".into());
        }
        let room = CHUNK.min(MOST_BYTES - page.bytes.len());
        match reader.read(&mut chunk[..room]) {
            Ok(0) => {
                page.is_whole = true;
                break;
            }
            Ok(count) => page.bytes.extend_from_slice(&chunk[..count]),
            Err(error) if page.bytes.is_empty() => {
                return Err(format!("`{}` broke off: {error}. Trying once more may help.", page.url).into());
            }
            // What came is told, and that it is not all.
            Err(_) => break,
        }
    }
    Ok(page)
}

fn explain(url: &Url, error: &ureq::Error) -> Refusal {
    let host = url.host_str().unwrap_or_default();
    let why = match error {
        ureq::Error::ConnectProxyFailed(why) if why.contains("403") => format!(
            "the box does not let this agent reach `{host}`. To allow it, somebody has to add `{host}` to `box.network` of the profile. \
             Do without it"
        ),
        ureq::Error::ConnectProxyFailed(why) => format!("the proxy of the box cannot reach `{host}`: {}", why.trim()),
        ureq::Error::Timeout(_) => "it took too long. Trying once more may help".to_owned(),
        other => other.to_string(),
    };
    Refusal(format!("`{}` was not fetched: {why}.", short(url.as_str())))
}

fn tell(page: &Page, floor: &dyn Floor) -> Outcome {
    let essence = page.kind.split(';').next().unwrap_or_default().trim();
    let is_page = matches!(essence, "text/html" | "application/xhtml+xml");
    if !is_page && !is_text(essence, &page.bytes) {
        let kind = known_kind(&page.bytes).map_or(essence.to_owned(), str::to_owned);
        let kind = if kind.is_empty() { "no text".to_owned() } else { kind };
        let length = page.length.unwrap_or(page.bytes.len() as u64);
        return Err(format!("`{}` is {kind}, {length} bytes: it is not shown as text.", page.url).into());
    }
    let (text, remark) = decode(page);
    let text = if is_page { page::to_text(&text, &page.url) } else { text };
    let mut told = format!("{} (status {}{remark})\n", page.url, page.status);
    if !page.is_whole {
        told.push_str(&format!("[it broke off after {} bytes; there was more]\n", page.bytes.len()));
    }
    if !(200..300).contains(&page.status) {
        told.push_str(&text[..text.floor_char_boundary(FAILURE_BYTES)]);
        return Err(told.into());
    }
    if text.trim().is_empty() {
        told.push_str("[there is no text in it]");
    }
    let bound = floor.bound().unwrap_or(TEXT_BYTES).saturating_sub(told.len() + ROOM);
    let (shown, file) = if text.len() <= bound { (text.as_str(), None) } else { shorten(&text, bound, floor.env()) };
    told.push_str(shown);
    if shown.len() < text.len() {
        let place = match &file {
            Some(file) => format!("all of it is in {}: use Read with an offset, or Grep", file.display()),
            None => "no file could be made for the rest".to_owned(),
        };
        told.push_str(&format!("\n[{} of {} bytes; {place}]", shown.len(), text.len()));
    }
    Ok(Used { text: told, file, ..Used::default() })
}

fn shorten<'a>(text: &'a str, bound: usize, env: &BTreeMap<String, String>) -> (&'a str, Option<PathBuf>) {
    let end = text.floor_char_boundary(bound);
    let end = text[..end].rfind('\n').filter(|line| *line > end / 2).unwrap_or(end);
    let written = spool::Kept::make(env).map(|mut kept| {
        kept.add(text.as_bytes());
        kept
    });
    (&text[..end], written.ok().filter(|kept| kept.dropped == 0).map(|kept| kept.path))
}

/// Kinds of `application/...` that are text; so are those that end with `+json` or `+xml`, and all of them after `x-`.
const TEXTS: [&str; 9] = ["json", "xml", "yaml", "javascript", "toml", "sql", "graphql", "ndjson", "sh"];

fn is_text(essence: &str, bytes: &[u8]) -> bool {
    let (kind, rest) = essence.split_once('/').unwrap_or((essence, ""));
    let bare = rest.strip_prefix("x-").unwrap_or(rest);
    let is_known = TEXTS.contains(&bare) || rest.ends_with("+json") || rest.ends_with("+xml");
    let is_named = kind == "text" || kind == "application" && is_known;
    if is_named && (bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")) {
        return true;
    }
    let is_unnamed = essence.is_empty() || essence == "application/octet-stream";
    let is_likely = is_named || is_unnamed && std::str::from_utf8(bytes).is_ok();
    is_likely && !bytes.contains(&0) && known_kind(bytes).is_none()
}

/// The text of a page by the encoding that it names, and a remark for when that is not quite what it is in.
fn decode(page: &Page) -> (String, &'static str) {
    let named = page.kind.split("charset=").nth(1).map(|label| label.trim().trim_matches(['"', '\'', ';']));
    let named = named.or_else(|| meta_charset(&page.bytes));
    let encoding = named.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8);
    let (text, _, has_errors) = encoding.decode(&page.bytes);
    // The cut may be within a character.
    let remark = if has_errors && page.is_whole { ", with characters that cannot be read" } else { "" };
    (text.into_owned(), remark)
}

/// The encoding that a page names at its beginning.
fn meta_charset(bytes: &[u8]) -> Option<&str> {
    let start = &bytes[..bytes.len().min(1_024)];
    let at = start.windows(8).position(|part| part.eq_ignore_ascii_case(b"charset="))? + 8;
    let label = start[at..].trim_ascii_start();
    let label = label.strip_prefix(b"\"").or(label.strip_prefix(b"'")).unwrap_or(label);
    let end = label.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"-_".contains(byte))?;
    std::str::from_utf8(&label[..end]).ok()
}
