//! What the gateway understands of the three protocols: requests are read and edited, answers are followed, refusals written.
//!
//! Pure: no I/O, no clock, nothing asynchronous. Bytes pass by here and are never made anew: an edit replaces the value
//! that it is about, and an answer is only looked at. Whatever cannot be judged is judged at its dearest.
//!
//! It must never: keep more of an answer than [`answer::EVENT_BYTES`] or [`answer::JSON_BYTES`], believe a figure that
//! cannot be true, or fail because a provider sends something new. Where to go next: [`request`], [`answer`], [`refusal`].

mod node;
mod request;

pub use request::{BadRequest, HELD_IMAGE_TOKENS, Request, SERVER_TOOL_USES, Track};
