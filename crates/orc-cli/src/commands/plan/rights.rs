//! What the steps of a plan may reach: where each works, and what its box lets through.

use orc_domain::action::Action;
use orc_domain::confine::BoxRules;
use orc_domain::graph::{Pipeline, StartFrom, StepSpec};
use serde_json::{Value, json};

/// Steps that may reach the same.
pub(super) struct Group<'a> {
    pub(super) steps: Vec<&'a str>,
    pub(super) place: String,
    pub(super) reach: String,
}

/// All steps that run something, those together that may reach the same, in the order of their first.
pub(super) fn groups<'a>(pipeline: &'a Pipeline, directory: &str) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for step in pipeline.steps.iter().filter(|step| step.action.is_run()) {
        let (place, reach) = (place(pipeline, step, directory), reach(&rules(pipeline, step), step.worktree.from));
        match groups.iter_mut().find(|group| (&group.place, &group.reach) == (&place, &reach)) {
            Some(group) => group.steps.push(&step.key),
            None => groups.push(Group { steps: vec![&step.key], place, reach }),
        }
    }
    groups
}

/// The same of one step, for programs; nothing for one that runs nothing.
pub(super) fn document(pipeline: &Pipeline, step: &StepSpec) -> Value {
    let is_boxed = step.worktree.from != StartFrom::InPlace;
    let copies = matches!(step.worktree.from, StartFrom::Fresh | StartFrom::Parents);
    if !step.action.is_run() {
        return Value::Null;
    }
    json!({
        "from": step.worktree.from,
        "repositories": copies.then(|| repositories(pipeline, step)),
        "box": is_boxed.then(|| rules(pipeline, step)),
    })
}

/// Where a step works.
fn place(pipeline: &Pipeline, step: &StepSpec, directory: &str) -> String {
    let from = match step.worktree.from {
        StartFrom::InPlace => return format!("{directory} (in place: your own checkout, no box)"),
        StartFrom::None => return "an empty directory, in a box".to_owned(),
        StartFrom::Fresh => "the flow's own commits",
        StartFrom::Parents if step.needs.is_empty() => "what it is started with",
        StartFrom::Parents => "what the steps before it made",
    };
    let of = match pipeline.repositories.as_slice() {
        [] => String::new(),
        _ => format!(" in {}", repositories(pipeline, step).join(", ")),
    };
    format!("a private copy of {from}{of}, in a box")
}

/// The repositories of which it gets a copy.
fn repositories<'a>(pipeline: &'a Pipeline, step: &'a StepSpec) -> Vec<&'a str> {
    let all = || match pipeline.repositories.as_slice() {
        [] => vec!["."],
        all => all.iter().map(|one| one.path.as_str()).collect(),
    };
    let chosen = step.worktree.repositories.as_ref();
    chosen.map_or_else(all, |paths| paths.iter().map(String::as_str).collect())
}

/// What its box lets through; an agent adds what its profile says.
fn rules(pipeline: &Pipeline, step: &StepSpec) -> BoxRules {
    let agent = match &step.action {
        Action::Agent(agent) => pipeline.agents.get(&agent.agent),
        _ => None,
    };
    agent.map_or_else(|| step.rules.clone(), |profile| step.rules.with(&profile.rules))
}

fn reach(rules: &BoxRules, from: StartFrom) -> String {
    if from == StartFrom::InPlace {
        return "reaches all that you can".to_owned();
    }
    let parts = [
        ("reads", &rules.read),
        ("changes", &rules.write),
        ("keeps", &rules.cache),
        ("hosts", &rules.network),
        ("variables", &rules.env),
        ("secrets", &rules.secrets),
    ];
    let parts = parts
        .into_iter()
        .filter(|(_, entries)| !entries.is_empty())
        .map(|(word, entries)| format!("{word} {}", entries.iter().map(String::as_str).collect::<Vec<_>>().join(" ")));
    let parts = parts.collect::<Vec<_>>();
    if parts.is_empty() { "reaches nothing more, and no network".to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use orc_spec::{Library, SourceFile, compile};

    use super::*;

    #[test]
    fn steps_that_reach_the_same_stand_together() {
        let text = "worktree: { repositories: [., ../docs] }\nbox: { read: [~/.rustup], cache: [cargo], secrets: [T] }\n\
                    steps:\n  a: { run: x }\n  b: { run: x, needs: a, worktree: { repositories: [.] } }\n  c: { run: x }\n  \
                    d: { run: x, worktree: none, box: { network: [example.com] } }\n  e: { run: x, worktree: in_place }\n  \
                    f: { wait: 1s }\n";
        let pipeline = compile(&SourceFile::new("p.yaml", text), &Library::empty()).pipeline.unwrap();
        let lines = groups(&pipeline, "/repo").into_iter();
        let lines: Vec<String> =
            lines.map(|group| format!("{}: {}; {}", group.steps.join(" "), group.place, group.reach)).collect();
        let common = "reads ~/.rustup; keeps cargo";
        let wanted = [
            format!("a c: a private copy of what it is started with in ., ../docs, in a box; {common}; secrets T"),
            format!("b: a private copy of what the steps before it made in ., in a box; {common}; secrets T"),
            format!("d: an empty directory, in a box; {common}; hosts example.com; secrets T"),
            "e: /repo (in place: your own checkout, no box); reaches all that you can".to_owned(),
        ];
        assert_eq!(lines, wanted);
        let of = |at: usize| document(&pipeline, &pipeline.steps[at]);
        assert_eq!(of(1)["repositories"], json!(["."]));
        assert_eq!((&of(3)["repositories"], &of(3)["box"]["network"]), (&Value::Null, &json!(["example.com"])));
        assert_eq!((&of(4)["from"], &of(4)["box"], of(5)), (&json!("in_place"), &Value::Null, Value::Null));
        let bare = compile(&SourceFile::new("p.yaml", "steps: { a: { run: x } }"), &Library::empty()).pipeline.unwrap();
        assert_eq!(groups(&bare, "/repo")[0].reach, "reaches nothing more, and no network");
    }
}
