//! `Grep`: a regular expression in files, by ripgrep's own parts.
//!
//! Files are searched one after the other, by name, so that the same search tells the same; what is held is one line (or,
//! over lines, one file) and what is told.

mod told;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use orc_process::hands::Floor;
use rustix::fs::FileType;

use self::told::Told;
#[cfg(test)]
pub(super) use self::told::window;
use super::input::{self, OutputMode};
use super::offers::TEXT_BYTES;
use super::walk::{self, Wanted, is_over};
use super::{Outcome, Refusal, place};

/// Most bytes of a line, or of a file when a match may span lines, that are held.
const MOST_HELD: usize = 64 << 20;
/// Most lines around a match.
const MOST_AROUND: usize = 1_000;

pub(super) fn grep(wanted: &input::Grep, without: &[String], floor: &dyn Floor) -> Outcome {
    if wanted.pattern.is_empty() {
        return Err("`pattern` is empty: it would be found everywhere.".into());
    }
    input::check_pattern("pattern", &wanted.pattern)?;
    input::check_pattern("glob", wanted.glob.as_deref().unwrap_or_default())?;
    let multiline = wanted.multiline.unwrap_or(false);
    let matcher = matcher(wanted, multiline)?;
    let root = walk::root(wanted.path.as_deref(), floor)?;
    let mode = wanted.output_mode.unwrap_or_default();
    let base = floor.cwd().canonicalize().unwrap_or_else(|_| floor.cwd().to_owned());
    let bound = floor.bound().unwrap_or(TEXT_BYTES);
    let mut search = Search {
        searcher: searcher(wanted, multiline, mode),
        matcher: &matcher,
        mode,
        numbers: wanted.numbers.unwrap_or(true),
        floor,
        told: Told::new(mode, wanted.head_limit.unwrap_or(usize::MAX), bound),
    };
    if root.kind == Some(FileType::RegularFile) {
        search.look_into(&root.path, &base);
    } else {
        let hidden = wanted.glob.as_deref().is_some_and(|glob| !glob.starts_with('!') && walk::names_hidden(glob));
        let narrow =
            Wanted { hidden, glob: wanted.glob.as_deref(), kind: wanted.kind.as_deref(), without, base: &base };
        for entry in walk::walk(&root.path, narrow)? {
            if search.told.is_full() {
                break;
            }
            if is_over(floor) {
                search.told.is_whole = false;
                break;
            }
            // What may not be read is left out.
            let Ok(entry) = entry else { continue };
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                search.look_into(entry.path(), &base);
            }
        }
    }
    Ok(super::told(search.told.finish(&wanted.pattern)))
}

fn matcher(wanted: &input::Grep, multiline: bool) -> Result<RegexMatcher, Refusal> {
    let mut builder = RegexMatcherBuilder::new();
    builder.multi_line(true).case_insensitive(wanted.any_case.unwrap_or(false));
    if multiline {
        builder.dot_matches_new_line(true);
    } else {
        // Without the line ends of a match, so that `$` fits before a CRLF too.
        builder.line_terminator(Some(b'\n')).crlf(true);
    }
    builder.build(&wanted.pattern).map_err(|error| {
        let help = match wanted.pattern.contains("\\n") && !multiline {
            true => "To find line breaks set `multiline`.",
            false => "It is a regular expression: put a backslash before characters that are meant as they are.",
        };
        Refusal(format!("The pattern cannot be read: {error}\n{help}"))
    })
}

fn searcher(wanted: &input::Grep, multiline: bool, mode: OutputMode) -> Searcher {
    let around = |lines: Option<usize>| match mode {
        OutputMode::Content => lines.or(wanted.around).unwrap_or(0).min(MOST_AROUND),
        _ => 0,
    };
    let mut builder = SearcherBuilder::new();
    builder.binary_detection(BinaryDetection::quit(0)).heap_limit(Some(MOST_HELD)).line_number(true);
    builder.multi_line(multiline).before_context(around(wanted.before)).after_context(around(wanted.after));
    if !multiline {
        builder.line_terminator(LineTerminator::crlf());
    }
    builder.build()
}

/// A search on its way.
struct Search<'a> {
    searcher: Searcher,
    matcher: &'a RegexMatcher,
    mode: OutputMode,
    numbers: bool,
    floor: &'a dyn Floor,
    told: Told,
}

impl Search<'_> {
    fn look_into(&mut self, path: &Path, base: &Path) {
        let shown = place::show(path, base);
        let file = match place::open_file(path) {
            Ok(file) => Watched { file, floor: self.floor },
            Err(error) => return self.told.skip(&shown, &error.to_string()),
        };
        let mut found = Found {
            matcher: self.matcher,
            mode: self.mode,
            numbers: self.numbers,
            shown: &shown,
            told: &mut self.told,
            begin: (0, 0),
            matches: 0,
            is_binary: false,
        };
        found.begin = found.told.mark();
        let searched = self.searcher.search_reader(self.matcher, file, &mut found);
        let (begin, matches, is_binary) = (found.begin, found.matches, found.is_binary);
        match searched {
            _ if is_binary => {
                self.told.back_to(begin);
                self.told.skip_binary(&shown);
            }
            Err(_) if is_over(self.floor) => self.told.is_whole = false,
            Err(error) => self.told.skip(&shown, &error.to_string()),
            Ok(()) => self.told.file_done(&shown, matches),
        }
    }
}

/// A file that ends with an error when nobody wants it any more.
struct Watched<'a> {
    file: File,
    floor: &'a dyn Floor,
}

impl Read for Watched<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if is_over(self.floor) {
            return Err(io::Error::other("there is no time left"));
        }
        self.file.read(into)
    }
}

/// What is found in one file.
struct Found<'a> {
    matcher: &'a RegexMatcher,
    mode: OutputMode,
    numbers: bool,
    shown: &'a str,
    told: &'a mut Told,
    begin: told::Mark,
    matches: u64,
    is_binary: bool,
}

impl Found<'_> {
    /// Tells the lines of a match or of what is around it; false when no more fits.
    fn lines(&mut self, bytes: &[u8], first: Option<u64>, mark: char) -> bool {
        let text = String::from_utf8_lossy(bytes);
        for (line, number) in text.lines().zip(first.unwrap_or(0)..) {
            let at = self.matcher.find(line.as_bytes()).ok().flatten().map_or(0, |found| found.start());
            let line = told::window(line, if mark == ':' { at } else { 0 });
            let number = if self.numbers { format!("{number}{mark}") } else { String::new() };
            if !self.told.push(&format!("{}{mark}{number}{line}", self.shown)) {
                return false;
            }
        }
        true
    }
}

impl Sink for Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        Ok(match self.mode {
            // Whether it is binary is known when the whole was seen.
            OutputMode::FilesWithMatches | OutputMode::Count => true,
            OutputMode::Content => self.lines(found.bytes(), found.line_number(), ':'),
        })
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.lines(context.bytes(), context.line_number(), '-'))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        Ok(self.told.push("--"))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.is_binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}
