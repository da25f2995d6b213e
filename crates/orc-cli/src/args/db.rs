//! What can be typed after `db`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::examples;
use crate::output::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum DbCommand {
    /// Check the database's integrity and our own invariants
    Check(OutputArgs),
    /// Write a consistent copy while it is in use
    Backup {
        /// The file to write
        file: PathBuf,
        /// Replace the file if it is there
        #[arg(long)]
        force: bool,
    },
    /// Bring the schema up to this program's version
    Migrate,
    /// Give unused space back
    Vacuum,
    /// What is older than `retention` of the settings keeps it; a holder removes it by itself
    #[command(after_help = examples::RETENTION)]
    Retention(RemoveArgs),
}

/// Of commands that remove what nobody needs any more.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Only show it; as without any option
    #[arg(long, conflicts_with = "apply")]
    pub(crate) dry_run: bool,
    /// Remove it now
    #[arg(long)]
    pub(crate) apply: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
