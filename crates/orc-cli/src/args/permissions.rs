//! What can be typed after `permissions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use orc_policy::policy::Mode;

use super::examples;
use crate::output::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsCommand {
    /// Every part of a call, the rules that meet it, and what comes of it
    #[command(after_help = examples::PERMISSIONS_EXPLAIN)]
    Explain(JudgeArgs),
    /// Judge the rows of a file, and say of each whether what must come of it came of it
    #[command(after_help = examples::PERMISSIONS_TEST)]
    Test(TestArgs),
    /// Rules that never fire, are covered by others, or mean more than they look; or what is known without any rule
    #[command(after_help = examples::PERMISSIONS_LINT)]
    Lint(LintArgs),
    /// Rules that hold for all agents, and those that answers left for ever, with where they come from
    Rules(OutputArgs),
    /// Take back a rule that an answer left for ever
    Forget(ForgetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ForgetArgs {
    /// The request that was answered, as `permissions rules` names it, or a unique ending of it
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// A file with a row of JSON on each line; `-` is standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Rules that are typed.
#[derive(Debug, Default, Args)]
pub(crate) struct RuleArgs {
    /// A rule for calls that run without a question; may be given several times
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// A rule for calls that somebody is asked about; may be given several times
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,
    /// A rule for calls that never run; may be given several times
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// The call, in single quotes: 'Bash(npm test)', 'Read(src/a.rs)', or a tool with its input as JSON
    pub(crate) call: String,
    /// What happens to calls that no rule settles [default: default]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<Mode>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// The directory that the call is made in [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// A file as `permissions test` takes it: the rules of each row; `-` is standard input
    #[arg(conflicts_with_all = ["allow", "ask", "deny"])]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) rules: RuleArgs,
    /// What is known about programs: which only look, which start others, which flags make more of them
    #[arg(long, conflicts_with_all = ["file", "allow", "ask", "deny", "floors"])]
    pub(crate) programs: bool,
    /// What no rule and no mode lifts
    #[arg(long, conflicts_with_all = ["file", "allow", "ask", "deny"])]
    pub(crate) floors: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn mode(word: &str) -> Result<Mode, String> {
    Mode::ALL.into_iter().find(|mode| mode.word() == word).ok_or_else(|| {
        let words = Mode::ALL.map(Mode::word);
        match orc_domain::suggest::closest(word, words) {
            Some(near) => format!("there is no such mode; did you mean `{near}`?"),
            None => format!("there are {}", words.join(", ")),
        }
    })
}
