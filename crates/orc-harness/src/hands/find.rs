//! `Glob`: files by the pattern of their paths, those changed last first.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use globset::{GlobBuilder, GlobMatcher};
use orc_process::hands::Floor;

use super::offers::TEXT_BYTES;
use super::walk::{self, Wanted, is_over};
use super::{Outcome, Refusal, input, place, told};

/// Paths that are kept: more than fit into what is told.
const MOST_PATHS: usize = 2_000;
/// Room for what is said after them.
const ROOM: usize = 200;
/// How often it is looked whether to stop, in files.
const LOOK: usize = 256;

/// Those that were changed last, in bounded room.
#[derive(Default)]
struct Newest {
    paths: Vec<(Reverse<SystemTime>, PathBuf)>,
    count: usize,
}

impl Newest {
    fn add(&mut self, changed: SystemTime, path: PathBuf) {
        self.count += 1;
        self.paths.push((Reverse(changed), path));
        if self.paths.len() >= 2 * MOST_PATHS {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.paths.sort();
        self.paths.truncate(MOST_PATHS);
    }
}

pub(super) fn glob(wanted: &input::Glob, without: &[String], floor: &dyn Floor) -> Outcome {
    let pattern = wanted.pattern.as_str();
    if pattern.is_empty() {
        return Err("`pattern` is empty. `**/*` stands for all files.".into());
    }
    input::check_pattern("pattern", pattern)?;
    let top = walk::root(wanted.path.as_deref(), floor)?;
    let (fixed, rest) =
        if pattern.contains('/') { walk::split(pattern) } else { (PathBuf::new(), format!("**/{pattern}")) };
    let matcher = matcher(pattern, &rest)?;
    let hidden = walk::names_hidden(pattern);
    let root = place::Place::find(&top.path.join(fixed).to_string_lossy(), floor.cwd())?;
    let base = floor.cwd().canonicalize().unwrap_or_else(|_| floor.cwd().to_owned());
    let mut newest = Newest::default();
    let mut is_whole = true;
    if root.kind.is_some() {
        is_whole = collect(
            &root.path,
            &matcher,
            Wanted { hidden, without, base: &base, ..Wanted::default() },
            (&mut newest, floor),
        )?;
    }
    newest.settle();
    let bound = floor.bound().unwrap_or(TEXT_BYTES);
    Ok(told(list(&newest, is_whole, &base, (pattern, bound))))
}

fn matcher(pattern: &str, rest: &str) -> Result<GlobMatcher, Refusal> {
    let glob = GlobBuilder::new(rest).literal_separator(true).backslash_escape(true).build();
    let glob = glob.map_err(|error| Refusal(format!("The pattern `{pattern}` cannot be read: {}.", error.kind())))?;
    Ok(glob.compile_matcher())
}

/// Whether everything was looked at.
fn collect(
    root: &Path,
    matcher: &GlobMatcher,
    wanted: Wanted<'_>,
    (newest, floor): (&mut Newest, &dyn Floor),
) -> Result<bool, Refusal> {
    for (count, entry) in walk::walk(root, wanted)?.enumerate() {
        if count % LOOK == 0 && is_over(floor) {
            return Ok(false);
        }
        // What may not be read is left out.
        let Ok(entry) = entry else { continue };
        let Some(kind) = entry.file_type() else { continue };
        let below = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let fits = (kind.is_file() || kind.is_symlink()) && matcher.is_match(below);
        if fits && (kind.is_file() || entry.path().is_file()) {
            let changed =
                entry.metadata().ok().and_then(|found| found.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
            newest.add(changed, entry.into_path());
        }
    }
    Ok(true)
}

fn list(newest: &Newest, is_whole: bool, base: &Path, (pattern, bound): (&str, usize)) -> String {
    let mut told = String::new();
    let mut shown = 0;
    for (_, path) in &newest.paths {
        let path = place::show(path, base);
        if told.len() + path.len() + 1 + ROOM > bound {
            break;
        }
        told.push_str(&path);
        told.push('\n');
        shown += 1;
    }
    if newest.count == 0 {
        let _ = write!(told, "No file fits `{pattern}`; ignored and hidden files are not looked at.");
    } else if shown < newest.count {
        let _ =
            write!(told, "[the {shown} changed last of {}; a narrower pattern or a `path` shows others]", newest.count);
    }
    if !is_whole {
        told.push_str("\n[the time was over before all directories were seen; a `path` makes it less]");
    }
    told
}
