//! Records what another provider answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, Stream, StreamExt};
use orc_domain::ids::RunId;
use orc_ports::executor::Secrets;

use super::CassetteError;
use super::canonical::Canonical;
use super::masked::Masker;
use super::tape::{End, Piece, What, Writer};
use crate::provider::{Broken, Incoming, Outgoing, Provider, SendError};

/// Headers of answers that mean something to whoever gets them.
const HEADERS: [&str; 6] =
    ["content-type", "request-id", "retry-after", "retry-after-ms", "x-request-id", "x-should-retry"];

/// Where it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file for each run, `RUN.jsonl`; calls of no run are in `none.jsonl`.
    Folder(PathBuf),
    /// One file for all calls.
    File(PathBuf),
}

impl Place {
    /// The file of a run.
    #[must_use]
    pub fn file(&self, run: Option<RunId>) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Folder(folder) => {
                let name = run.map_or_else(|| "none".to_owned(), RunId::file_name);
                folder.join(format!("{name}.jsonl"))
            }
        }
    }
}

/// A provider that records another one. A call that cannot be recorded is not sent; a file that cannot be written later
/// is told once, and the answer passes on.
pub struct Recorder {
    provider: Arc<dyn Provider>,
    place: Place,
    secrets: Secrets,
    tapes: Tapes,
}

/// Files that recorders write into, open as long as calls do: recorders of one process may write into the same ones.
#[derive(Clone, Debug, Default)]
pub struct Tapes(Arc<Mutex<BTreeMap<PathBuf, Weak<Writer>>>>);

impl Tapes {
    fn open(&self, path: PathBuf) -> Result<Arc<Writer>, CassetteError> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = open.get(&path).and_then(Weak::upgrade) {
            return Ok(writer);
        }
        let writer = Arc::new(Writer::open(&path)?);
        open.retain(|_, writer| writer.strong_count() > 0);
        open.insert(path, Arc::downgrade(&writer));
        Ok(writer)
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Records `provider`, without `secrets` wherever they stand. All recorders of a process share `tapes`.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, place: Place, secrets: Secrets, tapes: Tapes) -> Self {
        Self { provider, place, secrets, tapes }
    }

    async fn record(&self, outgoing: Outgoing) -> Result<Incoming, SendError> {
        let begin = || {
            let writer = self.tapes.open(self.place.file(outgoing.run))?;
            let call = writer.begin(Canonical::of(&outgoing, &self.secrets))?;
            Ok(Call { writer: Some(writer), call, masker: Masker::new(self.secrets.clone()) })
        };
        let mut call = begin().map_err(|error: CassetteError| SendError::Unable { why: told(&error) })?;
        match self.provider.send(outgoing).await {
            Ok(incoming) => {
                let is_kept = |(name, _): &&(String, String)| HEADERS.contains(&name.as_str());
                let headers = incoming.headers.iter().filter(is_kept);
                let headers = headers.map(|(name, value)| (name.clone(), super::masked::text(&self.secrets, value)));
                call.say(What::Head { status: incoming.status, headers: headers.collect() });
                Ok(Incoming { body: Recorded { body: incoming.body, call }.boxed(), ..incoming })
            }
            Err(error) => {
                call.end(End::from(&error));
                Err(error)
            }
        }
    }
}

impl Provider for Recorder {
    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, SendError>> {
        self.record(outgoing).boxed()
    }
}

/// An error with its causes.
pub(super) fn told(error: &CassetteError) -> String {
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        told = format!("{told}: {error}");
        cause = error.source();
    }
    told
}

/// A call that is being recorded.
struct Call {
    /// None: it is over, or its file cannot be written.
    writer: Option<Arc<Writer>>,
    call: u64,
    masker: Masker,
}

impl Call {
    fn say(&mut self, what: What) {
        if let Some(writer) = &self.writer
            && let Err(error) = writer.say(self.call, what)
        {
            tracing::error!(error = told(&error), "the rest of a call is not recorded");
            self.writer = None;
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        for piece in self.masker.push(bytes) {
            self.say(What::Piece(Piece::of(&piece)));
        }
    }

    fn end(&mut self, end: End) {
        for piece in self.masker.finish() {
            self.say(What::Piece(Piece::of(&piece)));
        }
        self.say(What::End(end));
        self.writer = None;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.writer.is_some() {
            self.end(End::Left);
        }
    }
}

/// The body of an answer that is being recorded.
struct Recorded {
    body: BoxStream<'static, Result<Bytes, Broken>>,
    call: Call,
}

impl Stream for Recorded {
    type Item = Result<Bytes, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.body.poll_next_unpin(cx));
        match &next {
            Some(Ok(bytes)) => self.call.piece(bytes),
            Some(Err(broken)) => self.call.end(End::from(broken)),
            None => self.call.end(End::Whole),
        }
        Poll::Ready(next)
    }
}
