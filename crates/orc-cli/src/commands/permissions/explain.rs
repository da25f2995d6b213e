//! `permissions explain`: every part of a call, the rules that meet it, and what comes of it.

use orc_policy::judge::{CommandSaid, Explanation, FileSaid, HostSaid, RuleSaid};
use orc_policy::path::Around;
use orc_policy::policy::{Policy, Rules};
use orc_policy::rule::Complaint;
use orc_policy::verdict::{Ground, Obligation, Source, Verdict};
use orc_policy::view::{Call, View};
use serde_json::{Value, json};

use super::{links, typed};
use crate::args::JudgeArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, invalid};
use crate::host;
use crate::output::{self, Form};
use crate::view::columns::clean;

pub(crate) fn run(context: &Context, args: &JudgeArgs) -> CommandResult {
    let call = Call::written(&args.call).map_err(|complaint| complained("the call can't be read", complaint))?;
    let cwd = args.cwd.as_ref().map_or_else(|| context.cwd.clone(), |cwd| context.cwd.join(cwd));
    let text = |path: &std::path::Path| {
        let text = path.to_str().map(orc_policy::path::normal);
        text.ok_or_else(|| invalid(format!("`{}` is no UTF-8 text", path.display())))
    };
    let inside = cwd.starts_with(&context.root);
    let mut around = Around {
        cwd: text(&cwd)?,
        home: text(&host::home())?,
        worktree: text(if inside { &context.root } else { &cwd })?,
        ..Around::default()
    };
    let view = links::view(&call, &mut around);
    let policy = policy(args, &around)?;
    let explanation = policy.explain(&view, &around);
    if args.output.output == Form::Table {
        output::text(&words(&explanation, &policy, &around))?;
    } else {
        output::document(args.output.output, &document(&call, &view, &explanation, (&policy, &around)), None)?;
    }
    Ok(Exit::Success)
}

fn complained(what: &str, Complaint { what: why, hint }: Complaint) -> Failure {
    invalid(format!("{what}: {why}")).hint(hint)
}

fn policy(args: &JudgeArgs, around: &Around) -> CommandResult<Policy> {
    let mut rules = Rules::default();
    for (says, texts) in typed(&args.rules) {
        let broken = rules.add(says, texts, Source::CommandLine, &around.worktree);
        if let Some((text, complaint)) = broken.into_iter().next() {
            return Err(complained(&format!("the rule `{text}` can't be read"), complaint));
        }
    }
    Ok(Policy { rules, mode: args.mode.unwrap_or_default(), trusted: true, ..Policy::default() })
}

/// `orc/permission/1`.
fn document(call: &Call, view: &View, explanation: &Explanation, (policy, around): (&Policy, &Around)) -> Value {
    json!({
        "schema": "orc/permission/1",
        "tool": view.tool,
        "input": call.input,
        "mode": policy.mode.word(),
        "cwd": around.cwd,
        "worktree": around.worktree,
        "explanation": explanation,
    })
}

fn words(explanation: &Explanation, policy: &Policy, around: &Around) -> String {
    let decision = &explanation.decision;
    let mut text = format!("{}: {}\n", clean(&explanation.call), decision.word());
    text.push_str(&format!("  mode {}, in {}, class {}\n", policy.mode.word(), around.cwd, decision.class.word()));
    parts(&mut text, explanation, "");
    text.push_str("\nwhy\n");
    for reason in &decision.reasons {
        text.push_str(&format!(
            "  {:<5}  {} [{}]\n",
            reason.verdict.word(),
            clean(&reason.text),
            ground(&reason.ground)
        ));
    }
    for obligation in &decision.obligations {
        let told = match obligation {
            Obligation::Exclude { paths, .. } => format!("it leaves out what these cover: {}", paths.join(", ")),
            Obligation::RecordNested => "each call inside of it is judged and written down".to_owned(),
        };
        text.push_str(&format!("  with   {told}\n"));
    }
    text
}

fn parts(text: &mut String, explanation: &Explanation, indent: &str) {
    if let Some(why) = &explanation.unread {
        text.push_str(&format!("\n{indent}it is not read to its end: {why}\n"));
    }
    for (place, command) in explanation.commands.iter().enumerate() {
        text.push_str(&format!("\n{indent}command {}: {}\n", place + 1, clean(&command.command)));
        told(text, &of_command(command), &format!("{indent}  "));
    }
    for file in &explanation.files {
        text.push_str(&format!("\n{indent}{}\n", of_file(file)));
        told(text, &rules(&file.rules), &format!("{indent}  "));
    }
    for host in &explanation.hosts {
        text.push_str(&format!("\n{indent}{}\n", of_host(host)));
        told(text, &rules(&host.rules), &format!("{indent}  "));
    }
    if !explanation.rules.is_empty() {
        text.push_str(&format!("\n{indent}the call as a whole\n"));
        told(text, &rules(&explanation.rules), &format!("{indent}  "));
    }
    for nested in &explanation.nested {
        text.push_str(&format!("\n{indent}call inside: {}: {}\n", clean(&nested.call), nested.decision.word()));
        parts(text, nested, &format!("{indent}  "));
    }
}

fn told(text: &mut String, lines: &[String], indent: &str) {
    lines.iter().for_each(|line| text.push_str(&format!("{indent}{line}\n")));
}

fn of_command(command: &CommandSaid) -> Vec<String> {
    let mut lines = Vec::new();
    if !command.starts.is_empty() {
        let starts: Vec<String> = command.starts.iter().map(|place| (place + 1).to_string()).collect();
        lines.push(format!("starts command {}", starts.join(", ")));
    }
    lines.extend(command.opaque.map(|opaque| format!("not known: {opaque}")));
    lines.extend(command.removal.as_ref().map(|removed| format!("removes {removed}, which nothing lets pass")));
    for file in &command.files {
        lines.push(of_file(file));
        lines.extend(rules(&file.rules).into_iter().map(|line| format!("  {line}")));
    }
    for host in &command.hosts {
        lines.push(of_host(host));
        lines.extend(rules(&host.rules).into_iter().map(|line| format!("  {line}")));
    }
    lines.extend(rules(&command.rules));
    match (&command.granted, &command.missing) {
        (Some(granted), _) => lines.push(format!("may run: {}", ground(granted))),
        (None, Some(missing)) => lines.push(format!("nothing lets it run: {missing}")),
        (None, None) => {}
    }
    lines
}

fn of_file(file: &FileSaid) -> String {
    let sure = if file.certain { "" } else { ", perhaps" };
    let protected = file.protected.map_or_else(String::new, |what| format!(": it belongs to {what}"));
    format!("{} {}{sure}{protected}", file.access, clean(&file.path))
}

fn of_host(host: &HostSaid) -> String {
    format!("reach {}", host.host.as_deref().unwrap_or("a host that is known only when it runs"))
}

fn rules(rules: &[RuleSaid]) -> Vec<String> {
    let line = |said: &RuleSaid| {
        let whose = said.of.as_deref().unwrap_or(said.source.word());
        let sure = if said.certain || said.says == Verdict::Allow { "" } else { ", perhaps" };
        format!("{} `{}` ({whose}){sure}", said.says.word(), said.rule)
    };
    rules.iter().map(line).collect()
}

/// What settles something, in a few words.
fn ground(ground: &Ground) -> String {
    match ground {
        Ground::Rule { rule, source } => format!("rule `{rule}`, {}", source.word()),
        Ground::Above { rule, who } => format!("rule `{rule}` of {who}"),
        Ground::Floor { floor } => format!("floor {floor}"),
        Ground::Ceiling => "ceiling".to_owned(),
        Ground::Mode { mode } => format!("mode {mode}"),
        Ground::ReadOnly => "it only looks".to_owned(),
        Ground::Boxed => "its box".to_owned(),
        Ground::Hook => "hook".to_owned(),
        Ground::Answer => "answer".to_owned(),
        Ground::Nothing => "no rule".to_owned(),
    }
}
