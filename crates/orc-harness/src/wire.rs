//! What is said to and by a model, in the words of each protocol: a [`Question`](crate::talk::Question) becomes the body of a
//! request, the bytes of an answer become [`Said`](crate::talk::Said).
//!
//! Pure: no I/O, no clock, nothing asynchronous. The same question gives the same bytes, and what a conversation grows by
//! stands behind them, so that caches of providers hold. The pieces of an answer do not depend on how its bytes were cut.
//!
//! It must never: put a credential into a request, fail because a provider sends something new, hand out a call of which a
//! part is missing, or take an answer without its end for a whole one. Where to go next: [`request`], [`Reader`],
//! [`failure`]; `turns` (what all protocols want of a conversation), `answer::Voice` (what their answers have in common).

mod answer;
mod failure;
mod model;
mod request;
mod turns;

pub use answer::{MOST_BYTES, Reader};
pub use failure::failure;
pub use request::{Outgoing, request};

/// What a provider says goes into events and logs: one line, and no long one.
fn one_line(text: &str) -> String {
    const MOST: usize = 500;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The longest output that a model may safely be asked for, in tokens.
#[must_use]
pub fn longest_output(model: &str) -> u32 {
    model::longest_output(model)
}
