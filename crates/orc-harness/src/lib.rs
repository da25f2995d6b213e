//! The built-in agent: a loop outside the box (the brain), its tools inside (the hands).
//!
//! The brain holds the conversation, calls the model through the gateway in this process, and has every tool done by a tool
//! host in the box of its run. It opens no path of the copy that it works on and holds no key. What it hears from outside
//! (answers of the model, results of tools, messages) is written down before it is acted on, so that a conversation goes on
//! after a crash and a run can be replayed.
//!
//! Where to go next: [`talk`] (what is said between brain and model), [`wire`] (the same in the words of each protocol),
//! [`hands`] (the tools, as they run inside).

mod ask;
pub mod brain;
pub mod context;
mod drive;
pub mod events;
mod facts;
mod gate;
pub mod hands;
pub mod host;
pub mod place;
pub mod record;
pub mod replay;
pub mod run;
pub mod talk;
pub mod tools;
pub mod wire;
