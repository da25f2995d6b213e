//! Whatever an agent makes of the repository in its copy: nothing of it runs outside of a box, nothing holds us up, and
//! what is in the files is kept.

use orc_domain::tree::Tree;
use orc_ports::worktrees::Worktrees;

use crate::fixture::{Place, check_each, first, only, wait};

/// Ruins a copy, and gives what is kept of it.
fn kept_after(place: &Place, step: &str, script: &str) -> (Tree, Vec<String>) {
    let copy = place.copy(&[]);
    let prepared = place.prepare(step, &copy);
    place.work(&prepared, &format!("echo work >work.txt; {script}"));
    let kept = place.harvest(step, &copy);
    (kept.tree, kept.notes)
}

#[test]
fn a_repository_that_cannot_be_used_costs_its_commits_and_no_file() {
    check_each(|place| {
        let ruins = [
            ("removed", "rm -rf .git"),
            ("a_file", "rm -rf .git; echo 'gitdir: /nowhere' >.git"),
            ("to_a_device", "rm -rf .git; echo 'gitdir: /dev' >.git"),
            ("a_link", "rm -rf .git; ln -s /proc .git"),
            ("no_head", "rm .git/HEAD"),
            ("broken_head", "head -c 100 /dev/zero >.git/HEAD"),
            ("broken_config", "echo '[[[' >.git/config"),
            ("no_objects", "echo c >c.txt; git add -A; git commit -q -m c; find .git/objects -type f -delete"),
            (
                "broken_object",
                "echo c >c.txt; git add -A; git commit -q -m c; chmod -R u+w .git/objects; \
                for f in $(find .git/objects/?? -type f); do echo broken >$f; done",
            ),
            ("a_pipe_as_head", "rm .git/HEAD; mkfifo .git/HEAD"),
            ("a_pipe_as_config", "rm .git/config; mkfifo .git/config"),
            ("a_pipe_as_ignore", "mkfifo .gitignore d0/.gitattributes"),
            ("pipes_in_a_nested_one", "git init -q in; rm in/.git/HEAD; mkfifo in/.git/HEAD in/.git/index"),
            ("an_included_pipe", "mkfifo /workspace/pipe; git config include.path /workspace/pipe"),
            ("broken_index", "echo x >.git/index"),
            ("no_index", "rm .git/index"),
        ];
        for (step, script) in ruins {
            let (tree, notes) = kept_after(place, step, script);
            let files = place.files(only(&tree));
            assert!(files.contains(&"work.txt".to_owned()), "{step}: {files:?} {notes:?}");
            assert!(files.contains(&"d0/f2.txt".to_owned()), "{step}: {files:?} {notes:?}");
        }
        assert_eq!(place.collect().rescued, 0, "everything was kept");
    });
}

#[test]
fn a_repository_with_a_broken_configuration_still_gives_its_commits() {
    check_each(|place| {
        let script = "echo c >c.txt; git add -A; git commit -q -m c; git checkout -q -b side; echo s >s.txt; git add -A; git commit -q -m s; \
            git checkout -q main; echo t >t.txt; git add -A; git stash -q; git pack-refs --all; echo '[[[' >.git/config; echo work >work.txt";
        let (tree, notes) = kept_after(place, "edit", script);
        assert_eq!(place.files(only(&tree)), ["c.txt", "d0/f0.txt", "d0/f1.txt", "d0/f2.txt", "work.txt"]);
        assert_eq!(notes.len(), 2, "{notes:?}");
        let moved = "echo c >c.txt; git add -A; git commit -q -m c; mv .git elsewhere; echo 'gitdir: elsewhere' >.git; echo elsewhere >.gitignore";
        let (tree, _) = kept_after(place, "moved", moved);
        assert!(place.files(only(&tree)).contains(&"c.txt".to_owned()));
        assert!(place.references(&format!("refs/orc/{}/moved/left", place.flow.file_name())).is_empty());
    });
}

#[test]
fn a_repository_with_other_references_inside_gives_its_commits() {
    let place = first();
    let script = "echo c >c.txt; git add -A; git commit -q -m c; git refs migrate --ref-format=reftable 2>/dev/null || exit 0; git checkout -q -b b";
    let (tree, notes) = kept_after(&place, "edit", script);
    assert!(place.files(only(&tree)).contains(&"c.txt".to_owned()), "{notes:?}");
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn nothing_that_an_agent_configured_runs_while_its_work_is_kept() {
    let place = first();
    let evil = "touch /workspace/ran";
    let script = format!(
        "for key in core.fsmonitor core.editor core.pager diff.external filter.x.clean filter.x.smudge filter.x.process \
           merge.x.driver core.sshCommand gpg.program uploadpack.packObjectsHook alias.add alias.rev-parse \
           diff.x.textconv core.hooksPath; do git config $key '{evil}'; done
         echo '* filter=x diff=x merge=x' >.gitattributes
         mkdir -p .git/hooks; for hook in pre-commit post-commit post-index-change reference-transaction post-checkout; do
           printf '#!/bin/sh\\n{evil}\\n' >.git/hooks/$hook; chmod +x .git/hooks/$hook; done
         git config core.hooksPath .git/hooks; rm -f ran"
    );
    let (tree, _) = kept_after(&place, "edit", &script);
    assert_eq!(place.files(only(&tree)), [".gitattributes", "d0/f0.txt", "d0/f1.txt", "d0/f2.txt", "work.txt"]);
}

#[test]
fn another_work_tree_and_hidden_changes_are_seen_through() {
    let place = first();
    let script = "echo x >>d0/f0.txt; git update-index --assume-unchanged d0/f0.txt; echo x >>d0/f1.txt; \
        git update-index --skip-worktree d0/f1.txt; git config core.worktree /tmp; git config core.bare true; \
        echo '*' >.git/info/attributes; git config core.ignoreStat true; git config core.fileMode false";
    let (tree, _) = kept_after(&place, "edit", script);
    for file in ["d0/f0.txt", "d0/f1.txt"] {
        assert!(place.file(only(&tree), file).unwrap().ends_with("\nx"), "{file}");
    }
}

#[test]
fn what_a_sparse_checkout_left_out_is_not_removed() {
    let place = first();
    let script = "mkdir d1; echo x >d1/x; git add -A; git commit -q -m d1; git sparse-checkout set d1; [ ! -e d0 ]; echo y >d1/y";
    let (tree, _) = kept_after(&place, "edit", script);
    assert_eq!(place.files(only(&tree)), ["d0/f0.txt", "d0/f1.txt", "d0/f2.txt", "d1/x", "d1/y", "work.txt"]);
}

#[test]
fn ignored_files_stay_behind_unless_they_were_added() {
    let place = first();
    let script = "echo '*.o' >.gitignore; echo o >a.o; echo o >b.o; git add -f b.o; echo local >local; echo local >.git/info/exclude";
    let (tree, _) = kept_after(&place, "edit", script);
    let files = place.files(only(&tree));
    assert!(files.contains(&"b.o".to_owned()) && !files.contains(&"a.o".to_owned()), "{files:?}");
    assert!(!files.contains(&"local".to_owned()));
}

#[test]
fn stashes_branches_and_repositories_inside_are_kept_beside_the_result_and_said() {
    check_each(|place| {
        let script = "echo s >stashed; git add stashed; git stash -q; \
            git checkout -q -b side; echo b >branched; git add branched; git commit -q -m branched; git checkout -q main; \
            git init -q inside; echo n >inside/nested.txt; git init -q inside2; (cd inside2; echo m >m.txt; git add m.txt; git commit -q -m m); \
            echo work >work.txt";
        let (tree, notes) = kept_after(place, "edit", script);
        assert_eq!(place.files(only(&tree)), ["d0/f0.txt", "d0/f1.txt", "d0/f2.txt", "work.txt"]);
        let said = notes.join("\n");
        for what in
            ["a stash is not", "`side` is not", "the repository `inside/` inside", "the repository `inside2/` inside"]
        {
            assert!(
                said.replace("inside`", "inside/`").replace("inside2`", "inside2/`").contains(what),
                "{what}: {said}"
            );
        }
        let mut files = Vec::new();
        for reference in place.references(&format!("refs/orc/{}/edit/left", place.flow.file_name())) {
            files.extend(place.files(&reference));
        }
        for file in ["stashed", "branched", "nested.txt", "m.txt"] {
            assert!(files.contains(&file.to_owned()), "{file}: {files:?}");
        }
        assert_eq!(place.collect().rescued, 0);
    });
}

#[test]
fn closed_files_deep_folders_and_odd_names_are_kept() {
    let place = first();
    let script = "mkdir closed; echo c >closed/c; chmod 000 closed/c closed; printf x >'a b'; printf x >\"$(printf 'n\\nl')\"; \
        printf x >-dash; ln -s /etc/passwd link; ln -s d0 dirlink; printf x >'*'; \
        deep=; for n in $(seq 60); do deep=${deep}deeeeeeeeeeeeeeeeep/; done; mkdir -p $deep; echo d >${deep}d";
    let (tree, _) = kept_after(&place, "edit", script);
    let files = place.files(only(&tree));
    for file in ["closed/c", "a b", "\"n\\nl\"", "-dash", "link", "dirlink", "*", "work.txt"] {
        assert!(files.contains(&file.to_owned()), "{file}: {files:?}");
    }
    assert_eq!(place.file(only(&tree), "link"), Some("/etc/passwd".to_owned()), "a link stays a link");
}

#[test]
fn a_folder_becomes_a_link_and_a_file_a_folder() {
    check_each(|place| {
        let (tree, notes) =
            kept_after(place, "edit", "mv d0 d9; ln -s d9 d0; rm d9/f0.txt; mkdir d9/f0.txt; echo x >d9/f0.txt/x");
        assert_eq!(place.files(only(&tree)), ["d0", "d9/f0.txt/x", "d9/f1.txt", "d9/f2.txt", "work.txt"], "{notes:?}");
    });
}

#[test]
fn objects_that_git_would_not_accept_from_others_do_not_come_in() {
    let place = first();
    let script = "blob=$(echo evil | git hash-object -w --stdin); \
        tree=$(printf '100644 blob %s\\t.git\\n' $blob | git mktree); \
        tree=$(printf '040000 tree %s\\td\\n' $tree | git mktree); \
        git update-ref refs/heads/main $(git commit-tree -m evil -p HEAD $tree)";
    let (tree, notes) = kept_after(&place, "edit", script);
    let files = place.files(only(&tree));
    assert!(files.contains(&"work.txt".to_owned()) && !files.iter().any(|file| file.contains(".git")), "{files:?}");
    assert!(notes[0].contains("cannot be used"), "{notes:?}");
}

#[test]
fn a_graph_that_lies_and_replaced_objects_are_not_believed() {
    let place = first();
    let script = "echo c >c.txt; git add -A; git commit -q -m c; \
        git replace HEAD HEAD~1; mkdir -p .git/info; echo $(git rev-parse HEAD) >.git/info/grafts; \
        git commit-graph write --reachable 2>/dev/null || :; chmod u+w .git/objects/info/commit-graph 2>/dev/null || :; \
        if [ -e .git/objects/info/commit-graph ]; then head -c 2000 /dev/urandom >.git/objects/info/commit-graph; fi";
    let (tree, _) = kept_after(&place, "edit", script);
    assert_eq!(place.files(only(&tree)), ["c.txt", "d0/f0.txt", "d0/f1.txt", "d0/f2.txt", "work.txt"]);
}

#[test]
fn a_patch_is_cut_and_runs_nothing() {
    let place = first();
    let copy = place.copy(&[]);
    let prepared = place.prepare("edit", &copy);
    place.work(&prepared, "seq 10000 >numbers; git config diff.external 'touch /workspace/ran'");
    let refused = wait(place.trees().diff(place.conversation("edit"), 1000)).unwrap_err().to_string();
    assert!(refused.contains("works in the copy"), "{refused}");
    wait(place.trees().release(place.run("edit"))).unwrap();
    let patch = wait(place.trees().diff(place.conversation("edit"), 1000)).unwrap();
    assert!(patch.starts_with("diff --git a/numbers b/numbers") && patch.len() == 1000, "{}", patch.len());
}
