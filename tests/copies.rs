//! Work in private copies, from a start to what comes of it: how it travels from step to step, what two that contradict
//! each other come to, and that the checkout is never touched.
//!
//! Every step here runs in a box, in a real copy of a real repository. Steps look at their copy themselves and fail when
//! it is not as it should be; what a flow made is looked at from outside, in the store that its references are in.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

#[path = "copies/agents.rs"]
mod agents;
#[path = "copies/boxes.rs"]
mod boxes;
#[path = "copies/conflicts.rs"]
mod conflicts;
#[path = "copies/killed.rs"]
mod killed;
#[path = "copies/leftovers.rs"]
mod leftovers;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use support::{World, git, lines, until};

/// A repository with one commit.
fn repository() -> World {
    let world = World::new();
    world.write("a.txt", "one\n");
    world.write("b.txt", "one\n");
    world.commit();
    world
}

fn pipeline(world: &World, name: &str, text: &str) {
    world.write(&format!("pipelines/{name}.yaml"), &format!("name: {name}\n{text}"));
}

/// An agent that carries out a script; the script lies in the repository, and so in each copy.
fn agent(world: &World, name: &str, script: &str) {
    let profile = format!("---\nadapter: command\ncommand: [sh, {name}.sh]\n---\nWork.\n");
    world.write(&format!("agents/{name}.md"), &profile);
    world.write(&format!("{name}.sh"), &format!("set -eu\nPROMPT=$HOME/prompt; cat > $PROMPT\n{script}"));
    world.commit();
}

/// A directory that boxes may write to and the test reads: a journal is there, and whoever waits.
struct Board(PathBuf);

impl Board {
    fn new(world: &World) -> Self {
        let path = world.path().join("board");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    /// The line of a pipeline that opens it to its boxes, as `$BOARD`.
    fn open(&self) -> String {
        let at = self.0.display();
        format!("box: {{ write: ['{at}'] }}\nenv: {{ BOARD: '{at}' }}\n")
    }

    fn put(&self, name: &str) {
        fs::write(self.0.join(name), "").unwrap();
    }

    fn journal(&self) -> Vec<String> {
        lines(self.0.join("journal"))
    }
}

/// The last commit of a flow and the store that it is in.
fn made(world: &World, flow: &str) -> (PathBuf, String) {
    let document = world.json(&["flows", "show", flow]);
    let made = document["made"].as_array().unwrap();
    assert_eq!(made.len(), 1, "{document}");
    let text = |key: &str| made[0][key].as_str().unwrap().to_owned();
    (text("store").into(), text("commit"))
}

/// Files that a flow made or changed, with what is in them.
fn result(world: &World, flow: &str) -> BTreeMap<String, String> {
    let (store, commit) = made(world, flow);
    let base = world.json(&["flows", "show", flow])["made"][0]["base"].as_str().unwrap().to_owned();
    let names = git(&store, &["diff", "--name-only", &base, &commit]);
    names.lines().map(|name| (name.to_owned(), git(&store, &["show", &format!("{commit}:{name}")]))).collect()
}

/// Pairs as a map, for comparing.
fn files(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// The commit that a step hands on.
fn commit_of(world: &World, flow: &str, step: &str) -> String {
    world.steps(flow)[step]["tips"][0]["tree"]["."].as_str().unwrap().to_owned()
}

/// Runs a pipeline to its end, which must be this code, and says which flow it was.
fn run(world: &World, code: i32, pipeline: &str) -> String {
    world.run_to(code, &["run", pipeline]);
    world.flow_of(pipeline).unwrap()
}

/// No copy is left, and the database is sound.
fn assert_no_copies(world: &World) {
    assert_eq!(world.json(&["worktrees", "list"])["worktrees"], serde_json::json!([]));
    assert_eq!(world.run_to(0, &["db", "check"]).out, "the database is as it should be\n");
}

/// Everything below a directory: kind and mode, when it was changed, and what is in it.
fn look(path: &Path, into: &mut BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)>) {
    let about = path.symlink_metadata().unwrap();
    let bytes = if about.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    into.insert(path.to_owned(), (about.mode(), about.mtime(), about.mtime_nsec(), bytes));
    if about.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| look(&entry.unwrap().path(), into));
    }
}

#[test]
fn a_checkout_is_the_same_before_and_after() {
    let world = repository();
    let script = world.write(
        "check.sh",
        "set -eu\n[ \"$(cat \"$1\")\" = one ]\n[ ! -e untracked ]\n[ -z \"$(git status --porcelain)\" ]\necho ok > \"$1.checked\"\n",
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    pipeline(
        &world,
        "check",
        r#"steps:
  list:
    run: printf 'files=%s\n' '["a.txt", "b.txt"]' >> "$ORC_OUTPUT"
  check:
    needs: [list]
    foreach: ${{ steps.list.output.files }}
    retry: { attempts: 3, backoff: 2s }
    run: ./check.sh ${{ item }}
  approve:
    needs: [check]
    approval: { message: All is well. Publish?, timeout: 2d }
finally:
  report: { run: "printf '%s\n' ${{ flow.summary }}" }
"#,
    );
    world.commit();
    // Changed, staged, and unknown to git: none of it is committed.
    world.write("a.txt", "changed\n");
    world.write("b.txt", "staged\n");
    git(&world.repo(), &["add", "b.txt"]);
    world.write("untracked", "mine\n");
    let mut before = BTreeMap::new();
    look(&world.repo(), &mut before);
    let running = world.start(&["run", "check"]);
    until("it asks", || {
        let open = world.run(&["approvals", "list", "--output", "json"]);
        open.out.contains("All is well")
    });
    let open = world.json(&["approvals", "list"]);
    world.run_to(0, &["approvals", "approve", open["requests"][0]["id"].as_str().unwrap()]);
    let said = running.wait();
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.err.contains("3 files of the checkout are not committed"), "{}", said.err);
    let mut after = BTreeMap::new();
    look(&world.repo(), &mut after);
    let changed: Vec<&PathBuf> =
        after.iter().filter(|(path, was)| before.get(*path) != Some(was)).map(|(path, _)| path).collect();
    assert_eq!((changed, before.len()), (Vec::new(), after.len()));
    let flow = world.flow_of("check").unwrap();
    assert_eq!(result(&world, &flow), files(&[("a.txt.checked", "ok"), ("b.txt.checked", "ok")]));
    assert_no_copies(&world);
}

#[test]
fn work_goes_from_step_to_step_and_comes_together() {
    let world = repository();
    pipeline(
        &world,
        "diamond",
        r"
inputs: { go: { type: boolean, default: false } }
steps:
  base: { run: 'echo base > base' }
  left: { needs: base, run: 'test -e base; echo left > left' }
  right: { needs: base, run: 'test -e base; echo right > right; git rm -q b.txt' }
  both: { needs: [left, right], run: 'test ! -e b.txt; cat base left right > both' }
  skipped: { needs: both, if: inputs.go, run: 'echo never > never' }
  after: { needs: skipped, if: always(), run: 'test ! -e never; cp both after' }
",
    );
    let flow = run(&world, 0, "diamond");
    assert_eq!(world.ends(&flow)["skipped"], "skipped");
    let (store, commit) = made(&world, &flow);
    let at = |name: &str| git(&store, &["show", &format!("{commit}:{name}")]);
    assert_eq!((at("after"), at("both")), ("base\nleft\nright".to_owned(), "base\nleft\nright".to_owned()));
    assert_eq!(git(&store, &["ls-tree", "--name-only", &commit, "b.txt", "never"]), "");
    // What a step handed on is part of the history of what came of it, as it was.
    for step in ["base", "left", "right", "both"] {
        git(&store, &["merge-base", "--is-ancestor", &commit_of(&world, &flow, step), &commit]);
    }
    assert_no_copies(&world);
}

#[test]
fn what_failed_hands_on_what_it_was_given() {
    let world = repository();
    pipeline(
        &world,
        "half",
        r"
steps:
  first: { run: 'echo first > first' }
  half: { needs: first, continue_on_fail: true, run: 'test -e first; echo half > half; git add half; git commit -qm half; echo more > more; exit 3' }
  next: { needs: half, run: 'test -e first; test ! -e half; test ! -e more; echo next > next' }
",
    );
    let flow = run(&world, 0, "half");
    assert_eq!(result(&world, &flow), files(&[("first", "first"), ("next", "next")]));
    // It is not lost: whoever wants it finds it.
    let document = world.json(&["worktrees", "show", &flow, "--step", "half"]);
    let rescued = &document["rescued"][0];
    let store = PathBuf::from(rescued["store"].as_str().unwrap());
    let at = |name: &str| git(&store, &["show", &format!("{}:{name}", rescued["reference"].as_str().unwrap())]);
    assert_eq!((at("half"), at("more")), ("half".to_owned(), "more".to_owned()));
    assert_no_copies(&world);
}

#[test]
fn a_step_may_have_no_copy_or_a_fresh_one() {
    let world = repository();
    pipeline(
        &world,
        "kinds",
        r#"
steps:
  first: { run: 'echo first > first' }
  none: { needs: first, worktree: none, run: 'test -z "$(ls -A)"; echo lost > lost' }
  next: { needs: none, run: 'test -e first; test ! -e lost; echo next > next' }
  fresh: { needs: next, worktree: fresh, run: 'test -e a.txt; test ! -e first; test ! -e next; echo fresh > fresh' }
  last: { needs: [next, fresh], run: 'test -e first; test -e next; test -e fresh' }
"#,
    );
    let flow = run(&world, 0, "kinds");
    assert_eq!(result(&world, &flow), files(&[("first", "first"), ("fresh", "fresh"), ("next", "next")]));
    assert_no_copies(&world);
}

#[test]
fn a_round_goes_on_from_the_one_before_and_none_without_change_follows() {
    let world = repository();
    pipeline(
        &world,
        "rounds",
        r#"
steps:
  grow:
    continue_on_fail: true
    repeat:
      max: 9
      until: ${{ steps.look.outcome == "failed" }}
      steps:
        add: { run: 'touch count; if [ "$(wc -l < count)" -lt 3 ]; then echo x >> count; fi' }
        look: { needs: add, run: 'test -s count' }
  after: { needs: grow, run: 'test "$(wc -l < count)" = 3; echo after > after' }
"#,
    );
    let flow = run(&world, 0, "rounds");
    assert_eq!(result(&world, &flow), files(&[("after", "after"), ("count", "x\nx\nx")]));
    let rounds = world.ends(&flow).keys().filter(|path| path.ends_with("/add")).count();
    assert_eq!(rounds, 4, "three that changed something, and one that did not");
    assert_no_copies(&world);
}

#[test]
fn a_child_begins_where_its_step_does_and_its_work_comes_back() {
    let world = repository();
    pipeline(
        &world,
        "above",
        r"
steps:
  first: { run: 'echo first > first' }
  below: { needs: first, pipeline: below }
  last: { needs: below, run: 'test -e first; test -e dug; test -e deeper; echo last > last' }
",
    );
    pipeline(
        &world,
        "below",
        r"
steps:
  dig: { run: 'test -e first; echo dug > dug' }
  deeper: { needs: dig, run: 'test -e dug; echo deeper > deeper' }
",
    );
    let flow = run(&world, 0, "above");
    let wanted = [("deeper", "deeper"), ("dug", "dug"), ("first", "first"), ("last", "last")];
    assert_eq!(result(&world, &flow), files(&wanted));
    assert_no_copies(&world);
}

#[test]
fn a_retry_takes_over_commits_and_begins_where_the_first_one_did() {
    let world = repository();
    let board = Board::new(&world);
    pipeline(
        &world,
        "twice",
        &format!(
            "{}{}",
            board.open(),
            r#"
steps:
  first: { run: 'echo first >> "$BOARD/journal"; echo first > first' }
  second: { needs: first, run: 'test -e first; test ! -e left; echo left > left; test -e "$BOARD/go"; rm left; echo second > second' }
  third: { needs: second, run: 'test -e second; echo third > third' }
"#
        ),
    );
    let flow = run(&world, 1, "twice");
    let first = commit_of(&world, &flow, "first");
    board.put("go");
    world.run_to(0, &["retry", &flow]);
    let again = world.flow_of("twice").unwrap();
    assert_ne!(again, flow);
    assert_eq!(result(&world, &again), files(&[("first", "first"), ("second", "second"), ("third", "third")]));
    assert_eq!(board.journal(), ["first"], "what succeeded is not done again");
    let (store, commit) = made(&world, &again);
    git(&store, &["merge-base", "--is-ancestor", &first, &commit]);
    assert_no_copies(&world);
}

#[test]
fn another_attempt_starts_from_the_same_commits() {
    let world = repository();
    let script = r#"
      git rev-parse HEAD >> "$BOARD/journal"
      [ -z "$(git status --porcelain --ignored)" ]
      [ -z "$(git stash list)" ] && [ ! -e .git/hooks/mine ]
      mkdir -p .git/hooks; echo x > .git/hooks/mine; echo stashed > a.txt; git stash -q
      echo committed > committed; git add committed; git commit -qm committed; echo left > left; echo changed > a.txt
      git branch other
      if [ "$ORC_ATTEMPT" -lt 3 ]; then exit 1; fi
      git reset -q --hard HEAD~1; rm left; echo done > done
"#;
    let board = Board::new(&world);
    let text = format!("steps:\n  it:\n    retry: {{ attempts: 3, backoff: 1ms }}\n    run: |{script}");
    pipeline(&world, "again", &format!("{}{text}", board.open()));
    let flow = run(&world, 0, "again");
    assert_eq!(result(&world, &flow), files(&[("done", "done")]));
    let starts = board.journal();
    assert_eq!((starts.len(), starts.iter().collect::<std::collections::BTreeSet<_>>().len()), (3, 1), "{starts:?}");
    assert_no_copies(&world);
}
