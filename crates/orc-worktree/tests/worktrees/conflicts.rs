//! What several steps left is brought together, or it is said who stands against whom.

use orc_domain::tree::{PrivateCopy, Tree};
use orc_ports::worktrees::{WorktreeError, Worktrees};

use crate::boxes;
use crate::fixture::{Place, check_each, first, git, only, wait};

fn join(place: &Place, copy: &PrivateCopy) -> Result<Tree, WorktreeError> {
    wait(place.trees().join(place.conversation("join"), copy.clone()))
}

#[test]
fn equal_merges_give_equal_commits_and_a_reference_holds_them() {
    let mut place = first();
    let trees: Vec<Tree> = (0..3)
        .map(|number| place.step(&format!("edit[{number}]"), &[], &format!("echo {number} >n{number}")))
        .collect();
    let names = ["edit[0]", "edit[1]", "edit[2]"];
    let from: Vec<(&str, &Tree)> = names.iter().copied().zip(&trees).collect();
    let copy = place.copy(&from);
    let joined = join(&place, &copy).unwrap();
    assert_eq!(place.files(only(&joined)), ["d0/f0.txt", "d0/f1.txt", "d0/f2.txt", "n0", "n1", "n2"]);
    place.restart();
    assert_eq!(join(&place, &copy).unwrap(), joined);
    assert_eq!(place.references(&format!("refs/orc/{}/join", place.flow.file_name())).len(), 1);
    assert_eq!(
        git(&place.store(), &["log", "-1", "--format=%s", only(&joined)]),
        "Merge edit[2] into edit[0], edit[1]"
    );
    // What one side already has needs no merge.
    let ahead = place.step("ahead", &[("edit[0]", &trees[0])], "echo more >>n0");
    assert_eq!(join(&place, &place.copy(&[("edit[0]", &trees[0]), ("ahead", &ahead)])).unwrap(), ahead);
    assert_eq!(join(&place, &place.copy(&[("ahead", &ahead), ("edit[0]", &trees[0])])).unwrap(), ahead);
}

#[test]
fn four_that_change_the_same_file_are_named() {
    let place = first();
    let trees: Vec<Tree> = (0..4)
        .map(|number| place.step(&format!("edit[{number}]"), &[], &format!("echo {number} >d0/f0.txt")))
        .collect();
    let names = ["edit[0]", "edit[1]", "edit[2]", "edit[3]"];
    let from: Vec<(&str, &Tree)> = names.iter().copied().zip(&trees).collect();
    let WorktreeError::Conflict(conflict) = join(&place, &place.copy(&from)).unwrap_err() else {
        panic!("no conflict")
    };
    assert_eq!(conflict.to_string(), "`edit[0]` and `edit[1], edit[2], edit[3]` both changed d0/f0.txt");
    let error = place.try_prepare("next", &place.copy(&from)).unwrap_err();
    assert_eq!(error.to_string(), conflict.to_string());
    // That attempt left nothing behind that a later one could stumble over.
    place.prepare("next", &place.copy(&from[..1]));
}

#[test]
fn a_conflict_is_left_in_the_copy_as_a_merge_leaves_it_and_its_resolution_is_whole() {
    check_each(|place| {
        let one = place.step("one", &[], "echo one >d0/f0.txt; echo 1 >n1");
        let two = place.step("two", &[], "echo two >d0/f0.txt; echo 2 >n2");
        let three = place.step("three", &[], "echo 3 >n3");
        let mut copy = place.copy(&[("one", &one), ("two", &two), ("three", &three)]);
        copy.holds_conflict = true;
        let prepared = place.prepare("solve", &copy);
        assert_eq!(prepared.conflict.as_ref().unwrap().files, ["d0/f0.txt"]);
        let said = place.work(
            &prepared,
            "git status --porcelain; git rev-parse MERGE_HEAD; cat .git/MERGE_MSG; head -n 1 d0/f0.txt",
        );
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..3], ["UU d0/f0.txt", "A  n2", only(&two)]);
        assert_eq!(lines.last(), Some(&"<<<<<<< HEAD"));
        // Nobody resolved it yet.
        let WorktreeError::Conflict(still) = place.try_harvest("solve", &copy).unwrap_err() else {
            panic!("no conflict")
        };
        assert_eq!((still.files, still.theirs), (vec!["d0/f0.txt".to_owned()], "two".to_owned()));
        // An agent that goes on resolves it without a word to git.
        let again = PrivateCopy { goes_on: true, ..copy.clone() };
        let prepared = place.prepare("solve", &again);
        place.work(&prepared, "echo both >d0/f0.txt");
        let result = place.harvest("solve", &copy).tree;
        assert_eq!(place.file(only(&result), "d0/f0.txt"), Some("both".to_owned()));
        for (tree, name) in [(&one, "n1"), (&two, "n2"), (&three, "n3")] {
            git(&place.store(), &["merge-base", "--is-ancestor", only(tree), only(&result)]);
            assert!(place.files(only(&result)).contains(&name.to_owned()), "{name}");
        }
    });
}

#[test]
fn a_side_that_a_resolution_left_out_is_a_conflict_at_the_next_merge() {
    let place = first();
    let one = place.step("one", &[], "echo one >d0/f0.txt");
    let two = place.step("two", &[], "rm d0/f0.txt");
    let mut copy = place.copy(&[("one", &one), ("two", &two)]);
    copy.holds_conflict = true;
    let prepared = place.prepare("solve", &copy);
    place.work(&prepared, "git merge --abort; echo again >d0/f0.txt; git commit -q -a -m mine");
    let solved = place.harvest("solve", &copy).tree;
    assert_eq!(place.file(only(&solved), "d0/f0.txt"), Some("again".to_owned()));
    let WorktreeError::Conflict(still) = join(&place, &place.copy(&[("solve", &solved), ("two", &two)])).unwrap_err()
    else {
        panic!("no conflict")
    };
    assert_eq!((still.files, still.theirs), (vec!["d0/f0.txt".to_owned()], "two".to_owned()));
    assert_eq!(place.collect().rescued, 0);
}

#[test]
fn drivers_of_a_repository_are_never_run_and_union_is_understood() {
    let place = first();
    std::fs::write(place.source().join(".gitattributes"), "log merge=union\nd0/* merge=evil\n").unwrap();
    std::fs::write(place.source().join("log"), "first\n").unwrap();
    boxes::change(place.source(), "attributes").unwrap();
    let evil = "git config merge.evil.driver 'touch /tmp/ran; true'; ";
    let one = place.step("one", &[], &format!("{evil} echo one >>log; echo one >d0/f0.txt"));
    let two = place.step("two", &[], "echo two >>log");
    let joined = join(&place, &place.copy(&[("one", &one), ("two", &two)])).unwrap();
    assert_eq!(place.file(only(&joined), "log"), Some("first\none\ntwo".to_owned()));
    let three = place.step("three", &[], "echo three >d0/f0.txt");
    assert!(matches!(join(&place, &place.copy(&[("one", &one), ("three", &three)])), Err(WorktreeError::Conflict(_))));
}

#[test]
fn sides_without_a_common_commit_are_refused_in_words() {
    let place = first();
    let one = place.step("one", &[], "echo one >n1");
    let two = place.step(
        "two",
        &[],
        "git checkout -q --orphan new; git rm -rqf .; echo two >n2; git add n2; git commit -q -m alone",
    );
    assert_eq!(place.files(only(&two)), ["n2"]);
    let error = join(&place, &place.copy(&[("one", &one), ("two", &two)])).unwrap_err().to_string();
    assert!(error.contains("no commit in common"), "{error}");
}
