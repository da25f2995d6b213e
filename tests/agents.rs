//! `agents list|show`, and agents in `validate` and `schema`, through the binary.

mod support;

use support::World;

const CODER: &str = "\
---
name: coder
description: Writes code.
adapter: command
command: [agent, --stdin]
silence_timeout: 20m
max_concurrent: 2
env: { LEVEL: '3' }
output: { schema: schemas/result.json }
---
You write code.

Keep it small.
";

fn world() -> World {
    let world = World::new();
    world.write("agents/coder.md", CODER);
    world.write("agents/README.md", "# Agents\nNot one of them.\n");
    world.write(
        "agents/reviewer.md",
        "---\r\nadapter: command\r\ncommand: review\r\nmode: review\r\n---\r\nYou read.\r\n",
    );
    world.write("schemas/result.json", r#"{ "type": "object", "required": ["summary"] }"#);
    world
}

#[test]
fn agents_are_listed_in_every_form() {
    let world = world();
    let table = world.run_to(0, &["agents", "list"]);
    let wanted = "\
AGENT     ADAPTER  MODE    SILENCE  AT ONCE  DESCRIPTION
coder     command  work    20m      2        Writes code.
reviewer  command  review  10m      any      -
";
    assert_eq!((table.out.as_str(), table.err.as_str()), (wanted, ""));
    let document = world.json(&["agents", "list"]);
    assert_eq!(document["schema"], "orc/agents/1");
    let agents = document["agents"].as_array().unwrap();
    assert_eq!((agents[0]["name"].as_str(), agents[1]["file"].as_str()), (Some("coder"), Some("agents/reviewer.md")));
    assert_eq!(world.run_to(0, &["agents", "list", "--output", "jsonl"]).out.lines().count(), 2);
    assert!(world.run_to(0, &["agents", "list", "--output", "yaml"]).out.contains("\"name\": \"reviewer\""));
}

#[test]
fn an_agent_is_shown_with_all_that_is_known_of_it() {
    let world = world();
    let shown = world.run_to(0, &["agents", "show", "coder"]).out;
    for part in [
        "file         agents/coder.md\n",
        "command      [\"agent\",\"--stdin\"]\n",
        "env          LEVEL=3\n",
        "output       {\"required\":[\"summary\"],\"type\":\"object\"}\n",
        "\nYou write code.\n\nKeep it small.\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let document = world.json(&["agents", "show", "coder"]);
    assert_eq!((document["schema"].as_str(), document["hash"].as_str().map(str::len)), (Some("orc/agent/1"), Some(64)));
    assert_eq!(document["output"]["required"][0], "summary");
    assert_eq!(document["silence_timeout_ms"], 1_200_000);
    let before = document["hash"].clone();
    world.write("agents/coder.md", &CODER.replace('\n', "\r\n"));
    assert_eq!(world.json(&["agents", "show", "coder"])["hash"], before, "line ends change nothing");
    world.write("schemas/result.json", r#"{ "type": "object" }"#);
    assert_ne!(world.json(&["agents", "show", "coder"])["hash"], before, "a schema is part of it");
    let close = world.run_to(4, &["agents", "show", "codre"]);
    assert!(close.err.contains("did you mean `coder`?"), "{}", close.err);
    let other = world.run_to(4, &["agents", "show", "zzz"]);
    assert!(other.err.contains("hint: there are: coder, reviewer"), "{}", other.err);
}

#[test]
fn an_agent_with_mistakes_is_told_of_and_does_not_hide_others() {
    let world = world();
    world.write("agents/broken.md", "---\nadapter: command\neffort: high\n---\nYou.\n");
    let listed = world.run_to(0, &["agents", "list"]);
    assert!(listed.out.contains("broken    -        -       -        -        errors: 2\n"), "{}", listed.out);
    assert!(listed.out.contains("\ncoder ") && listed.err.starts_with("agents/broken.md: it cannot be used;"));
    let shown = world.run_to(3, &["agents", "show", "broken"]);
    assert!(shown.out.is_empty() && shown.err.contains("agents/broken.md:3:1"), "{}", shown.err);
    assert!(shown.err.contains("`adapter: command` cannot honour `effort`"), "{}", shown.err);
}

#[test]
fn validate_checks_agents_by_name_and_by_default() {
    let world = world();
    let alone = world.run_to(0, &["validate"]);
    assert_eq!((alone.out.as_str(), alone.err.as_str()), ("", "2 files, no problems\n"));
    world.pipeline("good", "steps:\n  build: { run: 'true' }\n");
    world.write("agents/Coder.md", "no front matter");
    world.write(
        "agents/lost.md",
        "---\nadapter: command\ncommand: [a]\noutput: { schema: schemas/none.json }\n---\nx\n",
    );
    let said = world.run_to(3, &["validate"]);
    assert!(said.out.contains("agents/Coder.md:1:1") && said.out.contains("error[front_matter]"), "{}", said.out);
    assert!(said.out.contains("agents/lost.md:4:19") && said.out.contains("No such file"), "{}", said.out);
    assert!(said.out.contains("error[duplicate_name]"), "{}", said.out);
    assert!(said.err.starts_with("5 files, "), "{}", said.err);
    let one = world.run_to(0, &["validate", "agents/coder.md"]);
    assert_eq!(one.err, "1 file, no problems\n");
}

#[test]
fn no_agents_is_no_error() {
    let world = World::new();
    let said = world.run_to(0, &["agents", "list"]);
    assert!(said.out.is_empty() && said.err.starts_with("there are no agents: `"), "{}", said.err);
    let shown = world.run_to(4, &["agents", "show", "coder"]);
    assert!(shown.err.contains("hint: an agent is a file `agents/NAME.md`"), "{}", shown.err);
}

#[test]
fn the_schema_of_profiles_is_printed() {
    let world = World::new();
    let schema: serde_json::Value = serde_json::from_str(&world.run_to(0, &["schema", "profile"]).out).unwrap();
    assert_eq!(schema["required"], serde_json::Value::Null, "the built-in agent is what is meant without `adapter`");
    let effort = schema["properties"]["effort"]["description"].as_str().unwrap();
    assert!(effort.ends_with("Only with `adapter: built-in`."), "{effort}");
}
