//! The real clock. The only place that reads wall time.

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
