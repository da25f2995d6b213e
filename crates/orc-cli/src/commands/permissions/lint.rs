//! `permissions lint`: what is the matter with rules, and the lists that hold without any.

use orc_policy::lint::{Finding, Written, lint};
use orc_policy::verdict::{Source, Verdict};
use serde_json::{Value, json};

use super::{known, test, typed};
use crate::args::LintArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::{CommandResult, Failure, invalid};
use crate::output::{self, Form, say};
use crate::view::columns::clean;

/// Rules that hold together, with the name of the row that they stand in.
type List = (Option<String>, Vec<Written>);

pub(crate) fn run(context: &Context, args: &LintArgs) -> CommandResult {
    if args.programs {
        return known::programs(args.output.output);
    }
    if args.floors {
        return known::floors(args.output.output);
    }
    let lists = lists(context, args)?;
    let rules: usize = lists.iter().map(|(_, list)| list.len()).sum();
    let found: Vec<(&Option<String>, Finding)> =
        lists.iter().flat_map(|(row, list)| lint(list).into_iter().map(move |finding| (row, finding))).collect();
    if args.output.output == Form::Table {
        for (row, finding) in &found {
            output::text(&words(row.as_deref(), finding))?;
        }
    } else {
        let findings: Vec<Value> = found.iter().map(|(row, finding)| document(row.as_deref(), finding)).collect();
        output::document(
            args.output.output,
            &json!({ "schema": "orc/lint/1", "rules": rules, "findings": findings }),
            Some("findings"),
        )?;
    }
    let broken = found.iter().filter(|(_, finding)| finding.kind.is_error()).count();
    let counted = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    say(&format!(
        "{}, {}, {}",
        counted(rules, "rule"),
        counted(broken, "error"),
        counted(found.len() - broken, "warning")
    ));
    Ok(if broken == 0 { Exit::Success } else { Exit::Invalid })
}

fn lists(context: &Context, args: &LintArgs) -> CommandResult<Vec<List>> {
    let base = context.root.display().to_string();
    let written =
        |says: Verdict, text: &String, source| Written { says, text: text.clone(), source, base: base.clone() };
    let Some(file) = &args.file else {
        let typed = typed(&args.rules).into_iter();
        let list: Vec<Written> = typed
            .flat_map(|(says, texts)| texts.iter().map(move |text| (says, text)))
            .map(|(says, text)| written(says, text, Source::CommandLine))
            .collect();
        if list.is_empty() {
            return Err(Failure::new(Exit::Usage, "no rule is named").hint(
                "name a file, or rules with --allow, --ask and --deny; `--programs` and `--floors` show what is known",
            ));
        }
        return Ok(vec![(None, list)]);
    };
    let (name, bytes) = test::bytes(context, file)?;
    let mut lists = Vec::new();
    for (place, line) in test::lines(&name, &bytes) {
        let row = test::row(line).map_err(|no_row| invalid(format!("{place}: {}", no_row.why)))?;
        let lists_of =
            [(Verdict::Deny, &row.rules.deny), (Verdict::Ask, &row.rules.ask), (Verdict::Allow, &row.rules.allow)];
        let list = lists_of.into_iter().flat_map(|(says, texts)| texts.iter().map(move |text| (says, text)));
        let list = list.map(|(says, text)| written(says, text, Source::Project)).collect();
        lists.push((Some(row.id), list));
    }
    Ok(lists)
}

fn words(row: Option<&str>, finding: &Finding) -> String {
    let level = if finding.kind.is_error() { "error" } else { "warning" };
    let row = row.map_or_else(String::new, |row| format!("{}: ", clean(row)));
    format!(
        "{level}[{}]: {row}{} `{}` ({}): {}\n  hint: {}\n",
        finding.kind.word(),
        finding.says.word(),
        clean(&finding.rule),
        finding.source.word(),
        clean(&finding.what),
        clean(&finding.hint)
    )
}

fn document(row: Option<&str>, finding: &Finding) -> Value {
    let mut document = json!(finding);
    document["row"] = json!(row);
    document
}
