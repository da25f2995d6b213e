//! When a call may be sent with a key, and what follows when it is not taken. Pure: time and dice are arguments.
//!
//! A key has one [`Limiter`]. What fails for everybody (429, 529, nobody there) stops all sending with the key until a time, and
//! then lets one call at a time try; what may be the fault of one request (other 5xx) makes that call alone wait. When
//! nothing succeeds for as long as calls are held, the key is parked, each time in a row for twice as long; then one call
//! tries, and its failure parks the key again at once.
//!
//! It must never: let more calls go than the limits say, or park a key that answers others.
//! Where to go next: `lane`, which waits for what is said here.

use orc_domain::time::{Millis, Timestamp};

use crate::shape::{RateLimits, Times};

/// How long a call waits that was not taken the first time; each time it is twice as long.
const BACKOFF: Millis = Millis::from_millis(500);
/// How long it waits at most between two tries.
const BACKOFF_MOST: Millis = Millis::from_secs(16);
/// A call that tries for all has surely been taken when nothing was heard of it for so long.
const TAKEN_AFTER: Millis = Millis::from_secs(16);
/// A provider that names a later time than this from now is not believed.
const NAMED_MOST: Millis = Millis::from_secs(7 * 24 * 3_600);
const MINUTE: u64 = 60_000;

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What is said to a call that wants to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may be sent now.
    Go,
    /// Others are before it: it asks again when something changes.
    Busy,
    /// It asks again at this time, or when something changes.
    At(Timestamp),
    /// Nothing is sent.
    Parked(Parked),
}

/// A key that is not used for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parked {
    /// Until when.
    pub(crate) until: Timestamp,
    /// What its provider said.
    pub(crate) why: String,
}

/// Why a call was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Whether the next call would fail alike, whatever it is.
    pub(crate) everybody: bool,
    /// The time that the provider named.
    pub(crate) named: Option<Timestamp>,
    /// One line.
    pub(crate) why: String,
}

/// What a call does that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It asks again at this time.
    Again(Timestamp),
    /// Its key is parked.
    Parked(Parked),
    /// It failed for as long as a call is held, while others did not.
    GiveUp,
}

/// What a call remembers of its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    first: Option<Timestamp>,
    count: u32,
}

/// So much in a minute: what was not used for a minute is gone, and what was used too much has to come back first.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    limit: u64,
    /// In units of a `MINUTE`th.
    level: i128,
    at: Timestamp,
}

impl Bucket {
    fn new(limit: u64, at: Timestamp) -> Self {
        Self { limit, level: i128::from(limit) * i128::from(MINUTE), at }
    }

    fn refill(&mut self, now: Timestamp) {
        let span = now.since(self.at).as_millis().min(i64::MAX.unsigned_abs());
        // A clock that went back gives nothing, and is believed.
        self.at = now;
        let full = i128::from(self.limit) * i128::from(MINUTE);
        self.level = (self.level + i128::from(span) * i128::from(self.limit)).min(full);
    }

    /// When so many may be used; none: now. More than fit into a minute need a full one.
    fn ready(&mut self, now: Timestamp, count: u64) -> Option<Timestamp> {
        self.refill(now);
        let lacks = i128::from(count.min(self.limit)) * i128::from(MINUTE) - self.level;
        if lacks <= 0 {
            return None;
        }
        let millis = (lacks + i128::from(self.limit) - 1) / i128::from(self.limit.max(1));
        Some(now + Millis::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    fn take(&mut self, count: u64) {
        self.level -= i128::from(count) * i128::from(MINUTE);
    }

    fn give(&mut self, count: u64) {
        let full = i128::from(self.limit) * i128::from(MINUTE);
        self.level = (self.level + i128::from(count) * i128::from(MINUTE)).min(full);
    }
}

/// Calls that fail, none of which succeeded.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    since: Timestamp,
    /// Failures in a row of calls that were sent one after the other.
    count: u32,
    /// Whether it is everybody's: then one call at a time tries.
    everybody: bool,
    last: Timestamp,
}

/// All that is sent with one key.
#[derive(Debug)]
pub(crate) struct Limiter {
    limits: RateLimits,
    times: Times,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    flying: u32,
    queue: Vec<Ticket>,
    next_ticket: u64,
    pause: Option<Timestamp>,
    trouble: Option<Trouble>,
    /// When a call was sent that tries for all.
    trial: Option<Timestamp>,
    parked: Option<Parked>,
    /// How often it was parked since something succeeded, and until when the last time.
    parks: u32,
    unparked: Timestamp,
}

impl Limiter {
    pub(crate) fn new(limits: RateLimits, times: Times, now: Timestamp) -> Self {
        Self {
            limits,
            times,
            requests: limits.requests.map(|limit| Bucket::new(limit.max(1).into(), now)),
            tokens: limits.tokens.map(|limit| Bucket::new(limit.max(1), now)),
            flying: 0,
            queue: Vec::new(),
            next_ticket: 0,
            pause: None,
            trouble: None,
            trial: None,
            parked: None,
            parks: 0,
            unparked: now,
        }
    }

    /// Queues a call; it asks with its ticket until it goes, or leaves.
    pub(crate) fn queue(&mut self) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.queue.push(ticket);
        ticket
    }

    /// A call does not want to be sent any more.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.queue.retain(|queued| *queued != ticket);
    }

    /// Until when nothing is sent.
    pub(crate) fn parked(&mut self, now: Timestamp) -> Option<&Parked> {
        if self.parked.as_ref().is_some_and(|parked| parked.until <= now) {
            self.parked = None;
        }
        self.parked.as_ref()
    }

    /// Whether a call goes that probably has so many tokens. One that goes has left the queue.
    pub(crate) fn admit(&mut self, ticket: Ticket, tokens: u64, now: Timestamp) -> Admission {
        if let Some(parked) = self.parked(now) {
            return Admission::Parked(parked.clone());
        }
        if self.queue.first() != Some(&ticket) {
            return Admission::Busy;
        }
        if let Some(pause) = self.pause.filter(|pause| *pause > now) {
            return Admission::At(pause);
        }
        let tries = self.parks > 0 || self.trouble.is_some_and(|trouble| trouble.everybody);
        if let Some(heard) = self.trial.map(|sent| sent + TAKEN_AFTER).filter(|heard| tries && *heard > now) {
            return Admission::At(heard);
        }
        if self.flying >= self.limits.concurrency.unwrap_or(u32::MAX).max(1) {
            return Admission::Busy;
        }
        let requests = self.requests.as_mut().and_then(|bucket| bucket.ready(now, 1));
        let ready = requests.max(self.tokens.as_mut().and_then(|bucket| bucket.ready(now, tokens)));
        if let Some(at) = ready {
            return Admission::At(at);
        }
        if let Some(bucket) = &mut self.requests {
            bucket.take(1);
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.take(tokens);
        }
        self.flying += 1;
        self.trial = tries.then_some(now);
        self.leave(ticket);
        Admission::Go
    }

    /// A call is over that was let go at `sent` with `guessed` tokens and used so many.
    pub(crate) fn over(&mut self, sent: Timestamp, guessed: u64, used: u64) {
        self.flying = self.flying.saturating_sub(1);
        if self.trial == Some(sent) {
            // It tried for all, and nobody knows how it went: the next one tries.
            self.trial = None;
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.give(guessed.saturating_sub(used));
            bucket.take(used.saturating_sub(guessed));
        }
    }

    /// A call was taken that was sent at `sent`. One that left before everybody failed says nothing about now.
    pub(crate) fn succeeded(&mut self, sent: Timestamp) {
        if self.trouble.is_some_and(|trouble| trouble.everybody && sent < trouble.last) {
            return;
        }
        (self.trouble, self.pause, self.trial, self.parked, self.parks) = (None, None, None, None, 0);
    }

    /// A call was not taken that was sent at the first of the times; the other one is now. `dice` is any number.
    pub(crate) fn failed(
        &mut self,
        tries: &mut Tries,
        failure: &Failure,
        (sent, now): (Timestamp, Timestamp),
        dice: u32,
    ) -> Next {
        self.trial = None;
        let first = *tries.first.get_or_insert(now);
        tries.count = tries.count.saturating_add(1);
        let trouble = self.note(failure, sent, now);
        if let Some(parked) = self.parked(now) {
            return Next::Parked(parked.clone());
        }
        let hold = self.times.hold;
        if now > self.unparked + hold {
            self.parks = 0;
        }
        let named = failure.named.filter(|named| *named > now).map(|named| named.min(now + NAMED_MOST));
        let count = if failure.everybody { tries.count.max(trouble.count) } else { tries.count };
        let wait = doubled(BACKOFF, count - 1, BACKOFF_MOST);
        let again = named.map_or_else(|| now + wait + jitter(wait, 4, dice), |named| named + jitter(BACKOFF, 1, dice));
        if self.parks > 0 || again > trouble.since + hold {
            return Next::Parked(self.park(named, &failure.why, now, dice));
        }
        if again > first + hold {
            return Next::GiveUp;
        }
        if failure.everybody {
            self.pause = self.pause.max(Some(again));
        }
        Next::Again(again)
    }

    /// What was in flight together fails together, and is one failure; trouble of long ago is over.
    fn note(&mut self, failure: &Failure, sent: Timestamp, now: Timestamp) -> Trouble {
        let before = self.trouble.filter(|trouble| now.since(trouble.last) <= self.times.hold);
        let trouble = match before {
            None => Trouble { since: now, count: 1, everybody: failure.everybody, last: now },
            Some(before) => Trouble {
                since: before.since,
                count: before.count.saturating_add(u32::from(sent >= before.last)),
                everybody: before.everybody || failure.everybody,
                last: now,
            },
        };
        self.trouble = Some(trouble);
        trouble
    }

    fn park(&mut self, named: Option<Timestamp>, why: &str, now: Timestamp, dice: u32) -> Parked {
        let span = doubled(self.times.park, self.parks, self.times.park_most);
        let from = (now + span).max(named.unwrap_or(now));
        let parked = Parked { until: from + jitter(span, 5, dice), why: why.to_owned() };
        self.parks = self.parks.saturating_add(1);
        self.unparked = parked.until;
        (self.parked, self.pause) = (Some(parked.clone()), None);
        parked
    }
}

fn doubled(span: Millis, times: u32, most: Millis) -> Millis {
    Millis::from_millis(
        span.saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX)).as_millis().min(most.as_millis()),
    )
}

/// Up to one `part`th of a span; it is added to waits, so that nobody comes before a time that was named.
fn jitter(span: Millis, part: u64, dice: u32) -> Millis {
    Millis::from_millis(span.as_millis() / part * u64::from(dice % 1_001) / 1_000)
}

#[cfg(test)]
mod tests;
