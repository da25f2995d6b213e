//! Where bwrap will mount: only where the line says, never where a link leads.
//!
//! bwrap follows links on its way to a target, and while it mounts, the whole machine lies at `/oldroot`. Whoever may write
//! to a directory that is mounted could leave a link in it, and what is mounted below at another time would land, or be
//! made, where the link leads. So a target that has a link on its way through something mounted before is refused.
//!
//! This looks before bwrap does. A directory that two boxes may write to at the same time, with a further mount below it,
//! can still be changed in between; copies belong to one box at a time.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Something that bwrap will mount or make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// Where inside.
    pub(super) at: &'a Path,
    /// What.
    pub(super) what: What<'a>,
    /// The number of the word after it.
    pub(super) end: usize,
}

/// What is at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// A directory or file of the machine, and where that is.
    Bound { place: &'a Path, writable: bool },
    /// A directory in memory.
    Memory,
    /// Something that does not change.
    Other,
}

/// The targets of a line for bwrap, whose sources are where bwrap finds them, in order.
pub(super) fn targets(line: &[PathBuf]) -> Result<Vec<Target<'_>>, String> {
    let mut targets = Vec::new();
    let mut words = line.iter().enumerate().map(|(number, word)| (number, word.as_path()));
    while let Some((_, word)) = words.next() {
        let what = match word.to_str() {
            Some("--") => break,
            Some(how @ ("--bind" | "--ro-bind" | "--dev-bind")) => {
                let (_, place) = words.next().ok_or("a mount of nothing")?;
                What::Bound { place, writable: how != "--ro-bind" }
            }
            Some("--file" | "--bind-data" | "--ro-bind-data" | "--symlink") => {
                words.next();
                What::Other
            }
            Some("--tmpfs") => What::Memory,
            Some("--dir" | "--proc" | "--dev") => What::Other,
            _ => continue,
        };
        let (number, at) = words.next().ok_or("a mount without a place")?;
        refuse_odd(at)?;
        targets.push(Target { at, what, end: number + 1 });
    }
    Ok(targets)
}

/// Only a path from the root downwards says where it leads.
pub(super) fn refuse_odd(at: &Path) -> Result<(), String> {
    if !at.is_absolute() || at.components().any(|part| part == Component::ParentDir) {
        return Err(format!("`{}` is no place inside", at.display()));
    }
    Ok(())
}

/// What lies at a path or above it, the closest of it and of those the last.
pub(super) fn above<'a, 'b>(targets: &'b [Target<'a>], path: &Path) -> Option<&'b Target<'a>> {
    let above = targets.iter().filter(|target| path.starts_with(target.at));
    above.max_by_key(|target| target.at.components().count())
}

/// Looks at every target of a line for bwrap.
pub(super) fn check(line: &[PathBuf]) -> Result<(), String> {
    let targets = targets(line)?;
    for (index, target) in targets.iter().enumerate() {
        if let Some(Target { at, what: What::Bound { place, .. }, .. }) = above(&targets[..index], target.at) {
            refuse_links(at, place, target.at)?;
        }
    }
    Ok(())
}

/// `place` lies at `at`, which is above `target` or the same.
fn refuse_links(at: &Path, place: &Path, target: &Path) -> Result<(), String> {
    let (mut outside, mut inside) = (place.to_owned(), at.to_owned());
    for part in target.strip_prefix(at).into_iter().flatten() {
        outside.push(part);
        inside.push(part);
        match fs::symlink_metadata(&outside) {
            Ok(found) if found.is_symlink() => {
                let (target, inside) = (target.display(), inside.display());
                return Err(format!("nothing is mounted at `{target}`: `{inside}` is a link, which leads elsewhere"));
            }
            Ok(_) => {}
            // Nothing is there, or below a file: bwrap makes it, or says that it cannot.
            Err(_) => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> Vec<PathBuf> {
        words.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_link_on_the_way_to_a_target_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("copy");
        fs::create_dir_all(copy.join("kept/deep")).unwrap();
        std::os::unix::fs::symlink("/etc", copy.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", copy.join("kept/dangling")).unwrap();
        let copy = copy.to_str().unwrap();
        let try_at = |how: &[&str]| check(&line(&[&["bwrap", "--bind", copy, "/copy"], how].concat()));
        for good in ["/copy/kept", "/copy/kept/deep/new", "/copy/new/deep", "/other/link"] {
            assert_eq!(try_at(&["--ro-bind", "/x", good]), Ok(()), "{good}");
        }
        for bad in ["/copy/link", "/copy/link/below", "/copy/kept/dangling", "/copy/kept/dangling/below"] {
            for how in [&["--ro-bind", "/x"][..], &["--tmpfs"], &["--dir"], &["--file", "5"]] {
                let said = try_at(&[how, &[bad]].concat());
                assert!(said.as_ref().is_err_and(|why| why.contains("is a link")), "{bad}: {said:?}");
            }
        }
        for bad in ["/copy/../oldroot/x", "relative"] {
            assert!(try_at(&["--tmpfs", bad]).is_err(), "{bad}");
        }
        // What is mounted over a link hides it.
        let hidden = line(&["--bind", copy, "/copy", "--tmpfs", "/copy/kept", "--dir", "/copy/kept/dangling"]);
        assert_eq!(check(&hidden), Ok(()));
        assert_eq!(check(&line(&["--bind", copy, "/copy", "--", "--tmpfs", "relative"])), Ok(()));
    }
}
