//! A provider that answers from a script, in the words of each protocol: streams with the events that the real ones send,
//! plain answers, counts of tokens, lists of models.
//!
//! What it says is a function of the request, its run and the script; ids and times too, so two runs of a program differ
//! in nothing that the model said. It must never answer what the script does not say: a request that fits no track is an
//! error, not a guess. Where to go next: [`orc_domain::script`] for what a script can say, `said` for what one answer is
//! made of, one file for each protocol.

mod anthropic;
mod chat;
mod failing;
mod responses;
mod said;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use orc_domain::ids::RunId;
use orc_domain::model::Protocol;
use orc_domain::script::{Figures, Script, Turn, tokens_of};
use orc_domain::time::Millis;
use serde_json::{Value, json};

use self::said::Said;
use crate::provider::{Broken, Incoming, Outgoing, Provider, SendError, Want};
use crate::wire::Request;

/// A turn of a conversation of a run.
type Spot = (Option<RunId>, String, usize);

/// A model that says what a script says.
#[derive(Debug)]
pub struct Scripted {
    script: Arc<Script>,
    /// How often a turn that fails some times has failed already.
    failed: Mutex<BTreeMap<Spot, u32>>,
}

impl Scripted {
    /// One that has said nothing yet.
    #[must_use]
    pub fn new(script: Arc<Script>) -> Self {
        Self { script, failed: Mutex::default() }
    }

    async fn answer(&self, outgoing: Outgoing) -> Result<Incoming, SendError> {
        let unable = |why: String| SendError::Unable { why };
        if outgoing.want == Want::Models {
            return Ok(whole(&self.models(outgoing.protocol)));
        }
        let request = Request::read(outgoing.protocol, outgoing.want, outgoing.body.clone())
            .map_err(|error| unable(error.to_string()))?;
        let found = self.script.turn(request.opening(), request.track.turns);
        if outgoing.want == Want::Count {
            let told = found.ok().and_then(|(_, turn)| turn.answer.as_ref()).map(|answer| answer.figures);
            let input = match told {
                Some(Figures::Told { input: Some(input), others, .. }) => input.saturating_add(others.context()),
                _ => tokens_of(outgoing.body.len()),
            };
            return Ok(whole(&count(outgoing.protocol, input)));
        }
        let (track, turn) = found.map_err(|error| unable(error.to_string()))?;
        pause(turn.delay).await;
        let spot = (outgoing.run, track.name.clone(), request.track.turns);
        if let Some(failure) = turn.failure.as_ref().filter(|failure| self.fails(spot.clone(), failure.times)) {
            return Ok(failing::answer(outgoing.protocol, failure));
        }
        // A turn without an answer fails always.
        let Some(answer) = &turn.answer else {
            return Err(unable(format!("the track `{}` of `{}` says nothing here", track.name, self.script.file)));
        };
        let seed = match outgoing.run {
            Some(run) => format!("{run} {} {}", track.name, request.track.turns),
            None => format!("{} {} {}", self.script.file, track.name, request.track.turns),
        };
        let said = Said::new(answer, &request, &outgoing, &seed);
        if request.stream { Ok(streamed(said.events(), turn)) } else { Ok(cut(&said.whole().map_err(unable)?, turn)) }
    }

    /// Whether a turn fails this time; counts.
    fn fails(&self, spot: Spot, times: Option<u32>) -> bool {
        let Some(times) = times else { return true };
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let so_far = failed.entry(spot).or_default();
        let fails = *so_far < times;
        *so_far += u32::from(fails);
        fails
    }

    /// Models that tracks name without `*`.
    fn models(&self, protocol: Protocol) -> Value {
        let named = self.script.tracks.iter().filter_map(|track| track.fits.model.as_deref());
        let mut names: Vec<&str> = named.filter(|name| !name.contains('*')).collect();
        names.dedup();
        match protocol {
            Protocol::AnthropicMessages => {
                let one = |name: &&str| json!({ "type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z" });
                json!({
                    "data": names.iter().map(one).collect::<Vec<_>>(),
                    "has_more": false, "first_id": names.first(), "last_id": names.last(),
                })
            }
            Protocol::OpenaiResponses | Protocol::OpenaiChat => {
                let one = |name: &&str| json!({ "id": name, "object": "model", "created": 0, "owned_by": "script" });
                json!({ "object": "list", "data": names.iter().map(one).collect::<Vec<_>>() })
            }
        }
    }
}

impl Provider for Scripted {
    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Incoming, SendError>> {
        self.answer(outgoing).boxed()
    }
}

fn count(protocol: Protocol, input: u64) -> Value {
    match protocol {
        Protocol::AnthropicMessages => json!({ "input_tokens": input }),
        Protocol::OpenaiResponses | Protocol::OpenaiChat => {
            json!({ "object": "response.input_tokens", "input_tokens": input })
        }
    }
}

async fn pause(span: Millis) {
    if span > Millis::ZERO {
        tokio::time::sleep(Duration::from_millis(span.as_millis())).await;
    }
}

fn incoming(status: u16, kind: &str, pieces: Vec<Result<Bytes, Broken>>, between: Millis) -> Incoming {
    let body = stream::iter(pieces).enumerate().then(move |(at, piece)| async move {
        if at > 0 {
            pause(between).await;
        }
        piece
    });
    Incoming { status, headers: vec![("content-type".to_owned(), kind.to_owned())], body: body.boxed() }
}

fn whole(value: &Value) -> Incoming {
    incoming(200, "application/json", vec![Ok(Bytes::from(value.to_string()))], Millis::ZERO)
}

/// A plain answer, whose connection may be cut in its middle.
fn cut(value: &Value, turn: &Turn) -> Incoming {
    if turn.cut_after.is_none() {
        return whole(value);
    }
    let all = Bytes::from(value.to_string());
    let half = all.slice(..all.len() / 2);
    incoming(200, "application/json", vec![Ok(half), Err(cut_as_written())], Millis::ZERO)
}

fn cut_as_written() -> Broken {
    Broken::Cut { why: "the script cuts it here".to_owned() }
}

/// Events, each a piece of its own.
fn streamed(events: Vec<Bytes>, turn: &Turn) -> Incoming {
    let mut pieces: Vec<_> = events.into_iter().map(Ok).collect();
    if let Some(after) = turn.cut_after {
        pieces.truncate(usize::try_from(after).unwrap_or(usize::MAX));
        pieces.push(Err(cut_as_written()));
    }
    incoming(200, "text/event-stream; charset=utf-8", pieces, turn.between)
}

#[cfg(test)]
mod tests;
