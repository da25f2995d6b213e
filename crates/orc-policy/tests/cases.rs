//! The cases of the field, each with what must come of it.

use orc_policy::case::{Row, judge};

const CASES: &str = include_str!("../../../tests/cases/permission.jsonl");

#[test]
fn every_case_comes_out_as_it_must() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in CASES.lines().filter(|line| !line.trim().is_empty()) {
        let row: Row = serde_json::from_str(line).unwrap();
        let outcome = judge(&row);
        count += 1;
        let expected = row.expected.clone().unwrap();
        if outcome.got != expected {
            wrong.push(format!(
                "{}: {} instead of {expected} for {} {} under {:?}: {}",
                row.id, outcome.got, row.tool, row.input, row.rules, outcome.reason
            ));
        }
        assert!(!outcome.reason.is_empty(), "{}", row.id);
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 201, "{count}");
}
