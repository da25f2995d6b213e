//! What the gateway understands of the three protocols: requests are read and edited, answers are followed, refusals written.
//!
//! Pure: no I/O, no clock, nothing asynchronous. Bytes pass by here and are never made anew: an edit replaces the value
//! that it is about, and an answer is only looked at. Whatever cannot be judged is judged at its dearest.
//!
//! It must never: keep more of an answer than [`EVENT_BYTES`] or [`JSON_BYTES`], believe a figure that cannot be true, or
//! fail because a provider sends something new. Where to go next: [`Request`], [`Answer`], [`Trouble`].

mod answer;
mod node;
mod refusal;
mod request;
mod sse;
mod usage;

pub use answer::{Answer, BYTES_PER_TOKEN, EVENT_BYTES, End, Folded, JSON_BYTES};
pub use refusal::{Refused, Trouble};
pub use request::{BadRequest, HELD_IMAGE_TOKENS, Request, SERVER_TOOL_USES, Track};
