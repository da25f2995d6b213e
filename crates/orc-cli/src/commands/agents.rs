//! `agents list` and `agents show`.

use std::io::IsTerminal as _;

use orc_domain::profile::{Adapter, BuiltIn, Profile};
use serde_json::{Value, json};

use crate::agents::{AgentFile, read_agents};
use crate::args::AgentArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, invalid, not_found};
use crate::host;
use crate::output::{self, Form, OutputArgs, say};
use crate::view::columns::{Columns, clean, clean_line};

pub(crate) fn list(context: &Context, args: OutputArgs) -> CommandResult {
    let agents = read_agents(context)?;
    for agent in agents.iter().filter(|agent| agent.profile().is_none()) {
        say(&format!("{}: it cannot be used; `orchestrator validate` says why", agent.source.name));
    }
    if args.output != Form::Table {
        let agents: Vec<Value> = agents.iter().map(line_document).collect();
        output::document(args.output, &json!({ "schema": "orc/agents/1", "agents": agents }), Some("agents"))?;
        return Ok(Exit::Success);
    }
    if agents.is_empty() {
        say(&format!("there are no agents: `{}` has no .md file", context.root.join("agents").display()));
        return Ok(Exit::Success);
    }
    let mut table = Columns::titled(&["AGENT", "ADAPTER", "MODE", "SILENCE", "AT ONCE", "DESCRIPTION"]);
    for agent in &agents {
        match agent.profile() {
            Some(profile) => table.row([
                profile.name.as_str(),
                profile.adapter.word(),
                profile.mode.word(),
                &profile.silence_timeout.to_string(),
                &at_once(profile),
                &clean_line(profile.description.as_deref().unwrap_or("-"), 60),
            ]),
            None => table.row([agent.name(), "-", "-", "-", "-", &format!("errors: {}", agent.errors())]),
        }
    }
    output::text(&table.text(""))?;
    Ok(Exit::Success)
}

pub(crate) fn show(context: &Context, args: &AgentArgs) -> CommandResult {
    let agents = read_agents(context)?;
    let agent = find(&agents, &args.name)?;
    let colour = host::colour(std::io::stderr().is_terminal());
    for problem in &agent.compiled.diagnostics {
        say(&problem.render(&agent.source, colour));
    }
    let Some(profile) = agent.profile() else {
        return Err(invalid(format!("`{}` cannot be used: see the errors above", agent.source.name)));
    };
    if args.output.output == Form::Table {
        output::text(&text(agent, profile))?;
    } else {
        output::document(args.output.output, &document(agent, profile), None)?;
    }
    Ok(Exit::Success)
}

fn find<'a>(agents: &'a [AgentFile], name: &str) -> CommandResult<&'a AgentFile> {
    if let Some(found) = agents.iter().find(|agent| agent.name() == name || agent.source.name == name) {
        return Ok(found);
    }
    let failure = not_found(format!("there is no agent `{name}` in agents/"));
    let known: Vec<&str> = agents.iter().map(AgentFile::name).collect();
    Err(match orc_domain::suggest::closest(name, known.iter().copied()) {
        Some(close) => failure.hint(format!("did you mean `{close}`?")),
        None if known.is_empty() => failure.hint("an agent is a file `agents/NAME.md`"),
        None => failure.hint(format!("there are: {}", known.join(", "))),
    })
}

fn at_once(profile: &Profile) -> String {
    profile.max_concurrent.map_or_else(|| "any".to_owned(), |most| most.to_string())
}

fn text(agent: &AgentFile, profile: &Profile) -> String {
    let argv: &[String] = match &profile.adapter {
        Adapter::Command { argv } => argv,
        Adapter::BuiltIn(_) => &[],
    };
    let mut table = Columns::new();
    let mut row = |name: &str, value: &str| table.row([name, value]);
    row("agent", &profile.name);
    row("file", &agent.source.name);
    if let Some(description) = &profile.description {
        row("description", &clean_line(description, 200));
    }
    row("adapter", profile.adapter.word());
    if !argv.is_empty() {
        row("command", &json!(argv).to_string());
    }
    if let Some(model) = &profile.model {
        row("model", model);
    }
    if let Adapter::BuiltIn(built_in) = &profile.adapter {
        for (name, value) in own_rows(built_in, profile) {
            row(name, &value);
        }
    }
    if let Some(role) = &profile.role {
        row("role", role);
    }
    row("mode", profile.mode.word());
    row("silence", &profile.silence_timeout.to_string());
    row("at once", &at_once(profile));
    row("reminders", &profile.max_messages.to_string());
    for (name, value) in &profile.env {
        row("env", &format!("{name}={}", clean_line(value, 200)));
    }
    if let Some(schema) = &profile.output {
        row("output", &schema.to_string());
    }
    row("hash", &hash(profile));
    let prompt = if profile.system_prompt.is_empty() { "(no system prompt)" } else { &profile.system_prompt };
    format!("{}\n{}\n", table.text(""), clean_lines(prompt))
}

/// What only the built-in agent has.
fn own_rows(built_in: &BuiltIn, profile: &Profile) -> Vec<(&'static str, String)> {
    let schema = profile.output.as_ref();
    let tools = orc_harness::tools::of(built_in, profile.mode, schema, &built_in.workers);
    let names: Vec<String> = tools.into_iter().map(|tool| tool.offer.name).collect();
    let told = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let rows = [
        ("fallback models", Some(built_in.fallback_models.join(", "))),
        ("effort", built_in.effort.map(|effort| effort.word().to_owned())),
        (
            "permission mode",
            Some(profile.permission_mode.map_or("none: its box holds it", |mode| mode.word()).to_owned()),
        ),
        ("allows", Some(profile.permissions.allow.join(", "))),
        ("asks", Some(profile.permissions.ask.join(", "))),
        ("denies", Some(profile.permissions.deny.join(", "))),
        ("ceiling", profile.permissions.ceiling.map(|ceiling| ceiling.word().to_owned())),
        ("turns", built_in.max_turns.map(|most| format!("at most {most}"))),
        ("tools", Some(names.join(", "))),
        ("workers", Some(built_in.workers.join(", "))),
        ("memory files", Some(told(built_in.memory))),
        ("told of git", Some(told(built_in.git))),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?))).collect()
}

/// A text of several lines, without what steers a terminal.
fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

/// The hash that a flow pins.
fn hash(profile: &Profile) -> String {
    profile.content_hash().map_or_else(|error| error.to_string(), |hash| hash.to_string())
}

fn line_document(agent: &AgentFile) -> Value {
    match agent.profile() {
        Some(profile) => {
            let mut line = document(agent, profile);
            if let Some(members) = line.as_object_mut() {
                members.remove("schema");
                members.remove("system_prompt");
            }
            line
        }
        None => json!({ "name": agent.name(), "file": agent.source.name, "errors": agent.errors() }),
    }
}

/// `orc/agent/1`.
fn document(agent: &AgentFile, profile: &Profile) -> Value {
    let argv: &[String] = match &profile.adapter {
        Adapter::Command { argv } => argv,
        Adapter::BuiltIn(_) => &[],
    };
    json!({
        "schema": "orc/agent/1",
        "name": profile.name,
        "file": agent.source.name,
        "errors": agent.errors(),
        "hash": hash(profile),
        "description": profile.description,
        "adapter": profile.adapter.word(),
        "command": argv,
        "model": profile.model,
        "built_in": match &profile.adapter {
            Adapter::BuiltIn(built_in) => json!(built_in),
            Adapter::Command { .. } => Value::Null,
        },
        "role": profile.role,
        "mode": profile.mode.word(),
        "silence_timeout_ms": profile.silence_timeout,
        "max_concurrent": profile.max_concurrent,
        "max_messages": profile.max_messages,
        "env": profile.env,
        "output": profile.output,
        "system_prompt": profile.system_prompt,
    })
}
