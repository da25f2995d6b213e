//! Front matter: YAML between two lines of `---`, and the text below.

use crate::diagnostic::{Code, Report};
use crate::read::excerpt;
use crate::source::Span;
use crate::yaml::MAX_BYTES;

/// A file in its two parts.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// The YAML, with as many bytes of blanks before it as stand before it in the file, so that places agree.
    pub(super) yaml: String,
    /// Where the YAML stands.
    pub(super) place: Span,
    /// The text below.
    pub(super) body: &'a str,
    /// The line that ends the front matter.
    pub(super) end: Span,
}

const EXAMPLE: &str = "begin the file with a line `---`, then keys such as `adapter: command`, then a line `---`, \
                       then the system prompt";

/// Splits a file; `None` when it has no front matter, or one that does not end, which is reported.
pub(super) fn split<'a>(text: &'a str, report: &mut Report) -> Option<Parts<'a>> {
    if text.len() > MAX_BYTES {
        let message = format!("this file has {} bytes, at most {MAX_BYTES} are read", text.len());
        report.error(Code::Limit, Span::default(), message).help("a profile is a system prompt; put data elsewhere");
        return None;
    }
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let (first, after) = line(text, mark);
    if !is_fence(&text[first.range()]) {
        refuse_beginning(text, mark, first, report);
        return None;
    }
    let mut at = after;
    while at < text.len() {
        let (place, next) = line(text, at);
        if is_fence(&text[place.range()]) {
            let yaml = format!("{}\n{}", " ".repeat(after - 1), &text[after..at]);
            return Some(Parts { yaml, place: Span::new(after, at), body: &text[next..], end: place });
        }
        at = next;
    }
    let problem = report.error(Code::FrontMatter, first, "the front matter begins here and does not end");
    match like_fence(text, after) {
        Some(place) => problem
            .label(place, "this line has more than three dashes")
            .help("end it with a line that is `---` and nothing else"),
        None => problem.help("end it with a line `---`; what follows is the system prompt"),
    };
    None
}

fn refuse_beginning(text: &str, mark: usize, first: Span, report: &mut Report) {
    if text[mark..].trim().is_empty() {
        report.error(Code::FrontMatter, Span::default(), "this file is empty").help(EXAMPLE);
        return;
    }
    let found = &text[first.range()];
    if found.trim().is_empty() && text[mark..].trim_start().lines().next().is_some_and(is_fence) {
        report
            .error(Code::FrontMatter, first, "something stands before the front matter")
            .help("`---` must be the first line of the file: remove the blank lines before it");
    } else {
        let message = format!("this profile has no front matter; it begins with `{}`", excerpt(found.trim()));
        report.error(Code::FrontMatter, first, message).help(EXAMPLE);
    }
}

/// The line at `at` without its end, and where the next one begins. A line ends with LF or CRLF.
fn line(text: &str, at: usize) -> (Span, usize) {
    let rest = &text[at..];
    let (length, next) = rest.find('\n').map_or((rest.len(), rest.len()), |newline| (newline, newline + 1));
    let length = rest[..length].strip_suffix('\r').map_or(length, str::len);
    (Span::new(at, at + length), at + next)
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// A line that may have been meant as the end.
fn like_fence(text: &str, from: usize) -> Option<Span> {
    let mut at = from;
    while at < text.len() {
        let (place, next) = line(text, at);
        let found = text[place.range()].trim();
        if found.len() > 3 && found.bytes().all(|byte| byte == b'-') {
            return Some(place);
        }
        at = next;
    }
    None
}
