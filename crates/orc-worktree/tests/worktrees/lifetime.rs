//! Who has a copy, and when it goes.

use std::collections::BTreeSet;

use orc_domain::ids::FlowId;
use orc_domain::tree::{CommitId, PrivateCopy};
use orc_ports::worktrees::{CopyState, Owners, Worktrees};
use orc_worktree::{Choice, Strategy};

use crate::boxes;
use crate::fixture::{Place, check_each, first, git, only, wait};

fn state(place: &Place, step: &str) -> Option<CopyState> {
    let entries = wait(place.trees().list()).unwrap();
    entries.into_iter().find(|entry| entry.conversation == place.conversation(step)).map(|entry| entry.state)
}

#[test]
fn a_lease_lasts_as_long_as_its_run_or_its_instance() {
    check_each(|place| {
        let copy = place.copy(&[]);
        let prepared = place.prepare("edit", &copy);
        assert_eq!(state(place, "edit"), Some(CopyState::Leased));
        let other = wait(place.trees().prepare(place.conversation("edit"), place.run("other"), copy.clone()));
        assert!(other.unwrap_err().to_string().contains("in use by"));
        assert_eq!(place.collect().copies, 0, "a copy that a run has stays");
        place.work(&prepared, "echo x >x");
        wait(place.trees().release(place.run("edit"))).unwrap();
        assert_eq!(state(place, "edit"), Some(CopyState::Unsaved));
        // Another run goes on where that one was.
        let goes_on = PrivateCopy { goes_on: true, ..copy.clone() };
        let prepared = wait(place.trees().prepare(place.conversation("edit"), place.run("other"), goes_on)).unwrap();
        assert_eq!(place.work(&prepared, "cat x"), "x\n");
        place.restart();
        assert_eq!(state(place, "edit"), Some(CopyState::Unsaved), "the lease of an instance that is gone is over");
        let freed = place.collect();
        assert_eq!((freed.copies, freed.rescued), (1, 1));
        assert_eq!(state(place, "edit"), None);
        let rescued = place.references("refs/orc/rescue");
        assert_eq!(place.file(&rescued[0], "x"), Some("x".to_owned()));
    });
}

#[test]
fn a_copy_that_was_only_looked_at_goes_with_what_is_in_it_and_no_other() {
    check_each(|place| {
        let (one, two) = (place.step("one", &[], "echo 1 >one"), place.step("two", &[], "echo 2 >two"));
        let copy = place.copy(&[("one", &one), ("two", &two)]);
        let known = place.references("refs/orc");
        let prepared = place.prepare("look", &copy);
        place.work(&prepared, "echo x >x; git add x; git stash -q; chmod 0 one; cat two");
        let refused =
            wait(place.trees().discard(place.conversation("one"), place.run("look"))).unwrap_err().to_string();
        assert!(refused.contains("in use by"), "{refused}");
        for _ in 0..2 {
            wait(place.trees().discard(place.conversation("look"), place.run("look"))).unwrap();
            assert_eq!((state(place, "look"), state(place, "one")), (None, Some(CopyState::Saved)));
            assert_eq!(place.references("refs/orc"), known, "nothing of it is rescued");
        }
    });
}

#[test]
fn a_copy_that_does_not_go_on_is_made_anew_and_what_was_in_it_is_rescued() {
    check_each(|place| {
        let copy = place.copy(&[]);
        let prepared = place.prepare("edit", &copy);
        place.work(&prepared, "echo u >uncommitted; git add uncommitted; git stash -q; echo n >untracked");
        let prepared = place.prepare("edit", &copy);
        assert_eq!(place.work(&prepared, "git status --porcelain; git stash list; ls"), "d0\n");
        let mut files = BTreeSet::new();
        for reference in place.references("refs/orc/rescue") {
            files.extend(place.files(&reference));
        }
        assert!(files.contains("uncommitted") && files.contains("untracked"), "{files:?}");
        // Nobody worked in this one, so there is nothing to rescue.
        let before = place.references("refs/orc/rescue");
        place.prepare("edit", &copy);
        assert_eq!(place.references("refs/orc/rescue"), before);
    });
}

#[test]
fn what_was_harvested_goes_without_a_rescue_and_its_bytes_are_counted() {
    check_each(|place| {
        let result = place.step("edit", &[], "head -c 3000000 /dev/urandom >big; echo x >x");
        assert_eq!(state(place, "edit"), Some(CopyState::Saved));
        let entry = wait(place.trees().list()).unwrap().remove(0);
        assert!(entry.references.iter().any(|one| one.name.ends_with("/edit/1")), "{entry:?}");
        // Written to disk, so that every file system knows the blocks.
        boxes::run(place.root(), "sync", &["-f", "."]).unwrap();
        let freed = place.collect();
        assert_eq!((freed.copies, freed.rescued), (1, 0));
        assert!((3_000_000..60_000_000).contains(&freed.bytes), "{freed:?}");
        assert_eq!(place.collect().copies, 0);
        assert!(place.files(only(&result)).contains(&"big".to_owned()), "the result stays");
        let tips = [orc_domain::tree::Tip { by: "edit".to_owned(), tree: result }];
        let saved = place.trees().saved(&place.repositories(), &tips);
        assert_eq!(saved.len(), 1);
        assert!(saved[0].name.ends_with("/edit/1"));
    });
}

#[test]
fn a_copy_that_goes_on_after_its_harvest_is_unsaved_again() {
    check_each(|place| {
        let copy = place.copy(&[]);
        let prepared = place.prepare("edit", &copy);
        place.work(&prepared, "echo 1 >one");
        let one = place.harvest("edit", &copy).tree;
        let prepared = place.prepare("edit", &PrivateCopy { goes_on: true, ..copy.clone() });
        assert_eq!(prepared.start, place.start(), "what it is compared with stays the first start");
        place.work(&prepared, "echo 2 >two");
        wait(place.trees().release(place.run("edit"))).unwrap();
        assert_eq!(place.collect().rescued, 1);
        let rescued = place.references("refs/orc/rescue");
        assert_eq!(place.files(&rescued[0]), ["d0/f0.txt", "d0/f1.txt", "d0/f2.txt", "one", "two"]);
        assert!(!place.files(only(&one)).contains(&"two".to_owned()));
    });
}

#[test]
fn what_nobody_knows_stays_and_is_said() {
    let place = first();
    place.step("edit", &[], "echo x >x");
    let flow = place.root().join("copies").join(place.flow.file_name());
    for unknown in [flow.join("strange"), place.root().join("copies/other")] {
        std::fs::create_dir(&unknown).unwrap();
        std::fs::write(unknown.join("file"), "x").unwrap();
    }
    let error = wait(place.trees().collect(place.flow)).unwrap_err().to_string();
    assert!(error.contains("strange") && error.contains("remove it by hand"), "{error}");
    let owners = wait(place.trees().owners()).unwrap();
    assert_eq!(owners.flows, BTreeSet::from([place.flow]));
    assert_eq!(owners.unknown, [place.root().join("copies/other")]);
    assert!(flow.join("strange/file").exists());
    std::fs::write(flow.join("strange/copy.json"), "{").unwrap();
    let error = wait(place.trees().collect(place.flow)).unwrap_err().to_string();
    assert!(error.contains("copy.json"), "{error}");
    // It keeps no other copy from being listed.
    assert_eq!(wait(place.trees().list()).unwrap().len(), 0);
}

#[test]
fn grounds_that_nothing_stands_on_go() {
    check_each(|place| {
        for number in 0..3 {
            let step = format!("step{number}");
            place.prepare(&step, &place.copy(&[]));
            boxes::change(place.source(), &step).unwrap();
        }
        place.restart();
        let grounds = |place: &Place| {
            let shelf = std::fs::read_dir(place.root().join("bases")).unwrap().next().unwrap().unwrap().path();
            std::fs::read_dir(shelf.join(place.strategy().word())).unwrap().count()
        };
        assert_eq!((wait(place.trees().tidy()).unwrap(), grounds(place)), (0, 3), "copies stand on all of them");
        assert_eq!(place.collect().copies, 3);
        assert_eq!(wait(place.trees().owners()).unwrap(), Owners::default());
        let bytes = wait(place.trees().tidy()).unwrap();
        assert_eq!(bytes > 0, place.strategy() != Strategy::Overlay);
        // With overlays the newest stands on the others.
        let stays = if place.strategy() == Strategy::Overlay { 3 } else { 1 };
        assert_eq!(grounds(place), stays);
        place.prepare("after", &place.copy(&[]));
    });
}

#[test]
fn grounds_that_became_many_go_without_a_word() {
    let mut place = Place::new(Strategy::Clone);
    for number in 0..14 {
        place.prepare(&format!("step{number}"), &place.copy(&[]));
        boxes::change(place.source(), &format!("step{number}")).unwrap();
    }
    place.restart();
    place.collect();
    // Waits for what is done in the background.
    place.restart();
    let shelf = std::fs::read_dir(place.root().join("bases")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(std::fs::read_dir(shelf.join("clone")).unwrap().count(), 1);
}

#[test]
fn many_packs_and_references_become_few_and_nothing_is_lost() {
    let mut place = first();
    let many = |place: &Place| {
        let packs = std::fs::read_dir(place.store().join("objects/pack")).unwrap();
        packs.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "pack")).count()
    };
    let mut results = Vec::new();
    for number in 0..52 {
        results.push(place.step(&format!("step{number}"), &[], &format!("echo {number} >made")));
    }
    assert!(many(&place) > 50);
    place.collect();
    place.restart();
    assert!(many(&place) < 10, "{}", many(&place));
    for (number, result) in results.iter().enumerate() {
        assert_eq!(place.file(only(result), "made"), Some(number.to_string()));
        assert!(place.references("refs/orc").iter().any(|name| name.ends_with(&format!("/step{number}/1"))));
    }
    assert_eq!(git(&place.store(), &["fsck", "--no-dangling", "--no-progress"]), "");
}

#[test]
fn references_of_a_flow_that_is_forgotten_go_but_those_that_others_need() {
    let place = first();
    let one = place.step("one", &[], "echo 1 >one");
    place.step("two", &[], "echo 2 >two");
    let needed: BTreeSet<CommitId> = one.0.values().cloned().collect();
    let nobody = FlowId::from_uuid(uuid::Uuid::now_v7());
    let before = place.references("refs/orc");
    wait(place.trees().forget(BTreeSet::from([nobody]), needed.clone())).unwrap();
    assert_eq!(place.references("refs/orc"), before);
    wait(place.trees().forget(BTreeSet::from([place.flow, nobody]), needed)).unwrap();
    let after = place.references("refs/orc");
    assert!(after.iter().any(|name| name.ends_with("/one/1")), "{after:?}");
    assert!(!after.iter().any(|name| name.ends_with("/two/1")), "{after:?}");
    assert!(after.iter().any(|name| name.starts_with("refs/orc/base/")), "what flows start from stays");
}

#[test]
fn many_at_once_make_one_ground() {
    check_each(|place| {
        let copy = place.copy(&[]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let all = (0..12).map(|number| {
            let step = format!("step{number}");
            place.trees().prepare(place.conversation(&step), place.run(&step), copy.clone())
        });
        let prepared = runtime.block_on(futures_util::future::try_join_all(all)).unwrap();
        for (number, copy) in prepared.iter().enumerate() {
            place.work(copy, &format!("[ -z \"$(git status --porcelain)\" ]; echo {number} >n"));
        }
        let shelf = std::fs::read_dir(place.root().join("bases")).unwrap().next().unwrap().unwrap().path();
        assert_eq!(std::fs::read_dir(shelf.join(place.strategy().word())).unwrap().count(), 1);
    });
}

#[test]
fn a_strategy_is_stated_and_never_replaced() {
    let place = first();
    assert_eq!(place.trees().strategy(), place.strategy());
    let probed = place.trees().probed().clone();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("trees");
    let error = crate::fixture::open(&root, Strategy::Btrfs, &place.sandbox);
    if probed.btrfs.is_err() {
        let text = format!("{:#}", error.err().unwrap());
        assert!(text.contains("`btrfs` does not work in") && text.contains("not btrfs"), "{text}");
    }
    assert_eq!(probed.choose(Choice::Fixed(Strategy::Clone), &root), Ok(Strategy::Clone));
}

#[test]
fn deep_and_closed_folders_of_a_copy_can_be_removed() {
    let mut place = first();
    let copy = place.copy(&[]);
    let prepared = place.prepare("edit", &copy);
    // Deeper than there are descriptors.
    place.work(
        &prepared,
        "echo 'x*' >.gitignore; for n in $(seq 1500); do mkdir x; cd x; done; cd /workspace; \
        mkdir xclosed; touch xclosed/f; chmod 000 xclosed",
    );
    place.harvest("edit", &copy);
    assert_eq!(place.collect().copies, 1);
    // Waits for what is removed in the background.
    place.restart();
    place.restart();
    let trash = place.root().join("trash");
    assert_eq!(std::fs::read_dir(trash).unwrap().count(), 0);
    assert_eq!(git(&place.store(), &["fsck", "--no-dangling", "--no-progress"]), "");
}
