//! The binary `orchestrator`: the only place where the parts are put together.
//!
//! Ring 5. Reads the command line and the environment, opens what a command needs, prints. `args` is what can be typed,
//! `context` what every command starts from, `hold` how a command becomes the holder of a data directory, `commands/` one
//! file per noun, `view/` how a run looks, `output` the forms of data, `exit` the exit codes, `failure` how errors look.

mod agents;
mod args;
mod boxes;
mod commands;
mod context;
mod evidence;
mod exit;
mod explanation;
mod failure;
mod feed;
mod hold;
mod host;
mod incident;
mod layers;
mod look;
mod models;
mod moment;
mod notify;
mod output;
mod rulebook;
mod shelf;
mod signals;
mod typed;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Arguments;
use crate::exit::Exit;

fn main() -> ExitCode {
    // The programs in and around a box are this one too; every boxed run waits for them.
    if let Some(code) = orc_process::inside::run(std::env::args_os().nth(1).as_deref(), &orc_harness::hands::HANDS) {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::of_usage(&error),
    };
    host::log_to_stderr(arguments.verbose);
    // One worker beside this thread: what it does takes microseconds, and a second one is mostly woken in vain.
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            failure::print(&failure::unavailable("cannot start the threads of the program").because(error));
            return Exit::Unavailable.into();
        }
    };
    let ended = runtime.block_on(commands::run(arguments));
    // A thread that still reads a terminal or a pipe must not keep the program alive.
    runtime.shutdown_background();
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            failure::print(&error);
            error.exit.into()
        }
    }
}
