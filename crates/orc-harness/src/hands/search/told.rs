//! What a search tells, in bounded room.

use std::fmt::Write as _;

use super::super::input::OutputMode;

/// Characters of a line that are shown.
const LINE_CHARS: usize = 500;
/// Characters that are shown before a match that is far into its line.
const BEFORE: usize = 100;
/// Room for what is said at the end.
const ROOM: usize = 600;
/// Files that are named which were not searched.
const MOST_NAMED: usize = 3;

/// How much was told before a file.
pub(super) type Mark = (usize, usize);

/// What is told.
pub(super) struct Told {
    mode: OutputMode,
    text: String,
    lines: usize,
    most_lines: usize,
    bound: usize,
    /// Something did not fit.
    is_full: bool,
    /// Everything that was to be searched was.
    pub(super) is_whole: bool,
    searched: usize,
    files: usize,
    matches: u64,
    binary: Vec<String>,
    binary_count: usize,
    skipped: Vec<String>,
    skipped_count: usize,
}

impl Told {
    pub(super) fn new(mode: OutputMode, most_lines: usize, bound: usize) -> Self {
        Self {
            mode,
            text: String::new(),
            lines: 0,
            most_lines: most_lines.max(1),
            bound: bound.saturating_sub(ROOM),
            is_full: false,
            is_whole: true,
            searched: 0,
            files: 0,
            matches: 0,
            binary: Vec::new(),
            binary_count: 0,
            skipped: Vec::new(),
            skipped_count: 0,
        }
    }

    /// Adds a line; false when it does not fit.
    pub(super) fn push(&mut self, line: &str) -> bool {
        if self.lines >= self.most_lines || self.text.len() + line.len() + 1 > self.bound {
            self.is_full = true;
        }
        if !self.is_full {
            self.text.push_str(line);
            self.text.push('\n');
            self.lines += 1;
        }
        !self.is_full
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn mark(&self) -> Mark {
        (self.text.len(), self.lines)
    }

    /// Forgets what was told since then.
    pub(super) fn back_to(&mut self, (bytes, lines): Mark) {
        self.text.truncate(bytes);
        self.lines = lines;
        self.is_full = false;
    }

    pub(super) fn file_done(&mut self, shown: &str, matches: u64) {
        self.searched += 1;
        if matches == 0 {
            return;
        }
        let fits = match self.mode {
            OutputMode::FilesWithMatches => self.push(shown),
            OutputMode::Count => self.push(&format!("{shown}:{matches}")),
            OutputMode::Content => true,
        };
        if fits {
            self.files += 1;
            self.matches += matches;
        }
    }

    pub(super) fn skip_binary(&mut self, shown: &str) {
        self.binary_count += 1;
        if self.binary.len() < MOST_NAMED {
            self.binary.push(format!("`{shown}`"));
        }
    }

    pub(super) fn skip(&mut self, shown: &str, why: &str) {
        self.skipped_count += 1;
        if self.skipped.len() < MOST_NAMED {
            self.skipped.push(format!("`{shown}` ({})", why.chars().take(80).collect::<String>()));
        }
    }

    pub(super) fn finish(mut self, pattern: &str) -> String {
        if self.text.is_empty() && !self.is_full {
            let pattern = window(pattern, 0);
            let _ = writeln!(self.text, "No match for `{pattern}` in {} files.", self.searched);
        } else if self.mode == OutputMode::Count {
            let _ = writeln!(self.text, "[{} in {} files]", self.matches, self.files);
        }
        if self.is_full {
            self.text.push_str("[there is more: narrow it down with `path`, `glob`, `type` or a longer pattern]\n");
        }
        if !self.is_whole {
            self.text.push_str("[the time was over before all files were searched; `path` or `glob` make it less]\n");
        }
        for (count, names, what) in [
            (self.binary_count, &self.binary, "binary files were left out"),
            (self.skipped_count, &self.skipped, "files could not be searched"),
        ] {
            if count > 0 {
                let more = if count > names.len() { ", ..." } else { "" };
                let names = names.join(", ");
                let names = &names[..names.floor_char_boundary(ROOM / 4)];
                let _ = writeln!(self.text, "[{count} {what}: {names}{more}]");
            }
        }
        self.text
    }
}

/// A line, or what is around a place of it if it is long.
pub(in crate::hands) fn window(line: &str, place: usize) -> String {
    if line.len() <= LINE_CHARS {
        return line.to_owned();
    }
    let place = line.floor_char_boundary(place);
    let before = line[..place].chars().count();
    let skipped = if before + BEFORE < LINE_CHARS { 0 } else { before - BEFORE };
    let shown: String = line.chars().skip(skipped).take(LINE_CHARS).collect();
    let is_end = skipped + LINE_CHARS >= line.chars().count();
    format!("{}{shown}{}", if skipped > 0 { "... " } else { "" }, if is_end { "" } else { " ..." })
}
