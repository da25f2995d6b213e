//! The small programs around and inside of a box: our own executable, started again under one of four words.
//!
//! They start before anything else of the program does (no arguments are parsed, no thread is made, no log), because every
//! boxed run pays for it. What they find wrong they say in a frame ([`crate::protocol::Answer::Error`]) on their standard
//! input, which is the socket of whoever made the box.
//!
//! - `box-porter`: outside. Waits, and is copied into the next for each box.
//! - `box-enter`: outside. Mounts, becomes the box user, turns into bwrap.
//! - `box-init`: the first process inside. Runs one program under Landlock, seccomp and limits.
//! - `tool-host`: for several calls: the protocol on its standard input and output. In a box it is the one program that
//!   `box-init` runs, and so behind all of its walls.
//!
//! What they must never do: go on when a part of the wall could not be put up.

mod enter;
mod host;
mod init;
mod landlock;
mod limits;
mod masks;
mod porter;
pub(crate) mod programs;
mod refusals;
mod seccomp;
mod targets;
mod watch;

use std::ffi::OsStr;
use std::process::ExitCode;

use crate::hands::Hands;

/// Runs one of the four programs if that is what `word`, the first argument, asks for; else `None`. A tool host has `hands`
/// beside its own tools.
#[must_use]
pub fn run(word: Option<&OsStr>, hands: &'static dyn Hands) -> Option<ExitCode> {
    match word?.to_str()? {
        "box-porter" => Some(porter::run()),
        "box-enter" => Some(enter::run()),
        "box-init" => Some(init::run()),
        "tool-host" => Some(host::run(hands)),
        _ => None,
    }
}
