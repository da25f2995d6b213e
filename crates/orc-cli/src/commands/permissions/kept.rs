//! `permissions rules` and `permissions forget`: what holds for all agents, and what answers left for ever.

use orc_domain::permission::{KeptRule, Ruleset};
use orc_ports::rulebook::{Rulebook as _, RulebookError};
use serde_json::{Value, json};

use crate::args::ForgetArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, not_found, unavailable};
use crate::output::{self, Form, say};
use crate::rulebook::FileRulebook;
use crate::view::columns::{Columns, clean};

pub(crate) fn rules(context: &Context, form: Form) -> CommandResult {
    let rulebook = FileRulebook::of(context);
    let sets = rulebook.rules().map_err(unreadable)?;
    let kept = rulebook.kept().map_err(unreadable)?;
    if form != Form::Table {
        let rows: Vec<Value> = sets.iter().flat_map(rows).map(|row| row.document()).collect();
        let document = json!({ "schema": "orc/rules/1", "rules": rows, "answers": kept });
        output::document(form, &document, Some("rules"))?;
        return Ok(Exit::Success);
    }
    if sets.is_empty() {
        say("no rules hold for all agents; those of an agent are in its profile (`orchestrator agents show NAME`)");
        return Ok(Exit::Success);
    }
    let mut table = Columns::titled(&["SAYS", "RULE", "FOR", "SOURCE", "FROM"]);
    for Row { says, rule, agent, set } in sets.iter().flat_map(rows) {
        table.row([says, &clean(&rule), agent.unwrap_or("all agents"), set.source.word(), &clean(&set.file)]);
    }
    output::text(&table.text(""))?;
    if !kept.is_empty() {
        let mut table = Columns::titled(&["ANSWER", "AGENT", "RULE", "BY", "AT", "REASON"]);
        for KeptRule { agent, rule, by, at, request, reason, .. } in &kept {
            table.row([
                request.to_string().as_str(),
                agent,
                &clean(rule),
                &by.to_string(),
                &at.to_string(),
                &clean(reason),
            ]);
        }
        output::text(&format!("\n{}", table.text("")))?;
    }
    Ok(Exit::Success)
}

struct Row<'a> {
    says: &'static str,
    rule: String,
    agent: Option<&'a str>,
    set: &'a Ruleset,
}

impl Row<'_> {
    fn document(&self) -> Value {
        json!({
            "says": self.says,
            "rule": self.rule,
            "agent": self.agent,
            "source": self.set.source.word(),
            "from": self.set.file,
        })
    }
}

fn rows(set: &Ruleset) -> Vec<Row<'_>> {
    let said = &set.permissions;
    let row = |says, rule| Row { says, rule, agent: set.agent.as_deref(), set };
    let lists = [("deny", &said.deny), ("ask", &said.ask), ("allow", &said.allow)];
    let mut rows: Vec<Row<'_>> =
        lists.into_iter().flat_map(|(says, rules)| rules.iter().map(move |rule| row(says, rule.clone()))).collect();
    rows.extend(said.ceiling.map(|ceiling| row("ceiling", ceiling.word().to_owned())));
    for delegate in &said.delegate {
        let to = |rule: &String| row("delegate", format!("{rule} to {}", delegate.to));
        rows.extend(delegate.allow.iter().map(to));
    }
    rows
}

pub(crate) fn forget(context: &Context, args: &ForgetArgs) -> CommandResult {
    let rulebook = FileRulebook::of(context);
    let kept = rulebook.kept().map_err(unreadable)?;
    let meant = |rule: &&KeptRule| rule.request.to_string().ends_with(args.id.as_str());
    let found: Vec<&KeptRule> = kept.iter().filter(meant).collect();
    let rule = match found.as_slice() {
        [rule] if args.id.len() >= 6 => *rule,
        [] => {
            return Err(not_found(format!("no answer to `{}` left a rule", clean(&args.id)))
                .hint("`orchestrator permissions rules` shows what there is"));
        }
        _ => {
            return Err(Failure::new(Exit::Usage, format!("`{}` is no unique ending of six letters", clean(&args.id))));
        }
    };
    let left: Vec<KeptRule> = kept.iter().filter(|other| other.request != rule.request).cloned().collect();
    rulebook.replace(&left).map_err(unreadable)?;
    say(&format!(
        "`{}` holds no longer for the agent `{}`; runs that go on keep what they began with",
        rule.rule, rule.agent
    ));
    Ok(Exit::Success)
}

fn unreadable(error: RulebookError) -> Failure {
    unavailable("the rules that hold for all agents cannot be read or written").because(error)
}
