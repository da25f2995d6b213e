//! Plays a cassette: answers requests with what was recorded, in the same pieces.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use orc_domain::ids::ContentHash;
use orc_ports::executor::Secrets;

use super::CassetteError;
use super::canonical::{Canonical, Track, first_difference};
use super::recorder::told;
use super::tape::{End, Reader, Taped};
use crate::provider::{Broken, Incoming, Outgoing, Provider, SendError};

/// What a difference between what was asked and what is asked means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// An error: nothing may differ.
    Strict,
    /// A warning, and counted; ids, dates, times and paths may differ without one.
    Lenient,
}

/// A provider that answers from a cassette.
#[derive(Debug)]
pub struct Player {
    path: PathBuf,
    strictness: Strictness,
    secrets: Secrets,
    reader: Arc<Reader>,
    tracks: Vec<Track>,
    calls: Vec<Recorded>,
    /// Which calls were played.
    played: Mutex<Vec<bool>>,
    differences: AtomicU64,
}

/// A call, by what it is found.
#[derive(Debug)]
struct Recorded {
    track: usize,
    hash: ContentHash,
    taped: Arc<Taped>,
}

impl Player {
    /// Opens a cassette. `secrets` are taken out of requests before they are compared, as they were when it was recorded.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn open(path: &Path, strictness: Strictness, secrets: Secrets) -> Result<Self, CassetteError> {
        let reader = Reader::open(path)?;
        let mut tracks: Vec<Track> = Vec::new();
        let found = reader.index(|request| {
            let track = request.track();
            let known = tracks.iter().position(|known| *known == track).unwrap_or_else(|| {
                tracks.push(track);
                tracks.len() - 1
            });
            (known, hash(strictness, request))
        })?;
        let call = |((track, hash), taped)| Recorded { track, hash, taped: Arc::new(taped) };
        let calls: Vec<_> = found.into_iter().map(call).collect();
        let played = Mutex::new(vec![false; calls.len()]);
        let (path, reader) = (path.to_owned(), Arc::new(reader));
        Ok(Self { path, strictness, secrets, reader, tracks, calls, played, differences: AtomicU64::new(0) })
    }

    /// How many requests differed from what was recorded.
    #[must_use]
    pub fn differences(&self) -> u64 {
        self.differences.load(Ordering::Relaxed)
    }

    /// How many recorded calls were not played.
    #[must_use]
    pub fn left(&self) -> usize {
        self.played.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|played| !**played).count()
    }

    fn answer(&self, outgoing: &Outgoing) -> Result<Incoming, SendError> {
        let unable = |why: String| SendError::Unable { why };
        let asked = Canonical::of(outgoing, &self.secrets);
        let taped = self.find(&asked).map_err(unable)?;
        let end = taped.end.clone().unwrap_or(End::Cut("its recording ends here".to_owned()));
        let Some((status, headers)) = taped.head.clone() else {
            return Err(match end {
                End::Unreachable { provider, why } => SendError::Unreachable { provider, why },
                End::Silent { provider, why } => SendError::Silent { provider, why },
                End::Unable(why) => SendError::Unable { why },
                _ => unable(format!(
                    "`{}` has no answer to this call: its recording ends before one",
                    self.path.display()
                )),
            });
        };
        let last = match end {
            End::Whole => None,
            End::Idle(seconds) => Some(Broken::Idle { seconds }),
            End::Cut(why) => Some(Broken::Cut { why }),
            // Whoever asked went away; one who stays gets what there is.
            _ => Some(Broken::Cut { why: "its recording ends here".to_owned() }),
        };
        let reader = self.reader.clone();
        let pieces = (0..taped.pieces.len()).map(move |at| {
            let piece = reader.piece(taped.pieces[at]);
            piece.map(Bytes::from).map_err(|error| Broken::Cut { why: told(&error) })
        });
        Ok(Incoming { status, headers, body: stream::iter(pieces.chain(last.map(Err))).boxed() })
    }

    /// The call that answers, marked as played.
    fn find(&self, asked: &Canonical) -> Result<Arc<Taped>, String> {
        let path = self.path.display();
        let track = asked.track();
        let Some(known) = self.tracks.iter().position(|known| *known == track) else {
            let closest = track.closest(&self.tracks).unwrap_or_else(|| "nothing is recorded".to_owned());
            return Err(format!("`{path}` has no conversation like this one ({}): {closest}", track.summary()));
        };
        let hash = hash(self.strictness, asked);
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        let of_track = || self.calls.iter().enumerate().filter(|(_, call)| call.track == known);
        let open = || of_track().filter(|(at, _)| !played[*at]);
        let found = open().find(|(_, call)| call.hash == hash).or_else(|| open().next());
        let Some((at, call)) = found else {
            let count = of_track().count();
            return Err(format!(
                "`{path}` has {count} calls of this conversation ({}), and all of them were played",
                track.summary()
            ));
        };
        if call.hash != hash {
            let recorded = self.reader.request(&call.taped).map_err(|error| told(&error))?;
            let position = 1 + of_track().position(|(other, _)| other == at).unwrap_or(0);
            let (recorded, asked) = match self.strictness {
                Strictness::Strict => (recorded, asked.clone()),
                Strictness::Lenient => (recorded.loose(), asked.loose()),
            };
            let difference = first_difference(&recorded, &asked).unwrap_or_else(|| "they differ".to_owned());
            let told =
                format!("call {position} of a conversation of `{path}` ({}) differs: {difference}", track.summary());
            self.differences.fetch_add(1, Ordering::Relaxed);
            if self.strictness == Strictness::Strict {
                return Err(told);
            }
            tracing::warn!("{told}");
        }
        played[at] = true;
        Ok(call.taped.clone())
    }
}

fn hash(strictness: Strictness, request: &Canonical) -> ContentHash {
    match strictness {
        Strictness::Strict => request.hash(),
        Strictness::Lenient => request.loose().hash(),
    }
}

impl Provider for Player {
    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, SendError>> {
        std::future::ready(self.answer(&outgoing)).boxed()
    }
}
