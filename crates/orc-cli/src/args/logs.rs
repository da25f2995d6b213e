//! What can be typed to read what runs said.

use clap::Args;

use crate::output::OutputArgs;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Flows or runs; any unique ending of an id with six characters or more
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// Only of this step of the flow
    #[arg(long, value_name = "PATH")]
    pub(crate) step: Option<String>,
    /// Go on until all of it is over, in the order of time
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only what is not older: `10m`, `2026-03-01T12:30:00Z`
    #[arg(long, value_name = "DURATION|TIME")]
    pub(crate) since: Option<String>,
    /// With what happened to the steps and the flow, in the order of time
    #[arg(long)]
    pub(crate) events: bool,
    /// Lines of agents as they were printed; otherwise their events are put into words
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A run; any unique ending of its id with six characters or more
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A run, by id or a unique ending of it
    pub(crate) id: String,
    /// Use its tools again too, in a fresh private copy of what it began with; each result that differs is named
    #[arg(long)]
    pub(crate) tools: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
