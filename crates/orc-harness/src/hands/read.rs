//! `Read`: a file with numbers before its lines.

use std::fmt::Write as _;

use orc_process::hands::{Floor, Used};

use super::offers::{LINE_CHARS, READ_BYTES, READ_LINES};
use super::place::{self, Place};
use super::text::{Text, cut};
use super::{Outcome, input, told};

pub(super) fn read(wanted: &input::Read, floor: &dyn Floor) -> Outcome {
    let place = Place::find(&wanted.file_path, floor.cwd())?;
    let bytes = place.read()?;
    let detour = place.detour();
    let shown = &place.shown;
    let text = match Text::decode(&bytes) {
        Ok(text) => text,
        Err(binary) => {
            let length = bytes.len();
            return Ok(told(format!("{detour}`{shown}` is {}, {length} bytes: it is not shown as text.", binary.kind)));
        }
    };
    let seen = place::stamped(&place, &bytes)?;
    let remarks: Vec<_> = text.encoding.remark().into_iter().chain(text.ending_remark()).collect();
    let mut told = detour;
    if !remarks.is_empty() {
        let _ = writeln!(told, "[{}]", remarks.join("; "));
    }
    let first = wanted.offset.unwrap_or(1).max(1);
    let most = wanted.limit.unwrap_or(READ_LINES).max(1);
    let bound = floor.bound().unwrap_or(READ_BYTES).saturating_sub(told.len());
    told.push_str(&show_lines(text.normal(), shown, (first, most), bound));
    Ok(Used { text: told, seen, ..Used::default() })
}

/// Lines from `first` on, at most `most` of them and at most so many bytes.
fn show_lines(text: &str, shown: &str, (first, most): (u64, u64), bound: usize) -> String {
    if text.is_empty() {
        return format!("[`{shown}` is empty]");
    }
    let count = text.lines().count() as u64;
    if first > count {
        return format!("[`{shown}` has {count} lines; there is nothing from line {first} on]");
    }
    // Room for what is said at the end.
    let bound = bound.saturating_sub(200);
    let mut told = String::new();
    let mut next = first;
    let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
    for line in text.lines().skip(skipped) {
        if next - first >= most {
            break;
        }
        let number = show_line(next, line);
        if told.len() + number.len() > bound && next > first {
            break;
        }
        told.push_str(&number);
        next += 1;
    }
    if next <= count {
        let _ = write!(told, "[lines {first} to {} of {count}; the next is offset {next}]", next - 1);
    } else if !text.ends_with('\n') {
        told.push_str("[no newline at the end of the file]");
    }
    told
}

fn show_line(number: u64, line: &str) -> String {
    match cut(line, LINE_CHARS) {
        (line, None) => format!("{number:>6}\t{line}\n"),
        (start, Some(length)) => format!("{number:>6}\t{start} [cut: the line has {length} characters]\n"),
    }
}
