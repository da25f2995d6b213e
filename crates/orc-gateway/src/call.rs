//! The life of a call: judged, priced, set aside, written down, sent, followed, settled.
//!
//! The order is what keeps spend below walls: nothing leaves before its worst case is set aside and survives a crash. What
//! a provider does not take is tried again here for a while, as the limiter says; what a program gets is the provider's own
//! final answer, or a trouble of ours in the form of its protocol.
//!
//! It must never: pass on that a provider is busy, or send a second time what may have been taken without setting aside a
//! second time. Where to go next: `flight`, the end of a call; `limiter`, what follows a failure.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use orc_domain::ids::CallId;
use orc_domain::ledger::{Account, Reservation};
use orc_domain::meter::{Ask, Owner, Refusal};
use orc_domain::model::Want;
use orc_domain::money::UsdMicros;
use orc_domain::time::Timestamp;
use orc_ports::gateway::{Answer, Request};
use uuid::Uuid;

use crate::flight::{self, Flight, Followed};
use crate::gateway::{Inner, Known};
use crate::lane::Permit;
use crate::limiter::{Failure, Next, Parked, Tries};
use crate::provider::{Incoming, Outgoing, SendError};
use crate::retry_after;
use crate::shape::Unpriced;
use crate::till::Aside;
use crate::way::Way;
use crate::wire::{self, BYTES_PER_TOKEN, End, Trouble};

/// A larger request is read beside the threads that carry streams: a megabyte takes some milliseconds.
const LARGE: usize = 256 * 1024;
/// How much is read of what a provider says when it does not take a call.
const FAILURE_BYTES: usize = 64 * 1024;

/// A call on its way.
struct Call<'a> {
    way: &'a Arc<Way>,
    known: &'a Known,
    read: &'a wire::Request,
    query: String,
    headers: Vec<(String, String)>,
    body: u64,
    began: Timestamp,
    /// Whose it is, if not the run's own agent's.
    agent: Option<String>,
    patient: bool,
}

/// Why a try ended without an answer.
enum Untaken {
    /// The key is parked.
    Parked(Parked),
    /// It may have been taken, and nobody says so: it is sent again at this time.
    Silent(Timestamp),
    /// It is not tried again.
    Final(Trouble),
}

impl Inner {
    /// Makes a call of a run; whatever happens, there is an answer.
    pub(crate) async fn call(self: Arc<Self>, request: Request) -> Answer {
        let protocol = request.protocol;
        let made = match self.way(request.run) {
            Some(way) => {
                let closed = way.closed.clone();
                tokio::select! {
                    made = self.make(&way, request) => made,
                    () = closed.cancelled() => Err(Trouble::Token),
                }
            }
            None => Err(Trouble::Token),
        };
        made.unwrap_or_else(|trouble| told(trouble.answer(protocol)))
    }

    async fn make(&self, way: &Arc<Way>, request: Request) -> Result<Answer, Trouble> {
        if let Some((_, encoding)) =
            request.headers.iter().find(|(name, value)| name == "content-encoding" && value != "identity")
        {
            return Err(Trouble::Encoding { encoding: encoding.clone() });
        }
        let body = u64::try_from(request.body.len()).unwrap_or(u64::MAX);
        let read = read(&request).await.map_err(Trouble::Request)?;
        let known = self.provider(way, &read)?;
        let (query, headers, began) = (request.query, request.headers, self.clock.now());
        let (agent, patient) = (request.agent, request.patient);
        let call = Call { way, known, read: &read, query, headers, body, began, agent, patient };
        let mut tries = Tries::default();
        loop {
            let made = match read.want {
                Want::Answer => self.metered(&call, &mut tries).await,
                Want::Count | Want::Models => self.free(&call, &mut tries).await,
            };
            match made {
                Ok(answer) => {
                    way.served();
                    return Ok(answer);
                }
                Err(Untaken::Parked(parked)) => self.hold(&call, &parked).await?,
                Err(Untaken::Silent(again)) => {
                    if let Err(parked) = known.lane.rest(again).await {
                        self.hold(&call, &parked).await?;
                    }
                }
                Err(Untaken::Final(trouble)) => return Err(trouble),
            }
        }
    }

    /// Who answers: for models as such, whoever has the one of the run.
    fn provider(&self, way: &Way, read: &wire::Request) -> Result<&Known, Trouble> {
        let speaks = |known: &&Known| known.shape.protocols.contains(&read.protocol);
        let has = |model: &str| self.providers.iter().filter(speaks).find(|known| known.shape.has_model(model));
        let found = match read.want {
            Want::Answer | Want::Count => has(&read.model),
            Want::Models => has(&way.model).or_else(|| self.providers.iter().find(speaks)),
        };
        found.ok_or_else(|| Trouble::Model {
            model: read.model.clone(),
            known: self.providers.iter().filter(speaks).flat_map(|known| known.shape.models.clone()).collect(),
        })
    }

    /// Its key is parked: the run is told at once. The call stays for a while, for its run is about to be stopped, or the key
    /// about to be used again.
    async fn hold(&self, call: &Call<'_>, parked: &Parked) -> Result<(), Trouble> {
        let (now, provider) = (self.clock.now(), &call.known.shape.name);
        if !call.patient {
            let after = Some(parked.until.since(now).as_millis().div_ceil(1_000));
            return Err(Trouble::Provider { provider: provider.clone(), why: parked.why.clone(), after });
        }
        call.way.parked(provider, parked);
        let most = now + self.times.hold;
        self.clock.sleep(parked.until.min(most).since(now)).await;
        if parked.until <= most {
            return Ok(());
        }
        let after = parked.until.since(self.clock.now()).as_millis().div_ceil(1_000);
        Err(Trouble::Provider { provider: provider.clone(), why: parked.why.clone(), after: Some(after) })
    }

    /// A call that costs nothing: sent as others are, without a reservation.
    async fn free(&self, call: &Call<'_>, tries: &mut Tries) -> Result<Answer, Untaken> {
        let (incoming, permit) = self.send(call, None, None, tries).await?;
        Ok(followed(call.way, incoming, (None, Some(permit))))
    }

    /// A call that costs.
    async fn metered(&self, call: &Call<'_>, tries: &mut Tries) -> Result<Answer, Untaken> {
        if let Some(parked) = call.known.lane.parked() {
            return Err(Untaken::Parked(parked));
        }
        let refused = |refusal: Refusal| {
            call.way.refused(refusal);
            let (model, dearer) = (call.read.model.clone(), call.read.dearer.clone());
            Untaken::Final(Trouble::Refused { refusal, model, dearer })
        };
        let price = match call.read.dearer {
            Some(_) => None,
            None => self.prices.find(&call.read.model, self.clock.now()).map(|row| row.price),
        };
        if price.is_none() && self.unpriced == Unpriced::Refuse {
            return Err(refused(Refusal::Unpriced { owner: Owner::Run(call.way.run) }));
        }
        let ask = Ask { price, ..call.read.ask };
        let id = CallId::from_uuid(Uuid::now_v7());
        let aside = self.till.set_aside(id, call.way.above().to_vec(), ask).await.map_err(refused)?;
        let output = aside.grant.output;
        let flight = self.write(call, (id, ask), aside).await.map_err(Untaken::Final)?;
        let (incoming, permit) = self.send(call, output, Some(&flight), tries).await?;
        let is_readable =
            !incoming.headers.iter().any(|(name, value)| name == "content-encoding" && value != "identity");
        flight.is_answered(incoming.status, is_readable, permit);
        Ok(followed(call.way, incoming, (Some(flight), None)))
    }

    /// Writes a call down. From here on it is in flight, and its end is written whatever happens.
    async fn write(&self, call: &Call<'_>, (id, ask): (CallId, Ask), aside: Aside) -> Result<Arc<Flight>, Trouble> {
        let pending = call.way.begin(id).ok_or(Trouble::Token)?;
        let reserved = aside.grant.reserved;
        let reservation = Reservation {
            call: id,
            account: match &call.agent {
                Some(agent) => Account { agent: agent.clone(), ..call.way.account.clone() },
                None => call.way.account.clone(),
            },
            above: call.way.above().to_vec(),
            provider: call.known.shape.name.clone(),
            protocol: call.read.protocol,
            model: call.read.model.clone(),
            prices: ask.price.and(self.prices_hash.clone()),
            micros: UsdMicros::from_micros(i64::try_from(reserved.micros).unwrap_or(i64::MAX)),
            tokens: reserved.tokens,
            instance: self.instance,
            at: self.clock.now(),
        };
        let book = self.till.book(reservation.bounded(), |settlement| {
            if let Some(settlement) = settlement {
                pending.settled(&settlement);
            }
        });
        let known = flight::Known { call: id, protocol: call.read.protocol, request: call.body, price: ask.price };
        let flight = Flight::new(known, aside, book.settle, self.clock.clone());
        call.way.enter(id, &flight);
        match book.reserved.await {
            Ok(Ok(())) => Ok(flight),
            Ok(Err(error)) => {
                tracing::error!(call = %id, error = %chain(&error), "a call is refused because it cannot be written down");
                Err(Trouble::Gateway { why: chain(&error) })
            }
            Err(_) => Err(Trouble::Gateway { why: "the ledger does not answer".to_owned() }),
        }
    }

    /// Sends until somebody answers, or it is not tried any more.
    async fn send(
        &self,
        call: &Call<'_>,
        output: Option<u64>,
        flight: Option<&Arc<Flight>>,
        tries: &mut Tries,
    ) -> Result<(Incoming, Permit), Untaken> {
        let read = call.read;
        let outgoing = Outgoing {
            protocol: read.protocol,
            want: read.want,
            query: call.query.clone(),
            model: read.model.clone(),
            headers: call.headers.clone(),
            body: read.outgoing(output),
            run: call.way.account.run,
        };
        let tokens = if flight.is_some() { call.body / BYTES_PER_TOKEN } else { 0 };
        loop {
            let permit = call.known.lane.admit(tokens).await.map_err(Untaken::Parked)?;
            if !flight.is_none_or(|flight| flight.leaves()) {
                return Err(Untaken::Final(Trouble::Token));
            }
            let (failure, status, is_silent) = match call.known.provider.send(outgoing.clone()).await {
                Ok(incoming) if is_final(incoming.status) => {
                    permit.succeeded();
                    return Ok((incoming, permit));
                }
                Ok(incoming) => {
                    let status = incoming.status;
                    (self.failure(call, incoming).await, status, false)
                }
                Err(SendError::Unable { why }) => {
                    untaken(flight, 0);
                    return Err(Untaken::Final(Trouble::Unable { why }));
                }
                Err(SendError::Unreachable { why, .. }) => (Failure { everybody: true, named: None, why }, 0, false),
                Err(SendError::Silent { why, .. }) => (Failure { everybody: false, named: None, why }, 0, true),
            };
            if !is_silent {
                untaken(flight, status);
            }
            tracing::debug!(run = %call.way.run, provider = %call.known.shape.name, why = %failure.why, "a call was not taken");
            match permit.failed(tries, &failure) {
                Next::Parked(parked) => return Err(Untaken::Parked(parked)),
                Next::GiveUp => return Err(Untaken::Final(self.given_up(call, failure.why))),
                // What may have been taken is another call from now on.
                Next::Again(at) if is_silent && flight.is_some() => return Err(Untaken::Silent(at)),
                Next::Again(at) => call.known.lane.rest(at).await.map_err(Untaken::Parked)?,
            }
        }
    }

    /// What a provider says that does not take a call.
    async fn failure(&self, call: &Call<'_>, mut incoming: Incoming) -> Failure {
        let status = incoming.status;
        let mut answer = wire::Answer::new(call.read.protocol, status);
        let mut bytes = 0;
        while let Some(Ok(piece)) = incoming.body.next().await {
            answer.feed(&piece);
            bytes += piece.len();
            if bytes > FAILURE_BYTES {
                break;
            }
        }
        let said = match answer.finish(0, orc_domain::meter::Amount::default()).end {
            End::Failed { kind, text } if !text.is_empty() => format!("status {status}, {kind}: {text}"),
            _ => format!("status {status}"),
        };
        let named = retry_after::parse(&incoming.headers, self.clock.now());
        Failure { everybody: matches!(status, 429 | 503 | 529), named, why: said }
    }

    fn given_up(&self, call: &Call<'_>, why: String) -> Trouble {
        let seconds = self.clock.now().since(call.began).as_millis() / 1_000;
        let why = format!("{why} (tried again for {seconds} s, while it answered others)");
        Trouble::Provider { provider: call.known.shape.name.clone(), why, after: None }
    }
}

/// Whether an answer is passed on: everything but what says that the provider is busy or broken.
fn is_final(status: u16) -> bool {
    status != 429 && status < 500
}

fn untaken(flight: Option<&Arc<Flight>>, status: u16) {
    if let Some(flight) = flight {
        flight.was_not_taken(status);
    }
}

async fn read(request: &Request) -> Result<wire::Request, wire::BadRequest> {
    let (protocol, want, body) = (request.protocol, request.want, request.body.clone());
    if body.len() < LARGE {
        return wire::Request::read(protocol, want, body);
    }
    match tokio::task::spawn_blocking(move || wire::Request::read(protocol, want, body)).await {
        Ok(read) => read,
        Err(_) => Err(wire::BadRequest::Unreadable { why: "its reader failed".to_owned() }),
    }
}

fn followed(way: &Way, incoming: Incoming, whose: (Option<Arc<Flight>>, Option<Permit>)) -> Answer {
    let Incoming { status, headers, body } = incoming;
    Answer { status, headers, body: Followed::new(body, whose, way.closed.clone().cancelled_owned()).boxed() }
}

/// An answer of our own.
pub(crate) fn told(refused: wire::Refused) -> Answer {
    let headers = refused.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let body: Bytes = refused.body;
    Answer { status: refused.status, headers, body: futures_util::stream::iter([Ok(body)]).boxed() }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
