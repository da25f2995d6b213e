//! Which steps of a plan reach models, and below which walls: the nearest first.

use orc_domain::action::Action;
use orc_domain::budget::Budget;
use orc_domain::graph::{Pipeline, StepSpec};
use serde_json::{Value, json};

/// A line for those steps together that ask for the same model below the same walls.
pub(super) fn rows(pipeline: &Pipeline) -> Vec<(String, String)> {
    let mut rows: Vec<(Vec<&str>, String)> = Vec::new();
    for step in &pipeline.steps {
        let Some(model) = model(pipeline, step) else { continue };
        let walls = [("of the step", step.budget), ("of the flow", pipeline.budget)];
        let walls = walls.into_iter().filter_map(|(whose, budget)| Some((whose, limits(&budget?)?)));
        let walls: Vec<String> = walls.map(|(whose, limits)| format!("{limits} {whose}")).collect();
        let below = if walls.is_empty() { "no wall".to_owned() } else { walls.join(", ") };
        let text = format!("calls `{model}` through the gateway, below {below}");
        match rows.iter_mut().find(|(_, other)| *other == text) {
            Some((steps, _)) => steps.push(&step.key),
            None => rows.push((vec![&step.key], text)),
        }
    }
    rows.into_iter().map(|(steps, text)| (steps.join(", "), text)).collect()
}

/// The same of one step, for programs; nothing for one that reaches no model.
pub(super) fn document(pipeline: &Pipeline, step: &StepSpec) -> Value {
    let Some(model) = model(pipeline, step) else { return Value::Null };
    let walls = |budget: Option<Budget>| {
        budget.filter(|budget| limits(budget).is_some()).map(|budget| {
            json!({
                "usd": budget.usd.map(|usd| usd.to_string()),
                "tokens": budget.tokens,
                "model_calls": budget.model_calls,
            })
        })
    };
    json!({ "model": model, "step": walls(step.budget), "flow": walls(pipeline.budget) })
}

fn model<'a>(pipeline: &'a Pipeline, step: &StepSpec) -> Option<&'a str> {
    let Action::Agent(agent) = &step.action else { return None };
    pipeline.agents.get(&agent.agent)?.model.as_deref()
}

/// What a budget limits at the gateway.
fn limits(budget: &Budget) -> Option<String> {
    let parts = [
        budget.usd.map(|usd| usd.to_string()),
        budget.tokens.map(|tokens| format!("{tokens} tokens")),
        budget.model_calls.map(|calls| format!("{calls} calls")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use orc_spec::{Library, SourceFile, compile};

    use super::*;

    #[test]
    fn steps_that_reach_models_say_below_which_walls() {
        let profile = "---\nadapter: command\ncommand: [x]\nmodel: m-1\n---\nWork.\n";
        let compiled =
            orc_spec::compile_profile(&SourceFile::new("agents/a.md", profile), &|_| Err(String::new()), None);
        let agents = BTreeMap::from([("a".to_owned(), compiled.profile.unwrap())]);
        let text = "budget: { usd: 5, model_calls: 200 }\nsteps:\n  a: { agent: a, prompt: x }\n  b: { agent: a, prompt: x, \
                    budget: { tokens: 9000 } }\n  c: { agent: a, prompt: x }\n  d: { run: x }\n";
        let none = |_: &str| Err(String::new());
        let broken_agents = BTreeSet::new();
        let library = Library {
            pipelines: &none,
            schemas: &none,
            agents: &agents,
            broken_agents: &broken_agents,
            people: None,
            allowance: None,
        };
        let pipeline = compile(&SourceFile::new("p.yaml", text), &library).pipeline.unwrap();
        let wanted = [
            ("a, c", "calls `m-1` through the gateway, below $5.00 and 200 calls of the flow"),
            ("b", "calls `m-1` through the gateway, below 9000 tokens of the step, $5.00 and 200 calls of the flow"),
        ];
        assert_eq!(rows(&pipeline), wanted.map(|(steps, text)| (steps.to_owned(), text.to_owned())));
        let documents: Vec<Value> = pipeline.steps.iter().map(|step| document(&pipeline, step)).collect();
        assert_eq!((&documents[1]["step"]["tokens"], &documents[1]["flow"]["usd"]), (&json!(9000), &json!("$5.00")));
        assert_eq!(documents[3], Value::Null);
        let free = Pipeline { budget: None, ..pipeline };
        assert!(rows(&free)[0].1.ends_with("below no wall"), "{:?}", rows(&free));
    }
}
