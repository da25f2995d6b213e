//! What can be typed after `worktrees`.

use crate::args::RemoveArgs;
use clap::{Args, Subcommand};

use super::examples;
use crate::output::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum WorktreesCommand {
    /// Private copies, with whether what is in them is saved
    #[command(after_help = examples::WORKTREES_LIST)]
    List(WorktreesListArgs),
    /// The copies and results of a flow, and how to take them over
    #[command(after_help = examples::WORKTREES_SHOW)]
    Show(WorktreeShowArgs),
    /// What a step changed, as a patch
    #[command(after_help = examples::WORKTREES_DIFF)]
    Diff(WorktreeArgs),
    /// Write what is in a copy, uncommitted work included, to references
    #[command(after_help = examples::WORKTREES_RESCUE)]
    Rescue(WorktreeShowArgs),
    /// Copies that nobody needs any more: of flows that are over, and of flows that nobody knows; what is unsaved in them is
    /// written to rescue references first
    #[command(after_help = examples::WORKTREES_GC)]
    Gc(RemoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WorktreesListArgs {
    /// Only of this flow, by id or a unique ending of it
    pub(crate) flow: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WorktreeArgs {
    /// A flow or a run, by id or a unique ending of it
    pub(crate) id: String,
    /// Only this step of the flow
    #[arg(long, value_name = "PATH")]
    pub(crate) step: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WorktreeShowArgs {
    #[command(flatten)]
    pub(crate) of: WorktreeArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Mend what can be mended: the user that boxes run as (as root), and who may read the data directory
    #[arg(long)]
    pub(crate) fix: bool,
    /// Say only what was mended and what fails
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
