//! A copy is complete: with its submodules, and with large files that lie beside the objects.

use std::path::{Path, PathBuf};

use orc_ports::worktrees::Worktrees;

use crate::boxes;
use crate::fixture::{Place, check_each, first, git, only, wait};

/// A repository beside the source, with one commit.
fn beside(place: &Place, name: &str) -> PathBuf {
    let path = place.source().parent().unwrap().join(name);
    std::fs::create_dir(&path).unwrap();
    git(&path, &["init", "-q", "-b", "main"]);
    std::fs::write(path.join(format!("{name}.txt")), "x\n").unwrap();
    boxes::change(&path, name).unwrap();
    path
}

fn add_module(to: &Path, url: &str, at: &str) {
    git(to, &["-c", "protocol.file.allow=always", "submodule", "-q", "add", url, at]);
    git(to, &["commit", "-q", "-m", &format!("module {at}")]);
}

/// A source with a submodule that has a submodule.
fn with_modules(place: &Place) {
    let (inner, outer) = (beside(place, "inner"), beside(place, "outer"));
    add_module(&outer, inner.to_str().unwrap(), "in");
    add_module(place.source(), "../outer", "libs/outer");
    git(place.source(), &["-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init", "--recursive"]);
}

#[test]
fn submodules_are_there_whole_and_without_a_network() {
    check_each(|place| {
        with_modules(place);
        assert_eq!(place.pin().notes, Vec::<String>::new());
        let copy = place.copy(&[]);
        let prepared = place.prepare("edit", &copy);
        let said = place.work(
            &prepared,
            "git status --porcelain; git submodule update --init --recursive; git submodule status --recursive | cut -c 1,42-; \
             cat libs/outer/outer.txt libs/outer/in/inner.txt; git -C libs/outer status --porcelain; cat libs/outer/.git",
        );
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 5, "{said}");
        assert!(
            lines[0].trim().starts_with("libs/outer (") && lines[1].trim().starts_with("libs/outer/in ("),
            "{said}"
        );
        assert_eq!(lines[2..], ["x", "x", "gitdir: ../../.git/modules/libs/outer"]);
        place.work(&prepared, "touch libs/outer/outer.txt");
        assert_eq!(place.harvest("edit", &copy).tree, prepared.start, "nothing was changed");
        // Also when the next flow stands on this ground, and when only the submodule moved.
        let outer = place.source().join("libs/outer");
        boxes::change(&outer, "further").unwrap();
        boxes::change(place.source(), "moved").unwrap();
        let next = place.prepare("next", &place.copy(&[]));
        assert_eq!(place.work(&next, "git status --porcelain; cat libs/outer/changed.txt"), "further\n");
    });
}

#[test]
fn what_is_changed_in_a_submodule_is_kept_beside_the_result_and_said() {
    let place = first();
    with_modules(&place);
    let copy = place.copy(&[]);
    let prepared = place.prepare("edit", &copy);
    place.work(&prepared, "cd libs/outer; git checkout -q -b own; echo 1 >own.txt; git add -A; git commit -q -m own; echo 2 >in/dirty.txt");
    let kept = place.harvest("edit", &copy);
    assert!(kept.notes.iter().any(|note| note.contains("submodule `libs/outer`")), "{:?}", kept.notes);
    let references = place.references(&format!("refs/orc/{}/edit/left", place.flow.file_name()));
    let files: Vec<String> = references.iter().flat_map(|reference| place.files(reference)).collect();
    assert!(files.contains(&"own.txt".to_owned()), "{files:?}");
    assert_eq!(place.collect().rescued, 0);
}

#[test]
fn a_submodule_that_nobody_has_is_said_and_empty() {
    let place = first();
    let gone = beside(&place, "gone");
    add_module(place.source(), "../gone", "libs/gone");
    std::fs::remove_dir_all(&gone).unwrap();
    std::fs::remove_dir_all(place.source().join(".git/modules")).unwrap();
    std::fs::remove_dir_all(place.source().join("libs")).unwrap();
    let notes = place.pin().notes;
    let note = notes.iter().find(|note| note.contains("submodule `libs/gone` is empty")).unwrap();
    assert!(note.contains("git submodule update --init"), "{notes:?}");
    let prepared = place.prepare("edit", &place.copy(&[]));
    assert_eq!(place.work(&prepared, "ls libs/gone; ls -d libs/gone"), "libs/gone\n");
}

#[test]
fn large_files_are_there_and_travel_with_the_work() {
    check_each(|place| {
        git(place.source(), &["lfs", "install", "--local", "--skip-smudge"]);
        std::fs::write(place.source().join(".gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n").unwrap();
        std::fs::write(place.source().join("one.bin"), "first large file").unwrap();
        boxes::change(place.source(), "large").unwrap();
        assert!(git(place.source(), &["show", "HEAD:one.bin"]).starts_with("version https://git-lfs"));
        let copy = place.copy(&[]);
        let prepared = place.prepare("edit", &copy);
        assert_eq!(place.work(&prepared, "git status --porcelain; cat one.bin"), "first large file");
        place.work(
            &prepared,
            "printf 'another large file' >two.bin; git add two.bin; git commit -q -m two; printf 'a third' >three.bin",
        );
        let result = place.harvest("edit", &copy).tree;
        assert!(place.file(only(&result), "three.bin").unwrap().starts_with("version https://git-lfs"));
        place.collect();
        let next = place.prepare("next", &place.copy(&[("edit", &result)]));
        assert_eq!(
            place.work(&next, "git status --porcelain; cat one.bin two.bin three.bin"),
            "first large fileanother large filea third"
        );
    });
}

#[test]
fn a_ground_is_whole_by_itself() {
    check_each(|place| {
        for number in 0..3 {
            boxes::change(place.source(), &format!("change {number}")).unwrap();
            let step = format!("step{number}");
            let prepared = place.prepare(&step, &place.copy(&[]));
            let said = place.work(
                &prepared,
                "git fsck --no-progress --no-dangling --full; ls .git/objects/info; git remote; ls .git/hooks; git config --list --local | grep -c url || :",
            );
            assert_eq!(said.trim(), "0", "no other place for objects, no remote, no hook");
            wait(place.trees().release(place.run(&step))).unwrap();
        }
    });
}

#[test]
fn a_file_that_is_too_large_is_left_out_and_said() {
    let place = first();
    let one = place.step("one", &[], "echo small >grows; echo x >x");
    // 64 MiB is the bound here, and a hole counts.
    let script = "truncate -s 65M grows 'new & | \\ one' ignored; truncate -s 64M fits; echo ignored >.gitignore; \
        truncate -s 65M forced; echo forced >>.gitignore; git add -f forced; \
        git init -q in; truncate -s 65M in/deep; echo y >in/y; echo 2 >x";
    let copy = place.copy(&[("one", &one)]);
    let prepared = place.prepare("two", &copy);
    place.work(&prepared, script);
    let kept = place.harvest("two", &copy);
    let commit = only(&kept.tree);
    assert_eq!(place.files(commit), [".gitignore", "d0/f0.txt", "d0/f1.txt", "d0/f2.txt", "fits", "grows", "x"]);
    assert_eq!(place.file(commit, "grows").as_deref(), Some("small"), "what was committed of it stays");
    assert_eq!(place.file(commit, "x").as_deref(), Some("2"));
    let said: Vec<&String> = kept.notes.iter().filter(|note| note.contains("`worktree.max_file_mb`")).collect();
    for name in ["`grows` has 65 MiB", r"`new & | \ one` has", "`forced` has", "`in/deep` has"] {
        assert!(said.iter().any(|note| note.starts_with(name)), "{name}: {said:?}");
    }
    assert_eq!(said.len(), 4, "{said:?}");
    let entry = wait(place.trees().list()).unwrap().into_iter().find(|entry| entry.conversation.path.as_str() == "two");
    assert_eq!(entry.unwrap().notes, kept.notes);
    // What is known to be in no commit keeps no copy.
    assert_eq!(place.collect().copies, 2);
}
