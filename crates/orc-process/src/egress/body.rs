//! Bytes on their way through: tunnels, bodies of requests, and when nothing has passed for too long.

use std::cell::Cell;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::head::Framing;

/// Bytes of the line before a chunk, its extensions included; those are dropped.
const CHUNK_LINE: usize = 1024;
/// Bytes of what follows the last chunk; it is dropped.
const TRAILERS: usize = 8 * 1024;

/// When bytes passed last, in either direction.
#[derive(Debug)]
pub(super) struct Activity(Cell<Instant>);

impl Activity {
    pub(super) fn new() -> Self {
        Self(Cell::new(Instant::now()))
    }

    fn touch(&self) {
        self.0.set(Instant::now());
    }

    /// Returns once nothing has passed for `span`.
    pub(super) async fn lapse(&self, span: Duration) {
        loop {
            let due = self.0.get() + span;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

/// Whose fault it was.
#[derive(Debug)]
pub(super) enum Broken {
    /// The side that sends: it failed, ended early, or did not keep to its framing.
    Source,
    /// The side that receives.
    Sink,
}

/// Carries everything, then says that nothing follows.
pub(super) async fn pump(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> io::Result<()> {
    loop {
        let bytes = from.fill_buf().await?;
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        let written = to.write(bytes).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        from.consume(written);
        activity.touch();
    }
}

/// Carries the body of one request and nothing that follows it.
pub(super) async fn carry(
    framing: Framing,
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> Result<(), Broken> {
    match framing {
        Framing::None => Ok(()),
        Framing::Length(length) => carry_bytes(length, from, to, activity).await,
        Framing::Chunked => carry_chunks(from, to, activity).await,
    }
}

async fn carry_bytes(
    mut left: u64,
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> Result<(), Broken> {
    while left > 0 {
        let bytes = from.fill_buf().await.map_err(|_| Broken::Source)?;
        if bytes.is_empty() {
            return Err(Broken::Source);
        }
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let written = to.write(&bytes[..wanted]).await.map_err(|_| Broken::Sink)?;
        if written == 0 {
            return Err(Broken::Sink);
        }
        from.consume(written);
        left -= written as u64;
        activity.touch();
    }
    Ok(())
}

/// Every chunk is announced anew, so that what the origin reads as its length is what was read here.
async fn carry_chunks(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> Result<(), Broken> {
    loop {
        let size = chunk_size(&line(from, CHUNK_LINE).await?).ok_or(Broken::Source)?;
        if size == 0 {
            break;
        }
        to.write_all(format!("{size:x}\r\n").as_bytes()).await.map_err(|_| Broken::Sink)?;
        carry_bytes(size, from, to, activity).await?;
        if !line(from, 0).await?.is_empty() {
            return Err(Broken::Source);
        }
        to.write_all(b"\r\n").await.map_err(|_| Broken::Sink)?;
    }
    let mut left = TRAILERS;
    loop {
        let trailer = line(from, left).await?;
        if trailer.is_empty() {
            break;
        }
        left = left.saturating_sub(trailer.len() + 2);
    }
    to.write_all(b"0\r\n\r\n").await.map_err(|_| Broken::Sink)
}

/// A line of at most `limit` bytes, without its CR LF.
async fn line(from: &mut (impl AsyncBufRead + Unpin), limit: usize) -> Result<Vec<u8>, Broken> {
    let mut line = Vec::new();
    loop {
        let byte = *from.fill_buf().await.map_err(|_| Broken::Source)?.first().ok_or(Broken::Source)?;
        from.consume(1);
        match (byte, line.last()) {
            (b'\n', Some(b'\r')) => {
                line.pop();
                return Ok(line);
            }
            (b'\n', _) | (_, Some(b'\r')) => return Err(Broken::Source),
            _ if line.len() > limit => return Err(Broken::Source),
            _ => line.push(byte),
        }
    }
}

/// The size that a line announces; extensions after `;` are ignored.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let well_formed = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    if !well_formed {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_size_is_hexadecimal_and_nothing_else() {
        let cases: [(&[u8], Option<u64>); 10] = [
            (b"0", Some(0)),
            (b"1f", Some(31)),
            (b"1F;name=value", Some(31)),
            (b"5 ;x", Some(5)),
            (b"", None),
            (b";x", None),
            (b"0x5", None),
            (b"+5", None),
            (b" 5", None),
            (b"ffffffffffffffff", None),
        ];
        for (line, wanted) in cases {
            assert_eq!(chunk_size(line), wanted, "{}", String::from_utf8_lossy(line));
        }
    }

    async fn carried(body: &[u8], framing: Framing) -> Result<(Vec<u8>, Vec<u8>), ()> {
        let (mut from, mut to) = (body, Vec::new());
        carry(framing, &mut from, &mut to, &Activity::new()).await.map_err(|_| ())?;
        Ok((to, from.to_vec()))
    }

    #[tokio::test]
    async fn a_body_ends_where_its_framing_says() {
        let next = b"GET / HTTP/1.1\r\n\r\n";
        let (sent, left) = carried(b"helloGET / HTTP/1.1\r\n\r\n", Framing::Length(5)).await.unwrap();
        assert_eq!((&sent[..], &left[..]), (&b"hello"[..], &next[..]));
        let chunks = b"5;ext=1\r\nhello\r\n0\r\nX-Trailer: a\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        let (sent, left) = carried(chunks, Framing::Chunked).await.unwrap();
        assert_eq!((&sent[..], &left[..]), (&b"5\r\nhello\r\n0\r\n\r\n"[..], &next[..]));
        let (sent, left) = carried(next, Framing::None).await.unwrap();
        assert_eq!((&sent[..], &left[..]), (&b""[..], &next[..]));
    }

    #[tokio::test]
    async fn a_body_that_does_not_keep_to_its_framing_breaks_off() {
        let endless = vec![b'a'; 2 * CHUNK_LINE];
        let trailers = [&b"0\r\n"[..], &b"X: y\r\n".repeat(TRAILERS)[..], b"\r\n"].concat();
        let cases: [(&[u8], Framing); 9] = [
            (b"hell", Framing::Length(5)),
            (b"5\r\nhello!\r\n0\r\n\r\n", Framing::Chunked),
            (b"5\nhello\r\n0\r\n\r\n", Framing::Chunked),
            (b"5\r\nhello\n0\r\n\r\n", Framing::Chunked),
            (b"5\rx\nhello\r\n0\r\n\r\n", Framing::Chunked),
            (b"-5\r\nhello\r\n0\r\n\r\n", Framing::Chunked),
            (b"5\r\nhel", Framing::Chunked),
            (&endless, Framing::Chunked),
            (&trailers, Framing::Chunked),
        ];
        for (body, framing) in cases {
            assert!(carried(body, framing).await.is_err(), "{}", String::from_utf8_lossy(&body[..body.len().min(40)]));
        }
    }
}
