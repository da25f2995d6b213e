//! Cases from other systems that went wrong there, as texts of ours with what must be told (`tests/cases/spec.jsonl`).
//!
//! A row: `id`, `source`, `input`, `right` as they were reported; `kind` (`pipeline` or `settings`), `text`; `told`, each
//! problem as `line:column code`; `finds`, pieces of the compiled pipeline's JSON.

#![expect(clippy::expect_used, clippy::panic, reason = "a row that cannot be read fails the test")]

use orc_spec::diagnostic::Diagnostic;
use orc_spec::settings::{FileKind, PartialSettings};
use orc_spec::{Library, SourceFile, compile};
use serde_json::Value;

fn told(file: &SourceFile, problems: &[Diagnostic]) -> Vec<String> {
    let tell = |problem: &Diagnostic| {
        let at = file.position(problem.span.start);
        format!("{}:{} {}", at.line, at.column, problem.code)
    };
    problems.iter().map(tell).collect()
}

fn texts(row: &Value, key: &str) -> Vec<String> {
    let list = row[key].as_array().unwrap_or_else(|| panic!("`{key}` is a list in {row}"));
    list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

#[test]
fn every_case_holds() {
    let rows = include_str!("../../../tests/cases/spec.jsonl");
    let mut count = 0;
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        let text = row["text"].as_str().expect("a row has a text");
        let file = SourceFile::new("case.yaml", text);
        let (problems, compiled) = match row["kind"].as_str() {
            Some("pipeline") => {
                let compiled = compile(&file, &Library::empty());
                let json =
                    compiled.pipeline.map(|pipeline| serde_json::to_string(&pipeline).expect("a pipeline is JSON"));
                (compiled.diagnostics, json)
            }
            Some("settings") => (PartialSettings::parse(&file, FileKind::Workspace).1, None),
            kind => panic!("unknown kind {kind:?}"),
        };
        assert_eq!(told(&file, &problems), texts(&row, "told"), "{}: {text:.200}", row["id"]);
        for piece in texts(&row, "finds") {
            let json = compiled.as_deref().unwrap_or_default();
            assert!(json.contains(&piece), "{}: {piece} in {json}", row["id"]);
        }
        count += 1;
    }
    assert!(count >= 20, "only {count} cases were read");
}
