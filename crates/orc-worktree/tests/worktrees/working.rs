//! What agents do with a copy works, and comes out as it is.

use crate::fixture::{check_each, git, only};

#[test]
fn what_is_left_uncommitted_becomes_a_commit_of_the_agent_on_top_of_its_own() {
    check_each(|place| {
        let base = place.repositories().remove(0).commit;
        let copy = place.copy(&[]);
        let prepared = place.prepare("edit", &copy);
        assert_eq!(
            place.work(&prepared, "git status --porcelain; git rev-parse HEAD; git symbolic-ref HEAD; pwd"),
            format!("{base}\nrefs/heads/main\n/workspace\n")
        );
        place.work(&prepared, "echo one >one.txt; git add one.txt; git commit -q -m one; echo two >two.txt; echo x >>d0/f0.txt; rm d0/f1.txt");
        let kept = place.harvest("edit", &copy);
        assert_eq!(kept.notes, Vec::<String>::new());
        let result = only(&kept.tree);
        assert_eq!(place.files(result), ["d0/f0.txt", "d0/f2.txt", "one.txt", "two.txt"]);
        let log = git(&place.store(), &["log", "--format=%an <%ae> %cn %s", result]);
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 3, "{log}");
        assert!(
            lines[0].starts_with("Coder (agent) <coder@agents.example.org> Coder (agent) ")
                && lines[0].contains("edit")
        );
        assert_eq!(lines[1], "Agent <agent@example.org> Agent one");
        let trailers = git(&place.store(), &["show", "-s", "--format=%(trailers)", result]);
        assert_eq!(trailers.trim(), "Orc-Run: run_1");
        assert_eq!(place.references(&format!("refs/orc/{}/edit", place.flow.file_name())).len(), 1);
        // Asked again with the same facts, it is the same commit.
        let again = place.harvest("edit", &copy);
        assert_eq!(only(&again.tree), result);
    });
}

#[test]
fn a_run_that_changes_nothing_ends_with_what_it_started_from() {
    check_each(|place| {
        let copy = place.copy(&[]);
        let prepared = place.prepare("look", &copy);
        place.work(&prepared, "cat d0/f0.txt; git log -1 --format=%s; git status; touch d0/f0.txt; git status");
        assert_eq!(place.harvest("look", &copy).tree, prepared.start);
    });
}

#[test]
fn directories_are_moved_and_removed_and_history_is_rewritten() {
    check_each(|place| {
        let copy = place.copy(&[]);
        let prepared = place.prepare("edit", &copy);
        let scripts = [
            "git mv d0 d1; git commit -q -m moved; mv d1 d2; git add -A; git commit -q -m again",
            "git stash list; echo x >>d2/f0.txt; git stash -q; git stash pop -q; git checkout -q -- .",
            "git checkout -q -b side HEAD~1; echo s >side.txt; git add -A; git commit -q -m side; git rebase -q main",
            "rm -r d2; mkdir d2; echo new >d2/new.txt; git add -A; git commit -q --amend -m 'all of it'",
        ];
        for script in scripts {
            place.work(&prepared, script);
        }
        let result = place.harvest("edit", &copy).tree;
        assert_eq!(place.files(only(&result)), ["d2/new.txt", "side.txt"]);
        // Somebody who starts from it has it, clean.
        let next = place.copy(&[("edit", &result)]);
        let prepared = place.prepare("next", &next);
        assert_eq!(prepared.start, result);
        assert_eq!(
            place.work(&prepared, "git status --porcelain; ls; git rev-parse HEAD").lines().collect::<Vec<_>>(),
            ["d2", "side.txt", only(&result)]
        );
    });
}

#[test]
fn the_next_flow_stands_on_the_ground_of_the_last_and_sees_only_its_own_commit() {
    check_each(|place| {
        // More than there may be layers.
        for number in 0..12 {
            if number > 0 {
                std::fs::remove_file(place.source().join(format!("n{}.txt", number - 1))).unwrap_or_default();
            }
            std::fs::write(place.source().join(format!("n{number}.txt")), "x").unwrap();
            let head = crate::boxes::change(place.source(), &format!("change {number}")).unwrap();
            let copy = place.copy(&[]);
            let prepared = place.prepare(&format!("step{number}"), &copy);
            let said = place.work(
                &prepared,
                "git status --porcelain; git rev-parse HEAD; ls n*; git fsck --no-progress --no-dangling 2>&1",
            );
            assert_eq!(said.lines().collect::<Vec<_>>(), [head.as_str(), &format!("n{number}.txt")]);
        }
    });
}
