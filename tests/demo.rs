//! `orchestrator demo`, which is the first thing that people see: the built-in agent mends a bug, asked of a script here and
//! over the wire as real providers are. Nothing leaves this machine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;

use self::support::{Gate, Running, World, git, lines, start_held, until};

/// What must stand in a text, in this order.
fn in_order(text: &str, wanted: &[&str]) {
    let mut rest = text;
    for part in wanted {
        let found = rest.find(part);
        assert!(found.is_some(), "`{part}` is not there, or not in its place:\n{text}");
        rest = &rest[found.unwrap_or_default() + part.len()..];
    }
}

/// The sum of all that was spent, by model.
fn spent(world: &World) -> Vec<(String, u64, u64)> {
    let costs = world.json(&["costs", "--by", "model"]);
    let figure = |line: &Value, name: &str| line[name].as_u64().unwrap();
    let lines = costs["lines"].as_array().unwrap().iter();
    lines
        .map(|line| {
            (line["model"].as_str().unwrap().to_owned(), figure(line, "calls"), figure(line, "cost_usd_micros"))
        })
        .collect()
}

#[test]
fn a_bug_is_mended_before_ones_eyes_and_it_is_said_that_a_script_took_the_place_of_a_model() {
    let world = World::new();
    let said = world.run_to(0, &["demo"]);
    let transcript = [
        "An agent mends a bug",
        "The model is a script: what it says was written beforehand",
        "before | FAILED: the total is 865, and should be 1500\n",
        "fix    ** agent fixer runs\n",
        "Glob **/*.sh\n",
        "Bash: sh test.sh\n",
        "FAILED: the total is 865, and should be 1500\n",
        "Grep ",
        "Read src/cart.sh\n",
        "thinks: 350 + 95 + 420 is 865",
        "Edit src/cart.sh\n",
        "Bash: sh test.sh\n",
        "ok: the total is 1500\n",
        "says: Mended.",
        "after  | ok: the total is 1500\n",
        "change | -        sum=$((sum + price))\n",
        "change | +        sum=$((sum + quantity * price))\n",
        "change ** succeeded",
    ];
    in_order(&said.err, &transcript);
    let result = ["demo succeeded", "calls of models: $0.0", ", 6 calls, ", "The model was a script, not a real one"];
    in_order(&said.out, &result);

    // What is shown is what happened.
    let [(model, calls, micros)] = &spent(&world)[..] else { unreachable!("one model is asked: {:?}", spent(&world)) };
    assert_eq!((model.as_str(), *calls), ("scripted", 6));
    let dollars = format!("calls of models: $0.{micros:06}");
    assert!(said.out.contains(dollars.trim_end_matches('0')), "{dollars}\n{}", said.out);
    let flow = world.json(&["flows", "show", &world.flow_of("demo").unwrap()]);
    let made = &flow["made"][0];
    let (store, text) = (PathBuf::from(made["store"].as_str().unwrap()), |key: &str| made[key].as_str().unwrap());
    assert_eq!(git(&store, &["diff", "--name-only", text("base"), text("reference")]), "src/cart.sh");

    // It can be replayed.
    let runs =
        world.json(&["runs", "list", "--flow", &world.flow_of("demo").unwrap()])["runs"].as_array().unwrap().clone();
    let run = runs.iter().find(|run| run["step"] == "fix").unwrap()["id"].as_str().unwrap();
    assert!(world.run_to(0, &["replay", run]).out.contains("6 questions"));

    // Nothing else was touched, and it can be seen again.
    let root = world.data().join("demo");
    assert_eq!(git(&root, &["status", "--porcelain"]), "");
    assert!(std::fs::read_to_string(root.join("src/cart.sh")).unwrap().contains("sum=$((sum + price))"));
    let others = std::fs::read_dir(world.repo()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(others.collect::<Vec<_>>(), ["pipelines"]);
    std::fs::write(root.join("left.txt"), "by somebody who looked\n").unwrap();
    world.run_to(0, &["demo"]);
    assert!(!root.join("left.txt").exists());
    assert_eq!(git(&root, &["rev-parse", "HEAD"]), text("base"), "the repository is the same each time");
}

#[test]
fn its_workspace_is_as_it_should_be() {
    let world = World::new();
    let output = world.command(&["validate"]).current_dir(workspace()).output().unwrap();
    let said = support::said(&output);
    assert_eq!((said.code, said.err.as_str()), (Some(0), "5 files, no problems\n"), "{}", said.out);
}

#[test]
fn a_real_model_without_its_key_is_an_error_that_names_the_variable() {
    let world = World::new();
    let cases = [
        ("claude-sonnet-4-5", "anthropic", "ANTHROPIC_API_KEY"),
        ("gpt-5", "openai", "OPENAI_API_KEY"),
        ("a: [", "openai", "OPENAI_API_KEY"),
    ];
    for (model, provider, variable) in cases {
        let said = world.run_to(8, &["demo", "--model", model]);
        let wanted = format!(
            "error: `{model}` is asked of the provider `{provider}`, which has no key: the variable {variable} "
        );
        assert!(said.err.starts_with(&wanted), "{}", said.err);
        assert!(said.err.contains("\nhint: without `--model` a script takes the place"), "{}", said.err);
        assert_eq!(said.out, "");
    }
    assert!(!world.data().join("orchestrator.db").exists(), "nothing was started");
}

#[test]
fn where_somebody_else_carries_flows_on_it_asks_for_a_place_of_its_own() {
    let world = World::new();
    world.pipeline("long", "steps:\n  wait: { run: 'echo >> started; read line < gate' }\n");
    let mut gate = Gate::new(&world);
    let running = start_held(&world, &["run", "long"]);
    let said = world.run_to(5, &["demo"]);
    assert!(said.err.contains("`orchestrator demo --data DIR`"), "{}", said.err);
    assert!(!world.data().join("demo").exists());
    world.run_to(0, &["demo", "--data", world.path().join("own").to_str().unwrap()]);
    gate.open();
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn logs_while_it_runs_are_for_people() {
    let world = World::new();
    world.pipeline("two", "steps:\n  say: { run: 'echo one; printf two' }\n  more: { needs: say, run: 'exit 3' }\n");
    let said = world.run_to(1, &["run", "two", "--logs"]);
    let wanted = ["say  ** runs\n", "say  | one\nsay  | two\n", "say  ** succeeded", "more ** runs\n", "exit code 3"];
    in_order(&said.err, &wanted);
    let said = world.run_to(2, &["run", "two", "--logs", "--output", "json"]);
    assert!(said.err.contains("orchestrator logs FLOW --output jsonl"), "{}", said.err);
}

/// Where the demonstration is written.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pipelines/demo").canonicalize().unwrap()
}

/// Something that answers over the wire as real providers do: a gateway of another place, with the scripted model.
fn provider(place: &World) -> (Running, String, String) {
    let script = std::fs::read_to_string(workspace().join("models/fixer.yaml")).unwrap();
    place.write("models/fixer.yaml", &script);
    place.write("orchestrator.yaml", "providers: { script: { script: models/fixer.yaml } }\n");
    let file = place.path().join("variables");
    let running = place.start_into(&file, &["gateway", "--usd", "20"]);
    let variable = |name: &str| {
        let prefix = format!("export {name}=");
        lines(&file).iter().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
    };
    until("it listens", || variable("OPENAI_API_KEY").is_some());
    (running, variable("ANTHROPIC_BASE_URL").unwrap(), variable("ANTHROPIC_API_KEY").unwrap())
}

#[test]
fn over_the_wire_both_kinds_of_providers_are_asked_for_the_same() {
    let (place, world) = (World::new(), World::new());
    let (_running, address, key) = provider(&place);
    let settings = format!(
        "providers:\n  anthropic: {{ models: ['claude-*'], base_url: '{address}' }}\n  openai: {{ base_url: '{address}/v1' }}\n"
    );
    for (name, text) in files(&workspace()) {
        world.write(&name, &text);
    }
    world.write("orchestrator.yaml", &settings);
    let profile = std::fs::read_to_string(workspace().join("agents/fixer.md")).unwrap();
    for (model, variable) in [("claude-sonnet-4-5", "ANTHROPIC_API_KEY"), ("gpt-5", "OPENAI_API_KEY")] {
        world.write("agents/fixer.md", &profile.replace("model: scripted", &format!("model: {model}")));
        world.commit();
        let mut command = world.command(&["run", "demo", "--logs"]);
        let said = support::said(&command.env(variable, &key).output().unwrap());
        assert_eq!(said.code, Some(0), "--- stdout\n{}\n--- stderr\n{}", said.out, said.err);
        in_order(&said.err, &["thinks: 350 + 95", "Edit src/cart.sh\n", "after  | ok: the total is 1500\n"]);
        assert!(said.out.contains(", 6 calls, "), "{}", said.out);
    }
    let models: Vec<(String, u64)> = spent(&world).into_iter().map(|(model, calls, _)| (model, calls)).collect();
    assert_eq!(models.len(), 2);
    assert!(models.iter().all(|(_, calls)| *calls == 6), "{models:?}");
    // Both ends counted the same.
    assert_eq!(spent(&world), spent(&place));
}

/// Files of a folder, with their names below it.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let (path, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name().into_string().unwrap());
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(below, text)| (format!("{name}/{below}"), text)));
        } else {
            found.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
    found
}
