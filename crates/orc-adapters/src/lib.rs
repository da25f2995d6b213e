//! Agent programs: what to start, and what they tell.
//!
//! Ring 3. Each adapter is pure: bytes and times come in as arguments, and what to start, events and a result go out. It
//! starts nothing, reads no clock and no file, and never decides what a result means for a flow.
//!
//! One adapter is built, [`command::CommandAdapter`]: any program, with its prompt on standard input and the events of
//! [`vocabulary`] as JSON lines on standard output. [`fold`] makes one result of them, [`prompt`] and [`environment`] are
//! what the program gets.

pub mod command;
pub mod environment;
pub mod fold;
mod lines;
mod looping;
pub mod prompt;
pub mod vocabulary;

pub use self::command::CommandAdapter;
