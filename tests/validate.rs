//! `validate` and `graph` through the binary: every mistake at once, in every form, with the right exit code.

mod support;

use support::World;

const GOOD: &str = "steps:\n  build: { run: 'true' }\n  test: { needs: build, run: 'true' }\n";

#[test]
fn every_mistake_of_every_file_is_told_at_once() {
    let world = World::new();
    world.pipeline("good", GOOD);
    world.pipeline("one", "steps:\n  build: { rnu: 'true' }\n");
    world.pipeline("two", "steps:\n  a: { run: 'true', needs: b }\n  b: { run: 'true', needs: a }\n");
    world.write("orchestrator.yaml", "slots: none\n");
    let said = world.run_to(3, &["validate"]);
    assert!(said.out.contains("pipelines/one.yaml:4:12") && said.out.contains("did you mean `run`"), "{}", said.out);
    assert!(said.out.contains("pipelines/two.yaml:"), "{}", said.out);
    assert!(said.out.contains("orchestrator.yaml:1:8"), "{}", said.out);
    assert!(!said.out.contains("good.yaml"), "{}", said.out);
    assert!(!said.out.contains('\x1b'), "no terminal, no colour");
    assert!(said.err.starts_with("4 files, ") && said.err.ends_with(" errors\n"), "{}", said.err);
    let document = world.json(&["validate"]);
    assert_eq!(document["schema"], "orc/diagnostics/1");
    let errors = document["diagnostics"].as_array().unwrap();
    assert_eq!(said.err, format!("4 files, {} errors\n", errors.len()));
    assert!(errors.iter().all(|error| error["line"].is_u64() && error["file"].is_string()));
    let lines = world.run_to(3, &["validate", "--output", "jsonl"]).out;
    assert_eq!(lines.lines().count(), errors.len());
    let log = world.run_to(3, &["validate", "--output", "sarif"]).out;
    let log: serde_json::Value = serde_json::from_str(&log).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), errors.len());
    let uri = &results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(uri, "pipelines/one.yaml");
    assert_eq!(results[0]["fixes"][0]["description"]["text"], "write `run`");
}

#[test]
fn named_files_are_checked_wherever_they_lie() {
    let world = World::new();
    world.write("elsewhere/flow.yaml", &format!("name: flow\nworktree: in_place\n{GOOD}"));
    let good = world.run_to(0, &["validate", "elsewhere/flow.yaml"]);
    assert_eq!((good.out.as_str(), good.err.as_str()), ("", "1 file, no problems\n"));
    let missing = world.run_to(4, &["validate", "elsewhere/flow.yaml", "nowhere.yaml"]);
    assert!(missing.err.contains("cannot read `nowhere.yaml`") && missing.err.contains("because: "), "{}", missing.err);
    let folder = world.run_to(4, &["validate", "elsewhere"]);
    assert!(folder.err.contains("hint: name the files in it: elsewhere/*"), "{}", folder.err);
    std::fs::write(world.repo().join("latin.yaml"), b"name: caf\xe9\n").unwrap();
    let latin = world.run_to(3, &["validate", "latin.yaml"]);
    assert!(latin.err.contains("`latin.yaml` is not UTF-8 text: byte 9 begins no character"), "{}", latin.err);
}

#[test]
fn files_that_settings_name_are_read_with_them() {
    let world = World::new();
    world.pipeline("p", "steps: { a: { run: x } }\n");
    world.write("models/good.yaml", "tracks: { any: { turns: [{ text: Hello. }] } }\n");
    world.write("models/bad.yaml", "tracks: { any: { turns: [{ txt: Hello. }] } }\n");
    world.write("tapes/none.jsonl", "no tape\n");
    world.write("prices.yaml", "models: { m: { input: -1 } }\n");
    world.write(
        "orchestrator.yaml",
        "prices: prices.yaml\nproviders:\n  a: { script: models/good.yaml }\n  b: { script: models/bad.yaml }\n  \
         c: { script: models/none.yaml }\n  d: { cassette: tapes/none.jsonl }\n",
    );
    let said = world.run_to(3, &["validate"]);
    for place in ["models/bad.yaml:1", "prices.yaml:1", "orchestrator.yaml:5:16", "orchestrator.yaml:6:18"] {
        assert!(said.out.contains(place), "{place}: {}{}", said.out, said.err);
    }
    assert!(!said.out.contains("models/good.yaml"), "{}", said.out);
}

#[test]
fn no_pipelines_is_an_error_with_a_way_out() {
    let world = World::new();
    let said = world.run_to(4, &["validate"]);
    assert_eq!(said.out, "");
    assert!(
        said.err.contains("there are no pipelines") && said.err.contains("hint: `orchestrator init`"),
        "{}",
        said.err
    );
}

#[test]
fn a_pipeline_is_drawn_or_its_mistakes_are_told() {
    let world = World::new();
    world.pipeline("ship", GOOD);
    world.pipeline("broken", "steps: {}\nsteps: {}\n");
    let mermaid = world.run_to(0, &["graph", "ship"]);
    assert!(mermaid.out.starts_with("flowchart TD\n") && mermaid.out.contains("-->"), "{}", mermaid.out);
    let dot = world.run_to(0, &["graph", "pipelines/ship.yaml", "--output", "dot"]);
    assert!(dot.out.starts_with("digraph") && dot.out.contains("->"), "{}", dot.out);
    let svg = world.run_to(0, &["graph", "ship", "--output", "svg"]).out;
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("<g class=\"step\">"), "{svg}");
    let broken = world.run_to(3, &["graph", "broken"]);
    assert!(broken.out.is_empty() && broken.err.contains("pipelines/broken.yaml:4:1"), "{}", broken.err);
    let close = world.run_to(4, &["graph", "shpi"]);
    assert!(close.err.contains("hint: did you mean `ship`?"), "{}", close.err);
}
