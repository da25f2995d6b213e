//! A server on this machine that answers with whatever bytes a test likes, or with none.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use orc_gateway::{Credential, HttpShape, Key, ProviderKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::fixture::beside;

/// What it does, one after the other, to a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Sends bytes.
    Send(String),
    /// Ends the connection; the next request has to make one.
    Close,
    /// Says nothing more, until the other side is gone.
    Stall,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _serving: AbortOnDropHandle<()>,
}

impl Server {
    /// Answers the requests, in their order, as `acts` says.
    pub(crate) async fn new(acts: impl Fn(usize) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (noted, acts) = (seen.clone(), Arc::new(acts));
        let serving = beside(async move {
            let mut connections = Vec::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let served = serve(stream, noted.clone(), acts.clone());
                connections.push(AbortOnDropHandle::new(beside(served)));
            }
        });
        Self { address, seen, _serving: AbortOnDropHandle::new(serving) }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// A provider there, shown a key.
    pub(crate) fn with_key(&self, key: &str) -> ProviderKind {
        let base_url = format!("http://{}", self.address);
        ProviderKind::Http(HttpShape { base_url, credential: Credential::Key(Key::new(key)) })
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<Seen>>>, acts: Arc<impl Fn(usize) -> Vec<Act>>) {
    let mut bytes = Vec::new();
    while let Some(request) = read(&mut stream, &mut bytes).await {
        let at = {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            seen.len() - 1
        };
        for act in acts(at) {
            match act {
                // Whoever is gone does not hear it.
                Act::Send(text) => drop(stream.write_all(text.as_bytes()).await),
                Act::Close => return,
                Act::Stall => while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {},
            }
        }
    }
}

async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Seen> {
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut seen = Seen { head, body: String::new() };
            let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                seen.body = String::from_utf8_lossy(&bytes[end + 4..end + 4 + length]).into_owned();
                bytes.drain(..end + 4 + length);
                return Some(seen);
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// A whole answer.
pub(crate) fn reply(status: u16, headers: &str, body: &str) -> Act {
    Act::Send(format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()))
}

/// The beginning of an answer of unknown length, in pieces.
pub(crate) fn chunks(pieces: &[&str]) -> Act {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let pieces = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
    Act::Send(std::iter::once(head.to_owned()).chain(pieces).collect())
}

/// The end of an answer of unknown length.
pub(crate) fn last() -> Act {
    Act::Send("0\r\n\r\n".to_owned())
}
