//! `reference`: parts of the reference as Markdown, made from what the program itself uses.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use orc_adapters::environment::VARIABLES as AGENT;
use orc_runtime::CONSUMERS;
use orc_spec::keys::tables;
use orc_spec::settings::ALWAYS_PASSED;

use crate::args::{Arguments, ReferencePart};
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::host::{GIVEN, READ};
use crate::output;

pub(crate) fn run(part: ReferencePart) -> CommandResult {
    let text = match part {
        ReferencePart::Cli => command_line(),
        ReferencePart::ExitCodes => exit_codes(),
        ReferencePart::Environment => environment(),
        ReferencePart::Consumers => consumers(),
        ReferencePart::Keys => keys(),
    };
    output::text(&text)?;
    Ok(Exit::Success)
}

fn command_line() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut text = String::from("# Command line\n\n");
    let _ = writeln!(text, "{}\n\nOptions of every command:\n", sentence(&command));
    let (common, _): (Vec<&Arg>, Vec<&Arg>) = command.get_arguments().partition(|arg| arg.is_global_set());
    arguments(&mut text, &common);
    for sub in visible(&command) {
        describe(&mut text, sub, "orchestrator", &common);
    }
    text
}

fn describe(text: &mut String, command: &Command, parent: &str, common: &[&Arg]) {
    let path = format!("{parent} {}", command.get_name());
    if command.has_subcommands() {
        for sub in visible(command) {
            describe(text, sub, &path, common);
        }
        return;
    }
    let is_common = |arg: &&Arg| common.iter().any(|common| common.get_id() == arg.get_id());
    let is_ours =
        |arg: &&Arg| !is_common(arg) && !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let own: Vec<&Arg> = command.get_arguments().filter(is_ours).collect();
    let positionals = own.iter().filter(|arg| arg.is_positional());
    let usage: Vec<String> = positionals.map(|arg| placeholder(arg)).collect();
    let options = if own.iter().any(|arg| !arg.is_positional()) { " [OPTIONS]" } else { "" };
    let usage = if usage.is_empty() { String::new() } else { format!(" {}", usage.join(" ")) };
    let _ = writeln!(text, "\n## `{path}`\n\n{}\n\n```\n{path}{options}{usage}\n```", sentence(command));
    if !own.is_empty() {
        text.push('\n');
        arguments(text, &own);
    }
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

fn sentence(command: &Command) -> String {
    command.get_about().map_or_else(String::new, |about| format!("{about}."))
}

fn placeholder(arg: &Arg) -> String {
    let name = arg.get_id().as_str().to_uppercase();
    let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    let name = if many { format!("{name}...") } else { name };
    if arg.is_required_set() { format!("<{name}>") } else { format!("[{name}]") }
}

fn arguments(text: &mut String, args: &[&Arg]) {
    text.push_str("| argument | meaning | values | default |\n|---|---|---|---|\n");
    for arg in args {
        let takes = arg.get_action().takes_values();
        let value = arg.get_value_names().and_then(<[_]>::first).filter(|_| takes);
        let value = value.map_or_else(String::new, |value| format!(" {value}"));
        let name = match (arg.get_long(), arg.get_short()) {
            (Some(long), Some(short)) => format!("`--{long}{value}`, `-{short}{value}`"),
            (Some(long), None) => format!("`--{long}{value}`"),
            _ => format!("`{}`", placeholder(arg)),
        };
        let help = arg.get_help().map_or_else(String::new, ToString::to_string);
        let values: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| takes && !value.is_hide_set())
            .map(|value| match value.get_help() {
                Some(help) => format!("`{}` ({help})", value.get_name()),
                None => format!("`{}`", value.get_name()),
            })
            .collect();
        let defaults = arg.get_default_values().iter().filter(|_| takes);
        let defaults: Vec<String> = defaults.map(|value| format!("`{}`", value.to_string_lossy())).collect();
        let help = cell(&help);
        let _ = writeln!(text, "| {name} | {help} | {} | {} |", cell(&values.join(", ")), defaults.join(", "));
    }
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn exit_codes() -> String {
    let mut text = String::from("# Exit codes\n\n| code | meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | {} |", exit.code(), exit.meaning());
    }
    text
}

fn environment() -> String {
    let mut text = String::from("# Environment variables\n\n## Read by the program\n\n");
    variables(&mut text, READ);
    text.push_str("\n## Given to every step\n\n");
    variables(&mut text, GIVEN);
    text.push_str("\n## Given to agents as well\n\n");
    let more: Vec<(&str, &str)> =
        AGENT.into_iter().filter(|(name, _)| GIVEN.iter().all(|(given, _)| given != name)).collect();
    variables(&mut text, &more);
    text.push_str(
        "\n## Passed on from the host\n\nA step sees these of the host's variables, if they are set, and those that \
         `pass_env:` in `orchestrator.yaml` names. Everything else is dropped.\n\n",
    );
    for name in ALWAYS_PASSED {
        let _ = writeln!(text, "- `{name}`");
    }
    text
}

fn variables(text: &mut String, rows: &[(&str, &str)]) {
    text.push_str("| variable | meaning |\n|---|---|\n");
    for (name, meaning) in rows {
        let _ = writeln!(text, "| `{name}` | {} |", cell(meaning));
    }
}

fn consumers() -> String {
    let mut text = String::from(
        "# Consumers of the event log\n\nEach has its own durable place in the log. What is not listed does not run.\n\n\
         | consumer | events | what it does |\n|---|---|---|\n",
    );
    for row in CONSUMERS {
        let kinds: Vec<String> = row.kinds.iter().map(|kind| format!("`{kind}`")).collect();
        let _ = writeln!(text, "| `{}` | {} | {} |", row.name, kinds.join(", "), cell(row.what));
    }
    text
}

fn keys() -> String {
    let mut text = String::from(
        "# Keys\n\nEverything that may be written in a pipeline, an agent profile, a scripted model and `orchestrator.yaml`.\n",
    );
    for (place, table) in tables() {
        let _ = writeln!(text, "\n## `{place}`\n\n| key | takes | meaning |\n|---|---|---|");
        for key in table.keys {
            let required = if table.required.contains(&key.name) { " Required." } else { "" };
            let takes = cell(&key.shape.words());
            let _ = writeln!(text, "| `{}` | {takes} | {}{required} |", key.name, cell(key.doc));
        }
    }
    text
}
