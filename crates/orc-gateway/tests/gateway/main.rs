//! The gateway as a whole: through the door in the process and through the face, against providers that do everything bad.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

mod cuts;
mod face;
mod fixture;
mod held;
mod life;
mod secrets;
mod server;
mod upstream;
mod walls;
