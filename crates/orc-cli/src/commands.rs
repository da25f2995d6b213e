//! The commands, one file per noun.

mod agents;
mod approvals;
mod ask;
mod budgets;
mod cancel;
mod carry;
mod change;
mod completions;
mod config;
mod conversations;
mod costs;
mod db;
mod demo;
mod doctor;
mod explain;
mod export;
mod flows;
mod gateway;
mod graph;
mod incidents;
mod init;
mod logs;
mod man;
mod message;
mod pause;
mod permissions;
mod plan;
mod reference;
mod replay;
mod resume;
mod retry;
mod run;
mod runs;
mod schema;
pub(crate) mod status;
mod validate;
mod worktrees;

use orc_domain::request::Answer;

use crate::args::{
    AgentsCommand, ApprovalsCommand, Arguments, Command, ConfigCommand, ConversationsCommand, DbCommand, FlowsCommand,
    PermissionsCommand, RunsCommand, WorktreesCommand,
};
use crate::context::Context;
use crate::failure::CommandResult;

/// Carries a command out.
pub(crate) async fn run(arguments: Arguments) -> CommandResult {
    let context = Context::new(arguments.data)?;
    match arguments.command {
        Command::Init(args) => init::run(&context, &args),
        Command::Demo(args) => demo::run(&context, args).await,
        Command::Run(args) => run::run(&context, args).await,
        Command::Validate(args) => validate::run(&context, &args),
        Command::Graph(args) => graph::run(&context, &args).await,
        Command::Schema(args) => schema::run(args.of),
        Command::Status(args) => status::run(&context, &args).await,
        Command::Explain(args) => explain::run(&context, &args).await,
        Command::Flows(FlowsCommand::List(args)) => flows::list(&context, &args).await,
        Command::Flows(FlowsCommand::Show(args)) => flows::show(&context, &args).await,
        Command::Runs(RunsCommand::List(args)) => runs::list(&context, &args).await,
        Command::Runs(RunsCommand::Show(args)) => runs::show(&context, &args).await,
        Command::Agents(AgentsCommand::List(args)) => agents::list(&context, args),
        Command::Agents(AgentsCommand::Show(args)) => agents::show(&context, &args),
        Command::Conversations(ConversationsCommand::List(args)) => conversations::list(&context, &args).await,
        Command::Conversations(ConversationsCommand::Show(args)) => conversations::show(&context, &args).await,
        Command::Logs(args) => logs::run(&context, &args).await,
        Command::Export(args) => export::run(&context, &args).await,
        Command::Replay(args) => replay::run(&context, args).await,
        Command::Ask(args) => ask::run(&context, args).await,
        Command::Cancel(args) | Command::Flows(FlowsCommand::Cancel(args)) => cancel::run(&context, args).await,
        Command::Retry(args) | Command::Flows(FlowsCommand::Retry(args)) => retry::run(&context, args).await,
        Command::Resume(args) | Command::Flows(FlowsCommand::Resume(args)) => resume::run(&context, args).await,
        Command::Pause(args) | Command::Flows(FlowsCommand::Pause(args)) => pause::run(&context, args).await,
        Command::Message(args) => message::run(&context, args).await,
        Command::Approvals(ApprovalsCommand::List(args)) => approvals::list(&context, &args).await,
        Command::Approvals(ApprovalsCommand::Show { id, output }) => {
            approvals::show(&context, &id, output.output).await
        }
        Command::Approvals(ApprovalsCommand::Approve(args)) => {
            approvals::answer(&context, args, Answer::Approved).await
        }
        Command::Approvals(ApprovalsCommand::Deny(args)) => approvals::answer(&context, args, Answer::Denied).await,
        Command::Permissions(PermissionsCommand::Explain(args)) => permissions::explain(&context, &args),
        Command::Permissions(PermissionsCommand::Test(args)) => permissions::test(&context, &args),
        Command::Permissions(PermissionsCommand::Lint(args)) => permissions::lint(&context, &args),
        Command::Permissions(PermissionsCommand::Rules(args)) => permissions::rules(&context, args.output),
        Command::Permissions(PermissionsCommand::Forget(args)) => permissions::forget(&context, &args),
        Command::Incidents(args) => incidents::run(&context, &args).await,
        Command::Costs(args) => costs::run(&context, &args).await,
        Command::Gateway(args) => gateway::run(&context, args).await,
        Command::Budgets(args) => budgets::run(&context, &args).await,
        Command::Worktrees(WorktreesCommand::List(args)) => worktrees::list(&context, &args).await,
        Command::Worktrees(WorktreesCommand::Show(args)) => worktrees::show(&context, &args).await,
        Command::Worktrees(WorktreesCommand::Diff(args)) => worktrees::diff(&context, &args).await,
        Command::Worktrees(WorktreesCommand::Rescue(args)) => worktrees::rescue(&context, &args).await,
        Command::Worktrees(WorktreesCommand::Gc(args)) => worktrees::gc(&context, &args).await,
        Command::Doctor(args) => doctor::run(&context, args).await,
        Command::Db(DbCommand::Check(args)) => db::check(&context, args).await,
        Command::Db(DbCommand::Backup { file, force }) => db::backup(&context, &file, force).await,
        Command::Db(DbCommand::Migrate) => db::migrate(&context).await,
        Command::Db(DbCommand::Vacuum) => db::vacuum(&context).await,
        Command::Db(DbCommand::Retention(args)) => db::retention(&context, &args).await,
        Command::Config(ConfigCommand::Show { origin, output }) => config::show(&context, origin, output),
        Command::Completions { shell } => completions::run(shell),
        Command::Man(args) => man::run(&context, &args),
        Command::Reference { part } => reference::run(part),
    }
}
