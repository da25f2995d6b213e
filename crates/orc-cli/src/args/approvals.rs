//! What can be typed after `approvals`.

use clap::Args;
use orc_domain::permission::Scope;

use crate::output::OutputArgs;

#[derive(Debug, Args)]
pub(crate) struct ApprovalsListArgs {
    /// Those that were answered, with how everybody answers
    #[arg(long)]
    pub(crate) resolved: bool,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// A request, by id or a unique ending of it
    pub(crate) id: String,
    /// Why; an agent that asked is told it
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// For how long, where it is about a call of an agent: this call, exactly this for the run, or for ever as a rule
    #[arg(long, value_name = "call|run|forever", value_parser = scope)]
    pub(crate) scope: Option<Scope>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn scope(word: &str) -> Result<Scope, String> {
    [Scope::Call, Scope::Run, Scope::Forever]
        .into_iter()
        .find(|scope| scope.word() == word)
        .ok_or_else(|| "there are call, run, forever".to_owned())
}
