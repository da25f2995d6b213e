//! `permissions` through the binary: rules tried out without a run.

mod support;

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use support::{World, said};

const CASES: &str = include_str!("cases/permission.jsonl");

#[test]
fn every_case_of_the_field_is_judged_as_it_must() {
    let world = World::new();
    world.write("cases.jsonl", CASES);
    let said = world.run_to(0, &["permissions", "test", "cases.jsonl", "--output", "json"]);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(document.as_object().unwrap().keys().collect::<Vec<_>>(), ["results"]);
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), CASES.lines().count());
    for result in results {
        let names: Vec<&String> = result.as_object().unwrap().keys().collect();
        assert_eq!(names, ["expected", "got", "id", "ok", "reason"]);
        assert!(result["ok"] == true && result["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{result}");
    }
    let text = world.run_to(0, &["permissions", "test", "cases.jsonl", "--output", "text"]);
    assert!(text.err.ends_with(&format!(" rows, {} ok, 0 not\n", results.len())), "{}", text.err);
    assert!(!world.data().exists(), "trying rules out makes nothing");
}

#[test]
fn a_row_that_is_none_is_named_and_hides_no_other() {
    let row = |id: &str, expected: &str| {
        let rules = json!({ "allow": ["Bash(npm test *)"] });
        json!({ "id": id, "rules": rules, "tool": "Bash", "input": { "command": "npm test" }, "expected": expected })
    };
    let mut without_tool = row("without", "ask");
    without_tool.as_object_mut().unwrap().remove("tool");
    let mut without_expected = row("nothing", "ask");
    without_expected.as_object_mut().unwrap().remove("expected");
    let mut odd = row("odd", "deny");
    odd["mode"] = "acceptEdit".into();
    let lines = format!(
        "{}\n\n{{\"id\": \n{without_tool}\n{without_expected}\n{odd}\n{}\n{}\n",
        row("first", "allow"),
        row("word", "allowed"),
        row("last", "deny")
    );
    let world = World::new();
    let mut child = world.command(&["permissions", "test", "-", "-o", "json"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let read = said(&child.wait_with_output().unwrap());
    assert_eq!(read.code, Some(1), "{}", read.err);
    let document: Value = serde_json::from_str(&read.out).unwrap();
    let found: Vec<(&str, bool, &str)> = document["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| {
            let text = |name: &str| result[name].as_str().unwrap_or_default();
            (text("id"), result["ok"].as_bool().unwrap(), text("reason"))
        })
        .collect();
    let wanted = [
        ("first", true, "`Bash(npm test *)` (project) allows it"),
        ("standard input:3", false, "standard input:3: it is no JSON: "),
        ("without", false, "standard input:4: missing field `tool`"),
        ("nothing", false, "standard input:5: missing field `expected`"),
        ("odd", false, "standard input:6: `acceptEdit` is no mode; did you mean `acceptEdits`?"),
        ("word", false, "standard input:7: `allowed` is no verdict; did you mean `allow`?"),
        ("last", false, "`Bash(npm test *)` (project) allows it"),
    ];
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(found.0 == wanted.0 && found.1 == wanted.1 && found.2.starts_with(wanted.2), "{found:?}");
    }
    let file = world.write("rows.jsonl", &lines);
    let text = world.run_to(1, &["permissions", "test", file.to_str().unwrap()]);
    assert!(text.out.lines().last().unwrap().contains("last") && text.err.ends_with("7 rows, 1 ok, 6 not\n"));
    world.write("empty.jsonl", "\n");
    assert!(world.run_to(3, &["permissions", "test", "empty.jsonl"]).err.contains("`empty.jsonl` has no row"));
    assert!(world.run_to(4, &["permissions", "test", "none.jsonl"]).err.contains("cannot read `none.jsonl`"));
}
