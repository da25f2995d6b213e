//! What flows start from, and that reading it changes nothing.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use orc_domain::graph::RepositorySpec;
use orc_domain::tree::PrivateCopy;
use orc_ports::worktrees::{Pinned, WorktreeError, Worktrees};

use crate::boxes;
use crate::fixture::{Place, check_each, first, git, wait};

fn spec(path: &str, wanted: Option<&str>) -> RepositorySpec {
    RepositorySpec { path: path.to_owned(), base: wanted.map(str::to_owned) }
}

fn pin(place: &Place, directory: &Path, wanted: &[RepositorySpec]) -> Result<Pinned, WorktreeError> {
    wait(place.trees().pin(directory.to_owned(), wanted.to_vec()))
}

fn refused(result: Result<Pinned, WorktreeError>) -> String {
    result.unwrap_err().to_string()
}

/// Every file below a directory, with its bytes, rights, owner and times.
fn fingerprint(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, u32, i64, i64)> {
    let mut all = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(path) = open.pop() {
        let found = std::fs::symlink_metadata(&path).unwrap();
        let bytes = if found.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        all.insert(path.clone(), (bytes, found.mode(), found.uid(), found.mtime(), found.mtime_nsec()));
        if found.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all
}

#[test]
fn a_source_stays_byte_for_byte_what_it_was() {
    check_each(|place| {
        let hook = place.source().join(".git/hooks/post-checkout");
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::write(&hook, "#!/bin/sh\ntouch ran\n").unwrap();
        boxes::run(place.source(), "chmod", &["+x", ".git/hooks/post-checkout"]).unwrap();
        git(place.source(), &["config", "core.fsmonitor", "touch monitored; false"]);
        // A file whose times the index does not know: whoever refreshes the index is found out.
        boxes::run(place.source(), "touch", &["-d", "@1600000000", "d0/f0.txt"]).unwrap();
        std::fs::write(place.source().join("draft.txt"), "x").unwrap();
        let before = fingerprint(place.source());
        let result = place.step("edit", &[], "echo x >>d0/f0.txt; git commit -q -a -m x; echo y >y");
        place.step("next", &[("edit", &result)], "rm d0/f1.txt");
        place.collect();
        assert_eq!(fingerprint(place.source()), before);
    });
}

#[test]
fn what_is_not_committed_is_said_and_not_in_the_copy() {
    let place = first();
    assert_eq!(place.pin().notes, Vec::<String>::new());
    std::fs::write(place.source().join("d0/f0.txt"), "changed").unwrap();
    assert_eq!(place.pin().notes, ["1 file of the checkout is not committed; it is not in the copies"]);
    for name in ["new1", "new2"] {
        std::fs::write(place.source().join(name), "x").unwrap();
    }
    assert_eq!(place.pin().notes, ["3 files of the checkout are not committed; they are not in the copies"]);
    let prepared = place.prepare("look", &place.copy(&[]));
    assert_eq!(place.work(&prepared, "ls; cat d0/f0.txt"), "d0\nfile 0\n");
}

#[test]
fn branches_tags_commits_and_places_below_are_found() {
    let place = first();
    let root = git(place.source(), &["rev-parse", "HEAD"]);
    git(place.source(), &["tag", "-a", "v1", "-m", "one"]);
    git(place.source(), &["branch", "old"]);
    let head = boxes::change(place.source(), "second").unwrap();
    let below = place.source().join("d0");
    let found = |wanted: Option<&str>| {
        let one = pin(&place, &below, &[spec(".", wanted)]).unwrap().repositories.remove(0);
        assert_eq!(Path::new(&one.source), place.source());
        (one.commit.to_string(), one.branch)
    };
    assert_eq!(found(None), (head.clone(), Some("main".to_owned())));
    assert_eq!(found(Some("old")), (root.clone(), Some("old".to_owned())));
    assert_eq!(found(Some("v1")), (root.clone(), None));
    assert_eq!(found(Some(&root[..12])), (root.clone(), None));
    git(place.source(), &["checkout", "-q", "--detach", "old"]);
    assert_eq!(found(None), (root, None));
    let prepared = place.prepare("look", &place.copy(&[]));
    assert_eq!(
        place.work(&prepared, "git symbolic-ref -q HEAD || echo detached; git branch"),
        "detached\n* (no branch)\n"
    );
    assert_eq!(
        refused(pin(&place, &below, &[spec(".", Some("nothing"))])),
        format!("the repository `{}` has no commit `nothing`", place.source().display())
    );
    // Nothing of what is written there is taken for an option.
    assert!(refused(pin(&place, &below, &[spec(".", Some("--all"))])).contains("has no commit `--all`"));
}

#[test]
fn the_same_commit_under_two_branches_has_the_right_name_in_each_copy() {
    check_each(|place| {
        git(place.source(), &["branch", "release"]);
        let mut copy = place.copy(&[]);
        let name = |step: &str, copy: &PrivateCopy| place.work(&place.prepare(step, copy), "git status -sb");
        assert_eq!(name("one", &copy), "## main\n");
        copy.repositories = pin(place, place.source(), &[spec(".", Some("release"))]).unwrap().repositories;
        assert_eq!(name("two", &copy), "## release\n");
    });
}

#[test]
fn bare_repositories_worktrees_and_several_at_once_work() {
    let place = first();
    let beside = place.source().parent().unwrap();
    git(beside, &["clone", "-q", "--bare", "app", "bare.git"]);
    git(place.source(), &["worktree", "add", "-q", "../linked", "-b", "linked"]);
    let wanted = [spec(".", None), spec("../bare.git", None), spec("../linked", None)];
    let pinned = pin(&place, place.source(), &wanted).unwrap();
    let mut copy = place.copy(&[]);
    copy.repositories = pinned.repositories;
    let prepared = place.prepare("edit", &copy);
    assert_eq!(prepared.directory, Path::new("/workspace"));
    let said = place.work(
        &prepared,
        "ls; for one in *; do git -C $one rev-parse --abbrev-ref HEAD; done; echo x >bare/x; echo y >linked/y",
    );
    assert_eq!(said, "app\nbare\nlinked\nmain\nmain\nlinked\n");
    let result = place.harvest("edit", &copy).tree;
    let changed: Vec<&str> = result
        .0
        .iter()
        .filter(|(path, commit)| prepared.start.0[*path] != **commit)
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(changed, ["../bare.git", "../linked"]);
}

#[test]
fn what_cannot_be_started_from_is_refused_with_what_helps() {
    let place = first();
    let beside = place.source().parent().unwrap().to_owned();
    let nowhere = beside.join("nowhere");
    std::fs::create_dir(&nowhere).unwrap();
    assert_eq!(refused(pin(&place, &nowhere, &[])), format!("`{}` is not in a git repository", nowhere.display()));
    assert_eq!(refused(pin(&place, place.source(), &[spec("../gone", None)])), "`../gone` is not in a git repository");
    git(&nowhere, &["init", "-q"]);
    let empty = refused(pin(&place, &nowhere, &[]));
    assert!(empty.ends_with("has no commit yet, and a private copy starts from one"), "{empty}");
    boxes::change(place.source(), "second").unwrap();
    let url = format!("file://{}", place.source().display());
    git(&beside, &["clone", "-q", "--depth=1", &url, "shallow"]);
    let shallow = refused(pin(&place, &beside.join("shallow"), &[]));
    assert!(shallow.contains("git fetch --unshallow"), "{shallow}");
}

#[test]
fn a_repository_with_sha_256_works_to_the_end() {
    check_each(|place| {
        let other = place.source().parent().unwrap().join("other");
        std::fs::create_dir(&other).unwrap();
        git(&other, &["init", "-q", "-b", "main", "--object-format=sha256"]);
        boxes::change(&other, "first").unwrap();
        let mut copy = place.copy(&[]);
        copy.repositories = pin(place, &other, &[]).unwrap().repositories;
        let prepared = place.prepare("edit", &copy);
        place.work(&prepared, "echo x >x; git add x; git commit -q -m x; echo y >y");
        let result = place.harvest("edit", &copy).tree;
        assert_eq!(crate::fixture::only(&result).len(), 64);
        assert_ne!(result, prepared.start);
    });
}
