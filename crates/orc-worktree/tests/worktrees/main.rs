//! Private copies with real git in real boxes, for every way of making them that this machine has.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

mod boxes;
mod caching;
mod conflicts;
mod crashes;
mod fixture;
mod hostile;
mod keeping;
mod lifetime;
mod sources;
mod working;
