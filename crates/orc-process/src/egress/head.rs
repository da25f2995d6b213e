//! Heads of HTTP/1.1: what a box sends, made into what an origin is sent, and what an origin answers.
//!
//! A request is taken only when there is one way to read it: lines end in CR LF, nothing is folded, a length is said once
//! and in one way. Then it is written anew: the host is that of the URI, whatever `Host` says, the framing is what was
//! understood, and headers between neighbours are dropped. So no origin can read another request in it than was judged.

use orc_domain::confine::network::{HostError, Target};
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Headers of one head.
const HEADERS: usize = 200;
/// Between neighbours (RFC 9110, 7.6.1, and what came before it), and those that are written anew.
const NOT_FORWARDED: [&str; 11] = [
    "connection",
    "proxy-connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-authenticate",
    "te",
    "trailer",
    "upgrade",
    "transfer-encoding",
    "content-length",
    "host",
];
/// Those of an answer; its framing and body pass as they are.
const NOT_RETURNED: [&str; 6] =
    ["connection", "proxy-connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "upgrade"];

/// Why a head was not read to its end.
#[derive(Debug)]
pub(super) enum Unread {
    /// The other side has ended or failed.
    Ended,
    /// It is longer than it may be.
    TooLong,
    /// A line that does not end in CR LF.
    BareLine,
}

/// Reads up to the empty line, and not a byte more.
pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin), limit: usize) -> Result<Vec<u8>, Unread> {
    let mut head = Vec::new();
    loop {
        let bytes = from.fill_buf().await.map_err(|_| Unread::Ended)?;
        if bytes.is_empty() {
            return Err(Unread::Ended);
        }
        let mut taken = 0;
        for byte in bytes {
            if *byte == b'\n' && head.last() != Some(&b'\r') {
                return Err(Unread::BareLine);
            }
            if head.len() == limit {
                return Err(Unread::TooLong);
            }
            head.push(*byte);
            taken += 1;
            if head.ends_with(b"\r\n\r\n") {
                from.consume(taken);
                return Ok(head);
            }
        }
        from.consume(taken);
    }
}

/// How a request's body is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// A tunnel.
    Connect(Target),
    /// One exchange.
    Forward(Forward),
}

/// A request in absolute form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Forward {
    pub(super) target: Target,
    /// Whether its answer has no body, whatever that says.
    pub(super) is_head: bool,
    pub(super) framing: Framing,
    /// What the origin is sent.
    pub(super) head: Vec<u8>,
}

/// Why a head is no request that is taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum BadRequest {
    #[error("the first line is not METHOD SP TARGET SP HTTP/1.1")]
    RequestLine,
    #[error("this is a proxy: the target is a whole URI (`http://HOST/PATH`), or `HOST:PORT` with CONNECT")]
    NotForProxy,
    #[error("`https:` goes through CONNECT")]
    Https,
    #[error("a target has no user, no fragment and no blank")]
    TargetParts,
    #[error("no host in the target: {0}")]
    Host(HostError),
    #[error("a header is not NAME: VALUE on one line")]
    Header,
    #[error("more than {HEADERS} headers")]
    HeaderCount,
    #[error("more than one Host")]
    TwoHosts,
    #[error("the length of the body is said twice, or in two ways")]
    TwoLengths,
    #[error("Content-Length is not a number")]
    Length,
    #[error("Transfer-Encoding is not `chunked`, or the request is of HTTP/1.0")]
    Encoding,
    #[error("CONNECT has no body")]
    ConnectBody,
}

struct Header<'a> {
    /// As it was written.
    name: &'a [u8],
    lower: String,
    value: &'a [u8],
}

/// The lines of a head without the empty one; a CR that does not end one makes it no head.
fn lines(head: &[u8]) -> Option<Vec<&[u8]>> {
    let lines: Vec<&[u8]> = head
        .strip_suffix(b"\r\n\r\n")?
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect();
    lines.iter().all(|line| !line.contains(&b'\r')).then_some(lines)
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

fn header(line: &[u8]) -> Option<Header<'_>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_value = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    if name.is_empty() || !name.iter().copied().all(is_token) || !value.iter().all(is_value) {
        return None;
    }
    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    Some(Header { name, lower, value })
}

/// The names that `Connection` lists, which are then between neighbours too.
fn listed<'a>(headers: &'a [Header<'_>]) -> impl Iterator<Item = String> + 'a {
    let values = headers.iter().filter(|header| header.lower == "connection").map(|header| header.value);
    values
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
}

fn kept<'a>(headers: &'a [Header<'a>], dropped: &'static [&'static str]) -> impl Iterator<Item = &'a Header<'a>> {
    let listed: Vec<String> = listed(headers).collect();
    headers.iter().filter(move |header| !dropped.contains(&header.lower.as_str()) && !listed.contains(&header.lower))
}

fn write(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

impl Request {
    /// Reads a head that ends in an empty line.
    pub(super) fn parse(head: &[u8]) -> Result<Self, BadRequest> {
        let lines = lines(head).ok_or(BadRequest::Header)?;
        let (first, rest) = lines.split_first().ok_or(BadRequest::RequestLine)?;
        let first = std::str::from_utf8(first).map_err(|_| BadRequest::RequestLine)?;
        let [method, target, version] = first.split(' ').collect::<Vec<_>>()[..] else {
            return Err(BadRequest::RequestLine);
        };
        let is_method = !method.is_empty() && method.bytes().all(is_token);
        if !is_method || target.is_empty() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err(BadRequest::RequestLine);
        }
        if rest.len() > HEADERS {
            return Err(BadRequest::HeaderCount);
        }
        let headers: Vec<_> = rest.iter().map(|line| header(line)).collect::<Option<_>>().ok_or(BadRequest::Header)?;
        if headers.iter().filter(|header| header.lower == "host").count() > 1 {
            return Err(BadRequest::TwoHosts);
        }
        let framing = framing(&headers, version)?;
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.contains('#') {
            return Err(BadRequest::TargetParts);
        }
        if method == "CONNECT" {
            if !matches!(framing, Framing::None | Framing::Length(0)) {
                return Err(BadRequest::ConnectBody);
            }
            return Target::parse(target, None).map(Self::Connect).map_err(BadRequest::Host);
        }
        let (target, path) = absolute(target, method)?;
        let mut out = format!("{method} {path} {version}\r\n").into_bytes();
        let port = if target.port == 80 { String::new() } else { format!(":{}", target.port) };
        write(&mut out, b"Host", format!("{}{port}", target.host).as_bytes());
        match framing {
            Framing::None => {}
            Framing::Length(length) => write(&mut out, b"Content-Length", length.to_string().as_bytes()),
            Framing::Chunked => write(&mut out, b"Transfer-Encoding", b"chunked"),
        }
        for header in kept(&headers, &NOT_FORWARDED) {
            write(&mut out, header.name, header.value);
        }
        out.extend_from_slice(b"Connection: close\r\n\r\n");
        Ok(Self::Forward(Forward { target, is_head: method == "HEAD", framing, head: out }))
    }
}

fn framing(headers: &[Header<'_>], version: &str) -> Result<Framing, BadRequest> {
    let values = |name: &str| headers.iter().filter(|header| header.lower == name).map(|header| header.value).collect();
    let (lengths, encodings): (Vec<&[u8]>, Vec<&[u8]>) = (values("content-length"), values("transfer-encoding"));
    match (&lengths[..], &encodings[..]) {
        ([], []) => Ok(Framing::None),
        ([length], []) => {
            // More digits than 18 are no length of anything, and fewer fit.
            let is_number = (1..=18).contains(&length.len()) && length.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(length).ok().and_then(|digits| digits.parse().ok());
            number.filter(|_| is_number).map(Framing::Length).ok_or(BadRequest::Length)
        }
        ([], [encoding]) if encoding.eq_ignore_ascii_case(b"chunked") && version == "HTTP/1.1" => Ok(Framing::Chunked),
        ([], [_]) => Err(BadRequest::Encoding),
        _ => Err(BadRequest::TwoLengths),
    }
}

/// The host and the path of a URI in absolute form.
fn absolute(uri: &str, method: &str) -> Result<(Target, String), BadRequest> {
    let has_scheme = |scheme: &str| uri.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if has_scheme("https://") {
        return Err(BadRequest::Https);
    }
    if !has_scheme("http://") {
        return Err(BadRequest::NotForProxy);
    }
    let rest = &uri["http://".len()..];
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.contains(['@', '\\']) {
        return Err(BadRequest::TargetParts);
    }
    let target = Target::parse(authority, Some(80)).map_err(BadRequest::Host)?;
    let path = match path {
        "" if method == "OPTIONS" => "*".to_owned(),
        "" => "/".to_owned(),
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    };
    Ok((target, path))
}

/// What an origin answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answered {
    pub(super) status: u16,
    /// What the box is sent.
    pub(super) head: Vec<u8>,
}

impl Answered {
    /// Reads a head that ends in an empty line; `None` is no answer of HTTP/1.
    pub(super) fn parse(head: &[u8]) -> Option<Self> {
        let lines = lines(head)?;
        let (first, rest) = lines.split_first()?;
        let digits = first.strip_prefix(b"HTTP/1.1 ").or_else(|| first.strip_prefix(b"HTTP/1.0 "))?;
        let digits = digits.get(..3).filter(|_| matches!(digits.get(3), None | Some(b' ')))?;
        let status = std::str::from_utf8(digits).ok()?.parse().ok().filter(|status| (100..1000).contains(status))?;
        let headers: Vec<_> = rest.iter().map(|line| header(line)).collect::<Option<_>>()?;
        let mut out = first.to_vec();
        out.extend_from_slice(b"\r\n");
        for header in kept(&headers, &NOT_RETURNED) {
            write(&mut out, header.name, header.value);
        }
        if status >= 200 {
            write(&mut out, b"Connection", b"close");
        }
        out.extend_from_slice(b"\r\n");
        Some(Self { status, head: out })
    }
}

#[cfg(test)]
mod tests;
