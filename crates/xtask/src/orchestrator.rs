//! `cargo orchestrator ARGUMENTS`: the binary as its users have it, built and with everything that its boxes need.

use std::os::unix::process::CommandExt as _;

use anyhow::{Context, Result};

use crate::{command, suite};

/// Builds the release binary, lets it get this machine ready, and runs it where the caller stands.
///
/// # Errors
/// When a tool cannot be installed, it does not build, or it cannot be started.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    suite::ensure_runnable()?;
    command::run(command::command(env!("CARGO")).args([
        "build",
        "--release",
        "--package",
        "orc-cli",
        "--bin",
        "orchestrator",
    ]))?;
    let binary = command::target()?.join("release/orchestrator");
    command::run(command::command(&binary).args(["doctor", "--fix", "--quiet"]))?;
    let mut program = command::command(&binary);
    #[expect(clippy::disallowed_methods, reason = "whoever types it means a file where they stand")]
    let here = std::env::current_dir();
    if let Ok(here) = here {
        program.current_dir(here);
    }
    // In our place, so that a signal reaches it and its exit code is ours.
    Err(program.args(arguments).exec()).context("cannot start the binary")
}
