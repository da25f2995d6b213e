//! Directories walked as ripgrep does: ignore files hold, also without a repository, and hidden files are left out unless
//! they are named.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::TypesBuilder;
use ignore::{Walk, WalkBuilder};
use orc_process::hands::Floor;
use rustix::fs::FileType;

use super::Refusal;
use super::place::{Place, kind_name};

/// Left for telling what was found when the time is over.
const LAST: Duration = Duration::from_millis(500);

/// What is walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// Whether hidden files are named, and so are not left out.
    pub(super) hidden: bool,
    /// Only files that fit this, or, after `!`, others.
    pub(super) glob: Option<&'a str>,
    /// Only files of this kind.
    pub(super) kind: Option<&'a str>,
    /// What is left out, as lines of an ignore file.
    pub(super) without: &'a [String],
    /// Where that file would lie.
    pub(super) base: &'a Path,
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self { hidden: false, glob: None, kind: None, without: &[], base: Path::new("/") }
    }
}

/// The place to look in: the working directory if none is named.
pub(super) fn root(path: Option<&str>, floor: &dyn Floor) -> Result<Place, Refusal> {
    let asked = path.filter(|path| !path.is_empty()).unwrap_or(".");
    let place = Place::find(asked, floor.cwd())?;
    match place.kind {
        Some(FileType::Directory | FileType::RegularFile) => Ok(place),
        Some(other) => Err(format!("`{}` is {}: there is nothing to look in.", place.shown, kind_name(other)).into()),
        None => {
            Err(format!("There is no `{}` to look in. Leave `path` out for the working directory.", place.shown).into())
        }
    }
}

/// Whether a pattern names something hidden.
pub(super) fn names_hidden(pattern: &str) -> bool {
    let parts = pattern.split(['/', '{', ',', '!']);
    parts.into_iter().any(|part| part.starts_with('.') && !part.trim_start_matches('.').is_empty())
}

/// Walks a directory, everything by name.
pub(super) fn walk(root: &Path, wanted: Wanted<'_>) -> Result<Walk, Refusal> {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(!wanted.hidden).require_git(false).git_global(false).follow_links(false);
    builder.sort_by_file_name(std::cmp::Ord::cmp);
    if let Some(kind) = wanted.kind {
        builder.types(types(kind)?);
    }
    // Not as rules of the walk: those would bring back what ignore files leave out.
    let rules = wanted.glob.map(|glob| rules(glob, root)).transpose()?;
    let left_out = left_out(wanted)?;
    let is_named = root.components().any(|part| part.as_os_str() == ".git")
        || wanted.glob.is_some_and(|glob| glob.contains(".git/"));
    builder.filter_entry(move |entry| {
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        let fits = rules.as_ref().is_none_or(|rules| !rules.matched(entry.path(), is_directory).is_ignore());
        let is_left_out = left_out.matched(entry.path(), is_directory).is_ignore();
        fits && !is_left_out && (is_named || entry.file_name() != ".git")
    });
    Ok(builder.build())
}

/// What must not be found: lines that cannot be read leave everything out.
fn left_out(wanted: Wanted<'_>) -> Result<Gitignore, Refusal> {
    let mut lines = GitignoreBuilder::new(wanted.base);
    let read = lines.case_insensitive(true).map(drop);
    let read = read.and_then(|()| wanted.without.iter().try_for_each(|line| lines.add_line(None, line).map(drop)));
    let read = read.and_then(|()| lines.build());
    read.map_err(|error| Refusal(format!("What must be left out cannot be read: {error}.")))
}

fn rules(glob: &str, root: &Path) -> Result<Override, Refusal> {
    let mut rules = OverrideBuilder::new(root);
    let rules = rules.add(&within(glob, root)).and_then(|rules| rules.build());
    rules.map_err(|error| Refusal(format!("`glob` cannot be read: {error}.")))
}

/// A pattern that is given from `/` on, from the root of the walk on.
fn within(glob: &str, root: &Path) -> String {
    let (not, glob) = glob.strip_prefix('!').map_or(("", glob), |rest| ("!", rest));
    let rest = root.to_str().and_then(|root| glob.strip_prefix(root)).filter(|rest| rest.starts_with('/'));
    format!("{not}{}", rest.or(glob.strip_prefix("./")).unwrap_or(glob))
}

fn types(kind: &str) -> Result<ignore::types::Types, Refusal> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(kind);
    builder.build().map_err(|_| {
        let known = builder.definitions();
        let like: Vec<_> = known
            .iter()
            .filter(|known| {
                let has_ending = known.globs().iter().any(|glob| glob.strip_prefix("*.") == Some(kind));
                has_ending || known.name().starts_with(kind.get(..2).unwrap_or(kind))
            })
            .map(|known| known.name().to_owned())
            .take(8)
            .collect();
        let like = if like.is_empty() { String::new() } else { format!(" There are: {}.", like.join(", ")) };
        Refusal(format!("There is no `type` `{kind}`.{like} `glob` does the same for any ending: `*.{kind}`."))
    })
}

/// Whether to stop: cancelled, or out of time.
pub(super) fn is_over(floor: &dyn Floor) -> bool {
    floor.is_cancelled() || floor.left().is_some_and(|left| left <= LAST)
}

/// The part of a pattern that is a path, and the rest.
pub(super) fn split(pattern: &str) -> (PathBuf, String) {
    let mut fixed = PathBuf::new();
    let mut rest = pattern.trim_start_matches("./");
    if let Some(below) = rest.strip_prefix('/') {
        fixed.push("/");
        rest = below;
    }
    while let Some((first, others)) = rest.split_once('/') {
        if first.contains(['*', '?', '[', '{', '\\']) {
            break;
        }
        fixed.push(first);
        rest = others;
    }
    (fixed, rest.to_owned())
}
