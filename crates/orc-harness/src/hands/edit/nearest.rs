//! What helps when the text that an edit looks for is not there.

use super::super::text::cut;
use super::line_of;

/// Lines that are compared with what is looked for.
const MOST_LINES: usize = 50_000;
/// Characters of a line that are compared and shown.
const MOST_CHARS: usize = 200;
/// Lines of what is like it that are shown.
const SHOWN_LINES: usize = 12;

/// What in `text` may be meant by `old`, which is not in it.
pub(super) fn explain(text: &str, old: &str) -> String {
    if let Some(plain) = without_numbers(old)
        && text.contains(&plain)
    {
        return "It is without the line numbers: leave out the number and the tab at the start of each line."
            .to_owned();
    }
    if let Some((line, found)) = but_for_space(text, old) {
        return format!("From line {line} on there is the same but for spaces, tabs or line breaks:\n{found}");
    }
    let Some((line, found)) = nearest(text, old) else {
        return "Nothing in it is like it. Read the file again.".to_owned();
    };
    format!("The nearest to its first line is line {line}:\n{found}\nRead around there again.")
}

/// The text without what `Read` puts before lines, if that is before each.
fn without_numbers(old: &str) -> Option<String> {
    let lines = old.split('\n').map(|line| {
        let (number, rest) = line.split_once('\t')?;
        let is_number = !number.trim().is_empty() && number.trim().bytes().all(|byte| byte.is_ascii_digit());
        is_number.then_some(rest)
    });
    Some(lines.collect::<Option<Vec<_>>>()?.join("\n"))
}

/// The first place whose words are the same.
fn but_for_space(text: &str, old: &str) -> Option<(usize, String)> {
    let squeezed = |text: &str| text.chars().filter(|one| !one.is_whitespace()).collect::<String>();
    let wanted = squeezed(old);
    if wanted.is_empty() {
        return None;
    }
    let place = squeezed(text).find(&wanted)?;
    // Back to where that is in the text: the character after as many others that are no space.
    let mut count = 0;
    let mut starts = text.char_indices().filter(|(_, one)| !one.is_whitespace()).filter_map(|(at, one)| {
        count += one.len_utf8();
        Some(at).filter(|_| count > place)
    });
    let line = line_of(text, starts.next()?);
    let lines = old.trim().lines().count().min(SHOWN_LINES);
    let found: Vec<_> = text.lines().skip(line - 1).take(lines).map(|line| cut(line, MOST_CHARS).0).collect();
    Some((line, found.join("\n")))
}

/// The line that shares most pairs of characters with the first line of what is looked for, if that is half of them.
fn nearest<'a>(text: &'a str, old: &str) -> Option<(usize, &'a str)> {
    let wanted = pairs(old.lines().find(|line| !line.trim().is_empty())?);
    if wanted.is_empty() {
        return None;
    }
    let mut best: Option<(usize, usize, &str)> = None;
    for (at, line) in text.lines().take(MOST_LINES).enumerate() {
        let line = cut(line, MOST_CHARS).0;
        let own = pairs(line);
        let shared = shared(&wanted, &own);
        // Twice the shared ones over all: 1,000 for the same line.
        let score = 2_000 * shared / (wanted.len() + own.len());
        if score >= 500 && best.is_none_or(|(_, most, _)| score > most) {
            best = Some((at + 1, score, line));
        }
    }
    best.map(|(line, _, found)| (line, found))
}

/// Pairs of neighbours, sorted.
fn pairs(line: &str) -> Vec<(char, char)> {
    let line = cut(line.trim(), MOST_CHARS).0;
    let mut pairs: Vec<_> = line.chars().zip(line.chars().skip(1)).collect();
    pairs.sort_unstable();
    pairs
}

fn shared(one: &[(char, char)], other: &[(char, char)]) -> usize {
    let (mut at, mut count) = (0, 0);
    for pair in one {
        while other.get(at).is_some_and(|next| next < pair) {
            at += 1;
        }
        if other.get(at) == Some(pair) {
            at += 1;
            count += 1;
        }
    }
    count
}
