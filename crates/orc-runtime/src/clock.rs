//! The real clock, and one that runs faster. The only place that reads wall time.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use orc_domain::time::{Millis, Timestamp};
use orc_ports::clock::Clock;

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock port's implementation")]
    fn now(&self) -> Timestamp {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let millis = since_epoch.map_or(0, |span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
        Timestamp::from_millis(millis)
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        tokio::time::sleep(span.as_std()).boxed()
    }
}

/// A clock that is ahead of the machine's, and runs faster from the moment it is made, so that a test sees the end of a wait
/// of minutes or days. Only for tests: what it tells is not the time.
#[derive(Clone, Copy, Debug)]
pub struct FastClock {
    began: Timestamp,
    ahead: Millis,
    rate: u64,
}

impl FastClock {
    /// `rate` of its seconds pass in one of the machine's, from so much later than now.
    #[must_use]
    pub fn new(rate: std::num::NonZeroU32, ahead: Millis) -> Self {
        Self { began: SystemClock.now(), ahead, rate: rate.get().into() }
    }
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        let passed = SystemClock.now().since(self.began);
        self.began + self.ahead + passed.saturating_mul(self.rate)
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        // Never nothing: whoever sleeps in a loop gives others their turn.
        SystemClock.sleep(Millis::from_millis((span.as_millis() / self.rate).max(1)))
    }
}
