//! Text for terminals: columns side by side, and nothing in it that a terminal obeys.

/// Text that came from a process or a file, without what steers a terminal: colour is left out, any other control
/// character and marks of writing direction are shown as `\x1b`, `\u{202e}`. Tabs stay.
pub(crate) fn clean(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_unsafe) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(length) = colour_length(rest) {
            rest = &rest[length..];
            continue;
        }
        let Some(first) = rest.chars().next() else { break };
        shown.extend(first.escape_default());
        rest = &rest[first.len_utf8()..];
    }
    shown.push_str(rest);
    shown
}

/// The first line, cleaned, at most `most` characters.
pub(crate) fn clean_line(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let shown = clean(line);
    if shown.chars().count() <= most && line.len() == text.trim_end().len() {
        return shown;
    }
    shown.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn is_unsafe(c: char) -> bool {
    let steers_direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\t') || steers_direction
}

/// Length of a sequence at the start of `text` that only sets colour: `ESC [ digits ; m`.
fn colour_length(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';' && c != ':')?;
    parameters[end..].starts_with('m').then_some(2 + end + 1)
}

/// Rows whose cells stand below each other.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// With a first row of titles.
    pub(crate) fn titled(titles: &[&str]) -> Self {
        let titles = titles.iter().map(|title| (*title).to_owned()).collect();
        Self { rows: vec![titles] }
    }

    /// Adds a row; cells are cleaned.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.rows.push(cells.into_iter().map(|cell| clean(cell.as_ref())).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Each row as a line that begins with `indent`; cells are two blanks apart, nothing trails.
    pub(crate) fn text(&self, indent: &str) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = indent.to_owned();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:width$}  "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let cases = [
            ("plain\ttext ä", "plain\ttext ä"),
            ("\x1b[31;1mred\x1b[0m", "red"),
            ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("a\rb\u{202e}c", "a\\rb\\u{202e}c"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\x1b[", "\\u{1b}["),
        ];
        for (given, wanted) in cases {
            assert_eq!(clean(given), wanted);
            assert!(!clean(given).contains(is_unsafe));
        }
    }

    #[test]
    fn a_line_is_cut_and_says_so() {
        assert_eq!(clean_line("short", 10), "short");
        assert_eq!(clean_line("short\n", 10), "short");
        assert_eq!(clean_line("first\nsecond", 10), "first…");
        assert_eq!(clean_line("0123456789abc", 10), "012345678…");
    }

    #[test]
    fn cells_stand_below_each_other() {
        let mut columns = Columns::titled(&["A", "LONG"]);
        columns.row(["wörter", "x"]);
        columns.row(["y", ""]);
        assert_eq!(columns.text("  "), "  A       LONG\n  wörter  x\n  y\n");
    }
}
