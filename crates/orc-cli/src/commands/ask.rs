//! `ask`: one question to one agent, as a flow of one step: it has an id, a log, a cost and a result like any other.

use orc_spec::SourceFile;

use super::run::start;
use crate::args::{AskArgs, RuleArgs, RunArgs};
use crate::context::Context;
use crate::failure::{CommandResult, Failure};

pub(crate) async fn run(context: &Context, args: AskArgs) -> CommandResult {
    let AskArgs { agent, question, limits, output } = args;
    let is_name = |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'));
    if !is_name(&agent) {
        return Err(Failure::new(crate::exit::Exit::Usage, format!("`{agent}` cannot be the name of an agent"))
            .hint("`orchestrator agents list` lists those that there are"));
    }
    let question = question.join(" ");
    if question.trim().is_empty() {
        return Err(Failure::new(crate::exit::Exit::Usage, "the question is empty"));
    }
    // What is asked reaches it as an input: no text of anybody becomes part of a definition.
    let text = format!(
        "name: ask\ninputs:\n  question: {{ type: string }}\nsteps:\n  answer:\n    agent: {agent}\n    prompt: ${{{{ inputs.question }}}}\n"
    );
    let source = SourceFile::new("ask", text);
    let inputs = vec![format!("question={question}")];
    let run = RunArgs {
        pipeline: "ask".to_owned(),
        inputs,
        dry_run: false,
        priority: 0,
        logs: false,
        rules: RuleArgs::default(),
        limits,
        output,
    };
    start(context, run, source).await
}
