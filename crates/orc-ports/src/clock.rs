//! Time, as the shell of the program reads it. Pure code gets a `Timestamp` as an argument instead.

use futures_util::future::BoxFuture;
use orc_domain::time::{Millis, Timestamp};

/// A clock.
pub trait Clock: Send + Sync {
    /// Wall time, for records.
    fn now(&self) -> Timestamp;

    /// Ends after `span` of monotonic time, whatever the wall clock does meanwhile.
    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()>;
}
