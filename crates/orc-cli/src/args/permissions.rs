//! What can be typed after `permissions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::examples;
use crate::output::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsCommand {
    /// Judge the rows of a file, and say of each whether what must come of it came of it
    #[command(after_help = examples::PERMISSIONS_TEST)]
    Test(TestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// A file with a row of JSON on each line; `-` is standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
