//! `completions`: what a shell needs to complete our command line.

use clap::CommandFactory as _;

use crate::args::Arguments;
use crate::exit::Exit;
use crate::failure::{CommandResult, unavailable};
use crate::output;

pub(crate) fn run(shell: clap_complete::Shell) -> CommandResult {
    let mut command = Arguments::command();
    let name = command.get_name().to_owned();
    // Into memory first: the generator gives up loudly when its reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    let script = String::from_utf8(script);
    output::text(&script.map_err(|error| unavailable("cannot write the completions").because(error))?)?;
    Ok(Exit::Success)
}
