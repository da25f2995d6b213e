//! What a change is told as: how many lines, and a short diff.

use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

use super::super::offers::LINE_CHARS;
use super::super::text::cut;

/// Lines of a diff that are shown.
const MOST_LINES: usize = 80;
/// Unchanged lines around a change.
const AROUND: usize = 3;
/// After this a rougher diff is taken.
const PATIENCE: Duration = Duration::from_millis(500);
/// Room for the lines that are not part of the diff.
const ROOM: usize = 200;

/// Says what changed, in at most about so many bytes.
pub(super) fn describe(shown: &str, before: &str, after: &str, bound: usize) -> String {
    if before == after {
        return format!("`{shown}` was like that already.");
    }
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(PATIENCE).diff_lines(before, after);
    let (mut added, mut removed) = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => added += 1,
            ChangeTag::Delete => removed += 1,
            ChangeTag::Equal => {}
        }
    }
    let lines = if added == 1 { "line" } else { "lines" };
    let mut told = format!("Changed `{shown}`: {added} {lines} added, {removed} removed.\n");
    told.truncate(told.floor_char_boundary(bound));
    let mut left = MOST_LINES;
    for hunk in diff.unified_diff().context_radius(AROUND).iter_hunks() {
        if left == 0 || !push(&mut told, &format!("{}\n", hunk.header()), bound) {
            told.push_str("[the rest of the diff is not shown]");
            return told;
        }
        for change in hunk.iter_changes() {
            let line = change.value().trim_end_matches('\n');
            let (line, is_cut) = cut(line, LINE_CHARS);
            let dots = if is_cut.is_some() { " ..." } else { "" };
            if left == 0 || !push(&mut told, &format!("{}{line}{dots}\n", change.tag()), bound) {
                told.push_str("[the rest of the diff is not shown]");
                return told;
            }
            left -= 1;
        }
    }
    told
}

fn push(told: &mut String, line: &str, bound: usize) -> bool {
    let fits = told.len() + line.len() + ROOM <= bound;
    if fits {
        told.push_str(line);
    }
    fits
}
