//! Everything that can be typed.

mod approvals;
mod costs;
mod db;
mod examples;
mod logs;
mod permissions;
mod worktrees;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use orc_domain::time::Millis;

pub(crate) use self::approvals::{AnswerArgs, ApprovalsListArgs};
pub(crate) use self::costs::{CostsArgs, FigureArgs, FigureForm};
pub(crate) use self::db::{DbCommand, RemoveArgs};
pub(crate) use self::logs::{ExportArgs, LogsArgs, ReplayArgs};
pub(crate) use self::permissions::{ForgetArgs, JudgeArgs, LintArgs, PermissionsCommand, RuleArgs, TestArgs};
pub(crate) use self::worktrees::{DoctorArgs, WorktreeArgs, WorktreeShowArgs, WorktreesCommand, WorktreesListArgs};
use crate::output::OutputArgs;

/// Runs teams of AI coding agents, and the commands around them, as durable pipelines.
#[derive(Debug, Parser)]
#[command(name = "orchestrator", bin_name = "orchestrator", version, propagate_version = true)]
#[command(disable_help_subcommand = true, after_help = examples::FIRST)]
pub(crate) struct Arguments {
    /// Directory of the database, logs and the lock [default: the platform's state directory]
    #[arg(long, global = true, env = "ORC_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Say more on standard error about what happens inside (twice: everything)
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a working example into a repository
    #[command(after_help = examples::INIT)]
    Init(InitArgs),
    /// See an agent mend a bug, in a repository made for that, without a key
    #[command(after_help = examples::DEMO)]
    Demo(DemoArgs),
    /// Run a pipeline and follow it to its end
    #[command(after_help = examples::RUN)]
    Run(RunArgs),
    /// Check pipelines, agents and settings, and report every mistake at once
    #[command(after_help = examples::VALIDATE)]
    Validate(ValidateArgs),
    /// Draw a pipeline
    #[command(after_help = examples::GRAPH)]
    Graph(GraphArgs),
    /// Print the JSON Schema of a file, for editors
    Schema(SchemaArgs),
    /// What is running, what it waits for, and what happened
    #[command(after_help = examples::STATUS)]
    Status(StatusArgs),
    /// Why something is not running, or why it ended so
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArgs),
    /// Flows: list, show, cancel, retry, resume, pause
    #[command(subcommand)]
    Flows(FlowsCommand),
    /// Runs: list, show
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Agents: list, show
    #[command(subcommand)]
    Agents(AgentsCommand),
    /// What was said to agents and by them: list, show
    #[command(subcommand)]
    Conversations(ConversationsCommand),
    /// The output of a run, or of all runs of a flow
    #[command(after_help = examples::LOGS)]
    Logs(LogsArgs),
    /// All that is known of a run, as one JSON document
    #[command(after_help = examples::EXPORT)]
    Export(ExportArgs),
    /// A recorded run of the built-in agent again, without a model; what differs is named. With `--tools` its tools too
    #[command(after_help = examples::REPLAY)]
    Replay(ReplayArgs),
    /// Ask an agent something: a flow of one step
    #[command(after_help = examples::ASK)]
    Ask(AskArgs),
    /// End a flow: TERM, grace, KILL, then its `finally`; a second time at once
    #[command(after_help = examples::CANCEL)]
    Cancel(CancelArgs),
    /// Run what failed in a finished flow again, as a new flow
    #[command(after_help = examples::RETRY)]
    Retry(RetryArgs),
    /// Carry on what a crash left, or what was paused, to its end
    #[command(after_help = examples::RESUME)]
    Resume(ResumeArgs),
    /// Let nothing more of a flow, or of one of its steps, start; `resume` lets it go on
    #[command(after_help = examples::PAUSE)]
    Pause(PauseArgs),
    /// Write to the agent of a step: the built-in one reads it while it works, others in their next run
    #[command(after_help = examples::MESSAGE)]
    Message(MessageArgs),
    /// What waits for people: list, show, approve, deny
    #[command(subcommand)]
    Approvals(ApprovalsCommand),
    /// What agents may do: explain, test, lint
    #[command(subcommand)]
    Permissions(PermissionsCommand),
    /// What went wrong in a way that a person should look at
    #[command(after_help = examples::INCIDENTS)]
    Incidents(IncidentsArgs),
    /// What calls of models used and cost, by agent, model, day and so on
    #[command(after_help = examples::COSTS)]
    Costs(CostsArgs),
    /// The model gateway alone: any program of this machine is metered, limited and recorded
    #[command(after_help = examples::GATEWAY)]
    Gateway(GatewayArgs),
    /// What flows that are not over may still use
    #[command(after_help = examples::BUDGETS)]
    Budgets(FigureArgs),
    /// Private copies of repositories: list, show, diff, rescue, gc
    #[command(subcommand)]
    Worktrees(WorktreesCommand),
    /// Check this machine
    #[command(after_help = examples::DOCTOR)]
    Doctor(DoctorArgs),
    /// The database: check, backup, migrate, vacuum, retention
    #[command(subcommand)]
    Db(DbCommand),
    /// The settings in force, and where they come from
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print completions for a shell
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write all of them
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
    /// Print a part of the reference as Markdown
    #[command(hide = true)]
    Reference {
        /// Which part
        part: ReferencePart,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page for each command into this directory, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where [default: here]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A file, or the name of one in `pipelines/`
    pub(crate) pipeline: String,
    /// An input of the pipeline; may be given several times
    #[arg(long = "input", short, value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Start nothing: show what would run, in which order, with which rights, and how long it may take
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Added to the priority of each step, from -100 to 100; a point is worth five minutes of waiting
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-100..=100))]
    pub(crate) priority: i16,
    /// While it runs, show all that its steps print and what its agents do
    #[arg(long)]
    pub(crate) logs: bool,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Let this model do it instead of a script, such as `claude-sonnet-4-5` or `gpt-5`; its provider's key must be set
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The agent, as `orchestrator agents list` names it
    pub(crate) agent: String,
    /// What to ask
    #[arg(required = true)]
    pub(crate) question: Vec<String>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Settings that can be given on the command line.
#[derive(Debug, Default, Args)]
pub(crate) struct LimitArgs {
    /// How many runs may go on at the same time [default: `slots` of the settings]
    #[arg(long, value_name = "N")]
    pub(crate) slots: Option<String>,
    /// Time between TERM and KILL, such as `30s` [default: `cancel_grace` of the settings]
    #[arg(long, value_name = "TIME")]
    pub(crate) cancel_grace: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Files [default: `pipelines/*.yaml`, `agents/*.md` and `orchestrator.yaml`]
    pub(crate) files: Vec<PathBuf>,
    /// Form of the data on standard output
    #[arg(long, short = 'o', value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: ProblemForm,
}

/// Forms of what is wrong with files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProblemForm {
    /// For people.
    #[default]
    Table,
    /// One JSON document with a `schema`.
    Json,
    /// One JSON document per line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
    /// SARIF 2.1.0, for forges and editors.
    Sarif,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// A file, the name of one in `pipelines/`, or a flow, by id or a unique ending of it, with the states of its steps
    pub(crate) of: String,
    /// Form of the drawing
    #[arg(long, short = 'o', value_enum, default_value_t)]
    pub(crate) output: GraphForm,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum GraphForm {
    /// Mermaid, as forges draw it in Markdown
    #[default]
    Mermaid,
    /// Graphviz
    Dot,
    /// A picture that needs nothing else
    Svg,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Of which file
    #[arg(value_enum)]
    pub(crate) of: SchemaOf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SchemaOf {
    /// A pipeline
    Pipeline,
    /// The front matter of an agent profile
    Profile,
    /// A scripted model
    Model,
    /// `orchestrator.yaml`
    Settings,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// A flow or a run; any unique ending of its id with six characters or more
    pub(crate) id: Option<String>,
    /// Show it again and again; a flow or a run until it is over
    #[arg(long)]
    pub(crate) watch: bool,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, requires = "watch")]
    pub(crate) interval: Millis,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// A length of time between two looks.
fn interval(text: &str) -> Result<Millis, String> {
    let interval = Millis::parse(text).filter(|interval| *interval >= Millis::from_millis(100));
    interval.ok_or_else(|| "write a length of time of 100ms or more, such as `1s`".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// A flow or a run; any unique ending of its id with six characters or more
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A flow or a run; any unique ending of its id with six characters or more
    pub(crate) id: String,
    /// Only this step of the flow
    #[arg(long, value_name = "PATH")]
    pub(crate) step: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowsCommand {
    /// Flows, newest first
    List(FlowsListArgs),
    /// One flow with its steps
    Show(IdArgs),
    /// As `cancel`
    Cancel(CancelArgs),
    /// As `retry`
    Retry(RetryArgs),
    /// As `resume`
    Resume(ResumeArgs),
    /// As `pause`
    Pause(PauseArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FlowsListArgs {
    /// Only flows that are not finished
    #[arg(long)]
    pub(crate) live: bool,
    /// Only flows that wait for people, a time, an event or another flow, and do nothing else
    #[arg(long, conflicts_with = "queued")]
    pub(crate) waiting: bool,
    /// Only flows that wait for their concurrency group
    #[arg(long)]
    pub(crate) queued: bool,
    /// At most this many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Runs, newest first
    List(RunsListArgs),
    /// One run
    Show(IdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// Only of this flow
    #[arg(long, value_name = "ID")]
    pub(crate) flow: Option<String>,
    /// Only of this agent
    #[arg(long, value_name = "NAME", conflicts_with = "flow")]
    pub(crate) agent: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// The agents of the repository
    List(OutputArgs),
    /// One agent with its system prompt
    Show(AgentArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConversationsCommand {
    /// Conversations, one for each step of an agent, the last active first
    List(ConversationsListArgs),
    /// What was said in one, or in all of a flow, in the order of time
    Show(ConversationArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConversationsListArgs {
    /// Only of this flow, by id or a unique ending of it
    pub(crate) flow: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConversationArgs {
    /// A flow, or a run or request of the conversation, by id or a unique ending of it
    pub(crate) id: String,
    /// Only this step of the flow
    #[arg(long, value_name = "PATH")]
    pub(crate) step: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The agent's name, which is the name of its file
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// A flow, or a run of it, by id or a unique ending of it
    pub(crate) id: String,
    /// End everything at once, as a second cancel does
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// A finished flow, by id or a unique ending of it
    pub(crate) id: String,
    /// Run this step again too, with everything that depends on it
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// The port of 127.0.0.1 at which it listens; 0: one that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Dollars that all programs may spend through gateways of this data directory, since its first one
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) usd: Option<String>,
    /// The same in tokens of all classes
    #[arg(long, value_name = "COUNT")]
    pub(crate) tokens: Option<u64>,
    /// The same in calls
    #[arg(long, value_name = "COUNT")]
    pub(crate) calls: Option<u64>,
    /// What the ledger calls whoever calls
    #[arg(long, value_name = "NAME", default_value = "gateway")]
    pub(crate) agent: String,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Unfinished flows, by id or a unique ending of it
    #[arg(required_unless_present = "all")]
    pub(crate) ids: Vec<String>,
    /// Every unfinished flow
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
    /// Only this paused step of the flow goes on
    #[arg(long, value_name = "PATH", conflicts_with = "all")]
    pub(crate) step: Option<String>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// An unfinished flow, by id or a unique ending of it
    pub(crate) id: String,
    /// Only this step, with what is below it
    #[arg(long, value_name = "PATH")]
    pub(crate) step: Option<String>,
    /// Why, for whoever finds it paused
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// It goes on by itself after this time, such as `2h`
    #[arg(long = "for", value_name = "TIME", value_parser = length_of_time)]
    pub(crate) for_: Option<Millis>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MessageArgs {
    /// A run, a request, or with `--step` a flow, by id or a unique ending of it
    pub(crate) id: String,
    /// What to say
    pub(crate) text: String,
    /// The step of a flow
    #[arg(long, value_name = "PATH")]
    pub(crate) step: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// What waits for an answer, or was answered
    List(ApprovalsListArgs),
    /// One request
    Show {
        /// A request, by id or a unique ending of it
        id: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Answer yes
    Approve(AnswerArgs),
    /// Answer no
    Deny(AnswerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct IncidentsArgs {
    /// Only what is not older: `24h`, `2026-03-01T12:30:00Z` [default: 7 days]
    #[arg(long, value_name = "DURATION|TIME")]
    pub(crate) since: Option<String>,
    /// Only those that nobody has seen to
    #[arg(long)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// The settings in force
    Show {
        /// With where each value comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ReferencePart {
    /// The command line
    Cli,
    /// Exit codes
    ExitCodes,
    /// Environment variables
    Environment,
    /// Consumers of the event log
    Consumers,
    /// Keys of pipelines, agents and settings
    Keys,
}

/// A length of time as typed.
fn length_of_time(text: &str) -> Result<Millis, String> {
    Millis::parse(text).ok_or_else(|| "a length of time has its unit, as in `30s`, `2h` or `1d`".to_owned())
}
