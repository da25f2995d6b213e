//! The tools of the built-in agent, as they run inside the box.
//!
//! A tool host is given [`HANDS`] and has each call done by one of them, on a thread of the call. They are the ones that
//! touch the copy; nothing here knows a key, a model or a conversation beyond the stamps of the files that it has seen.
//!
//! - Every failure is a text that tells a model what is wrong and what helps; nothing panics, whatever it is asked.
//! - What is told is bounded, and so is what is held in memory; whoever waits looks whether it is cancelled.
//! - A file is changed only when the conversation has seen it as it is, and never through a link without saying so.
//!
//! Where to go next: [`offers`] (what a model is told of them), `place` (paths), `text` (encodings and line endings), then
//! one module for each family: `read`, `edit`, `find`, `search`, `shell`, `web`.

mod edit;
mod find;
mod input;
pub mod offers;
mod place;
mod read;
mod save;
mod search;
mod shell;
mod shells;
mod spool;
mod text;
mod walk;
mod web;

#[cfg(test)]
mod tests;

use orc_process::hands::{Floor, Hands, Use, Used};

use self::shells::Shells;

/// What the gate asks before a call: where paths lead. It is offered to no model.
pub(crate) const RESOLVE: &str = "resolve";
/// Keeps a text in a file; for results that are too many. It is offered to no model.
pub(crate) const KEEP: &str = "keep";

/// The tools of the built-in agent, for a tool host.
pub static HANDS: OwnHands = OwnHands::new();

/// The tools, with the shells that they keep in the background.
#[derive(Debug)]
pub struct OwnHands {
    shells: Shells,
}

/// Why a tool did not do what it was to do, and what helps, for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal(String);

impl<T: Into<String>> From<T> for Refusal {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// What came of a tool.
type Outcome = Result<Used, Refusal>;

/// A tool that only has something to say.
fn told(text: impl Into<String>) -> Used {
    Used { text: text.into(), ..Used::default() }
}

impl OwnHands {
    const fn new() -> Self {
        Self { shells: Shells::new() }
    }

    fn use_one(&self, wanted: &Use, floor: &dyn Floor) -> Outcome {
        match wanted.name.as_str() {
            "Read" => read::read(&input::parse(wanted)?, floor),
            "Write" => edit::write(&input::parse(wanted)?, &wanted.seen, floor),
            "Edit" => edit::edit(input::parse(wanted)?, &wanted.seen, floor),
            "MultiEdit" => edit::multi_edit(&input::parse(wanted)?, &wanted.seen, floor),
            "Glob" => find::glob(&input::parse(wanted)?, &wanted.without, floor),
            "Grep" => search::grep(&input::parse(wanted)?, &wanted.without, floor),
            "Bash" => shell::bash(&input::parse(wanted)?, &self.shells, floor),
            "BashOutput" => self.shells.output(&input::parse(wanted)?, floor),
            "KillShell" => self.shells.kill(&input::parse(wanted)?),
            KEEP => spool::keep(&input::parse(wanted)?, floor),
            "WebFetch" => web::fetch(&input::parse(wanted)?, floor),
            RESOLVE => place::resolve_all(&input::parse(wanted)?, floor),
            other => Err(format!("There is no tool `{other}`. There are: {}.", self.names().join(", ")).into()),
        }
    }
}

impl Hands for OwnHands {
    fn names(&self) -> Vec<String> {
        offers::tools().iter().map(|tool| tool.name.to_owned()).collect()
    }

    fn lift(&self, wanted: &Use, floor: &dyn Floor) -> Used {
        let mut used = self.use_one(wanted, floor).unwrap_or_else(|Refusal(why)| Used { failed: true, ..told(why) });
        used.shells = self.shells.running();
        used
    }
}
