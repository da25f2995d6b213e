//! A call in flight: what was set aside for it, what it was seen to use, and its end, which comes once.
//!
//! Whoever sees the end first settles: the last byte of its answer, a program that hangs up, a provider that fails, the
//! close of its run, or nobody, when the last hold of it is dropped. Nothing that was set aside is forgotten.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::BoxStream;
use orc_domain::ids::CallId;
use orc_domain::ledger::{EntryKind, Settlement};
use orc_domain::meter::Amount;
use orc_domain::model::{Protocol, Tokens};
use orc_domain::money::UsdMicros;
use orc_domain::price::Price;
use orc_ports::clock::Clock;
use orc_ports::gateway::Broken;
use tokio::sync::oneshot;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::lane::Permit;
use crate::till::Aside;
use crate::wire;

/// What is known of a call before it leaves.
pub(crate) struct Known {
    pub(crate) call: CallId,
    pub(crate) protocol: Protocol,
    /// Bytes of its request.
    pub(crate) request: u64,
    pub(crate) price: Option<Price>,
}

/// A call in flight. Dropping it ends it.
pub(crate) struct Flight {
    clock: Arc<dyn Clock>,
    open: Mutex<Option<Open>>,
}

struct Open {
    known: Known,
    aside: Aside,
    settle: oneshot::Sender<Settlement>,
    permit: Option<Permit>,
    left: Left,
    status: u16,
}

/// How far it came.
enum Left {
    /// Nothing of it left, or a provider said that it did not take it.
    Not,
    /// It left, and so much of its answer was seen.
    Yes(Box<wire::Answer>),
    /// It left, and its answer cannot be read: it counts as all that was set aside.
    Unreadable,
}

impl Left {
    fn answered(protocol: Protocol, status: u16) -> Self {
        Self::Yes(Box::new(wire::Answer::new(protocol, status)))
    }
}

impl Flight {
    pub(crate) fn new(
        known: Known,
        aside: Aside,
        settle: oneshot::Sender<Settlement>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let open = Open { known, aside, settle, permit: None, left: Left::Not, status: 0 };
        Arc::new(Self { clock, open: Mutex::new(Some(open)) })
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it may be that the provider works for it. False: it is over.
    pub(crate) fn leaves(&self) -> bool {
        self.set(|open| open.left = Left::answered(open.known.protocol, 0))
    }

    /// The provider did not take it, with this status (0: it was not reached).
    pub(crate) fn was_not_taken(&self, status: u16) {
        self.set(|open| {
            open.left = Left::Not;
            open.status = status;
        });
    }

    /// The head of its answer came.
    pub(crate) fn is_answered(&self, status: u16, is_readable: bool, permit: Permit) {
        self.set(|open| {
            open.status = status;
            open.permit = Some(permit);
            open.left = if is_readable { Left::answered(open.known.protocol, status) } else { Left::Unreadable };
        });
    }

    fn feed(&self, bytes: &[u8]) {
        self.set(|open| {
            if let Left::Yes(answer) = &mut open.left {
                answer.feed(bytes);
            }
        });
    }

    fn set(&self, change: impl FnOnce(&mut Open)) -> bool {
        self.open().as_mut().map(change).is_some()
    }

    /// It is over, whatever was seen of it. Only the first end counts.
    pub(crate) fn end(&self) {
        let Some(Open { known, aside, settle, permit, left, status }) = self.open().take() else { return };
        let reserved = aside.grant.reserved;
        let (kind, tokens, micros, message) = match left {
            Left::Not => (EntryKind::Settled, Tokens::default(), UsdMicros::default(), None),
            Left::Yes(answer) => {
                let folded = answer.finish(known.request, reserved);
                let micros = folded.cost(known.price.as_ref(), reserved);
                (folded.kind, folded.tokens, micros, folded.message)
            }
            Left::Unreadable => {
                let micros = UsdMicros::from_micros(i64::try_from(reserved.micros).unwrap_or(i64::MAX));
                (EntryKind::Estimated, Tokens { input: reserved.tokens, ..Tokens::default() }, micros, None)
            }
        };
        let at = self.clock.now();
        let settlement = Settlement { call: known.call, kind, tokens, micros, message, status, at }.bounded();
        let used = Amount::of_call(settlement.tokens, settlement.micros);
        if used.micros > reserved.micros || used.tokens > reserved.tokens {
            let call = settlement.call;
            tracing::error!(%call, ?used, ?reserved, "a provider counts more than its call could use: walls above it may be crossed");
        }
        if let Some(permit) = permit {
            permit.over(settlement.tokens.total());
        }
        // The writer of its entries is gone only when the whole program goes; then the call counts as lost.
        let _ = settle.send(settlement);
        aside.settle(used);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.end();
    }
}

/// The body of an answer, followed while it passes.
pub(crate) struct Followed {
    body: BoxStream<'static, Result<Bytes, Broken>>,
    /// None once it is over; and for calls that cost nothing there is none from the beginning.
    flight: Option<Arc<Flight>>,
    /// For calls that cost nothing: how many of them are sent at once is limited all the same.
    permit: Option<Permit>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: bool,
}

impl Followed {
    pub(crate) fn new(
        body: BoxStream<'static, Result<Bytes, Broken>>,
        whose: (Option<Arc<Flight>>, Option<Permit>),
        closed: WaitForCancellationFutureOwned,
    ) -> Self {
        let (flight, permit) = whose;
        Self { body, flight, permit, closed: Box::pin(closed), is_over: false }
    }

    fn end(&mut self) {
        if let Some(flight) = self.flight.take() {
            flight.end();
        }
        self.permit = None;
        self.is_over = true;
    }
}

impl Stream for Followed {
    type Item = Result<Bytes, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.closed.as_mut().poll(context).is_ready() {
            self.end();
            return Poll::Ready(Some(Err(Broken::Closed)));
        }
        let next = std::task::ready!(self.body.as_mut().poll_next(context));
        match &next {
            Some(Ok(bytes)) => {
                if let Some(flight) = &self.flight {
                    flight.feed(bytes);
                }
            }
            Some(Err(_)) | None => self.end(),
        }
        Poll::Ready(next)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        // A program that hangs up: what it was answered so far is what counts, whoever else still knows of the call.
        self.end();
    }
}
