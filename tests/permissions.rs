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

#[test]
fn every_part_of_a_call_is_explained() {
    let world = World::new();
    world.commit();
    let rules = ["--allow", "Bash(npm test *)", "--deny", "Bash(rm *)", "--ask", "Edit(out.txt)"];
    let call = "Bash(sudo rm -rf build && npm test > out.txt)";
    let said = world.run_to(0, &[&["permissions", "explain"][..], &rules, &["--", call]].concat());
    let lines: Vec<&str> = said.out.lines().map(str::trim).collect();
    assert_eq!(lines[0], format!("{call}: deny"), "{}", said.out);
    for line in [
        "command 1: sudo rm -rf build",
        "starts command 2",
        "command 2: rm -rf build",
        "deny `Bash(rm *)` (command line)",
        "ask `Edit(out.txt)` (command line)",
        "allow `Bash(npm test *)` (command line)",
        "deny   `Bash(rm *)` (command line) denies rm -rf build [rule `Bash(rm *)`, command line]",
    ] {
        assert!(lines.contains(&line), "{line}: {}", said.out);
    }
    let document = world.json(&[&["permissions", "explain"][..], &rules, &[call]].concat());
    assert_eq!(document["schema"], "orc/permission/1");
    let explanation = &document["explanation"];
    assert_eq!(explanation["decision"]["verdict"], "deny");
    assert_eq!(explanation["commands"][0]["starts"], json!([1]));
    assert_eq!(explanation["commands"][1]["rules"][0]["rule"], "Bash(rm *)");
    assert_eq!(explanation["commands"][2]["files"][0]["access"], "write");
    assert!(!world.data().exists(), "explaining makes nothing");
}

#[test]
fn links_modes_and_directories_count_where_a_call_is_explained() {
    let world = World::new();
    world.commit();
    let outside = world.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink("../outside", world.repo().join("link")).unwrap();
    world.write("src/a.rs", "");
    let verdict = |args: &[&str]| {
        let document = world.json(&[&["permissions", "explain"][..], args].concat());
        document["explanation"]["decision"]["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict(&["Read(src/a.rs)"]), "allow");
    assert_eq!(verdict(&["Read(link/a.rs)"]), "ask");
    assert_eq!(verdict(&["Edit(src/a.rs)"]), "ask");
    assert_eq!(verdict(&["--mode", "acceptEdits", "Edit(src/a.rs)"]), "allow");
    assert_eq!(verdict(&["--mode", "acceptEdits", "Edit(link/a.rs)"]), "ask");
    assert_eq!(verdict(&["--mode", "plan", "Edit(src/a.rs)"]), "deny");
    assert_eq!(verdict(&["--cwd", "src", "--deny", "Read(./src/a.rs)", "Read(a.rs)"]), "deny");
    assert_eq!(verdict(&["--deny", "Read(secret/**)", "Grep(.)"]), "allow");
    let filter = world.run_to(0, &["permissions", "explain", "--deny", "Read(./secret/**)", "Grep(.)"]);
    assert!(
        filter.out.contains(": filter\n") && filter.out.contains("it leaves out what these cover"),
        "{}",
        filter.out
    );
    let link = world.run_to(0, &["permissions", "explain", "Read(link/a.rs)"]).out;
    assert!(link.contains("outside/a.rs)"), "{link}");
    for (args, code, words) in [
        (&["Bash(ls"][..], 3, "has no `)` at its end"),
        (&["--deny", "bash(rm)", "Bash(ls)"], 3, "hint: did you mean `Bash`?"),
        (&["--mode", "acceptEdit", "Bash(ls)"], 2, "did you mean `acceptEdits`?"),
    ] {
        let said = world.run_to(code, &[&["permissions", "explain"][..], args].concat());
        assert!(said.out.is_empty() && said.err.contains(words), "{args:?}: {}", said.err);
    }
}

#[test]
fn rules_are_linted_and_what_is_known_is_shown() {
    let world = World::new();
    let args =
        ["permissions", "lint", "--allow", "Bash(git diff*)", "--allow", "Bash(aws s3 ls)", "--deny", "Bash(aws *)"];
    let said = world.run_to(0, &args);
    assert!(said.out.contains("warning[broad]: allow `Bash(git diff*)` (command line): it also covers `git difftool`"));
    assert!(said.out.contains("warning[shadowed]: allow `Bash(aws s3 ls)`"), "{}", said.out);
    assert_eq!(said.err, "3 rules, 0 errors, 2 warnings\n");
    world.write("rows.jsonl", CASES);
    let document = world.json(&["permissions", "lint", "rows.jsonl"]);
    assert_eq!(document["schema"], "orc/lint/1");
    let findings = document["findings"].as_array().unwrap();
    assert!(findings.iter().any(|found| found["row"] == "PC-203" && found["kind"] == "shadowed"), "{findings:?}");
    assert!(world.run_to(3, &["permissions", "lint", "--deny", "Bash(rm"]).out.starts_with("error[broken]: deny "));
    assert!(world.run_to(2, &["permissions", "lint"]).err.contains("no rule is named"));
    let programs = world.json(&["permissions", "lint", "--programs"]);
    assert!(programs["looks"]["list"].as_array().unwrap().contains(&json!("grep")), "{programs}");
    assert!(programs["harmless_wrappers"]["list"].as_array().unwrap().contains(&json!("timeout")), "{programs}");
    let floors = world.run_to(0, &["permissions", "lint", "--floors"]).out;
    assert!(
        floors.contains("  .ssh: keys\n") && floors.contains("  .github/workflows: what the forge runs\n"),
        "{floors}"
    );
}
