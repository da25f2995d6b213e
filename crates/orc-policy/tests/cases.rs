//! The cases of the field, each with what must come of it, and a twin of most that must be let through: what refuses
//! everything passes no more than what refuses nothing.

#![expect(clippy::unwrap_used, reason = "a row that cannot be read fails its test")]

use orc_policy::case::{judge, read};

const CASES: &str = include_str!("../../../tests/cases/permission.jsonl");
const TWINS: &str = include_str!("../../../tests/cases/permission-twins.jsonl");

/// Judges every row; how many there were.
fn judged(rows: &str) -> usize {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in rows.lines().filter(|line| !line.trim().is_empty()) {
        let row = read(line).unwrap();
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
    count
}

#[test]
fn every_case_comes_out_as_it_must() {
    assert!(judged(CASES) >= 201);
}

#[test]
fn the_twin_of_what_is_refused_is_let_through() {
    assert!(judged(TWINS) >= 60);
    let ids = |rows: &str| -> Vec<(String, String)> {
        rows.lines().map(|line| read(line).unwrap()).map(|row| (row.id, row.expected.unwrap())).collect()
    };
    let cases = ids(CASES);
    for (id, expected) in ids(TWINS) {
        let of = id.strip_suffix("-twin").unwrap();
        let refused = cases.iter().any(|(case, expected)| case == of && expected != "allow");
        assert!(refused && expected == "allow", "{id}");
    }
}
