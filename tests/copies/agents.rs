//! Agents in their copies: what one finds when it goes on, and whose its commits are.

use rustix::process::Signal;

use crate::support::{git, until};
use crate::{Board, agent, assert_no_copies, commit_of, files, made, pipeline, repository, result, run};

#[test]
fn one_that_is_reminded_goes_on_in_its_copy() {
    let world = repository();
    agent(
        &world,
        "coder",
        r#"
if [ ! -e half ]; then echo half > half; echo 'All done.'; exit 0; fi
[ -n "$(git status --porcelain half)" ]
echo whole > whole
echo '{"type":"output","value":{"verdict":"pass"}}'
"#,
    );
    let owes = "output: { schema: { type: object, required: [verdict] } }";
    pipeline(&world, "owe", &format!("steps:\n  it: {{ agent: coder, prompt: Do it., {owes} }}\n"));
    let flow = run(&world, 0, "owe");
    assert_eq!(result(&world, &flow), files(&[("half", "half"), ("whole", "whole")]));
    assert_eq!(world.steps(&flow)["it"]["attempts"], 2);
    assert_no_copies(&world);
}

#[test]
fn one_that_was_lost_goes_on_in_its_copy() {
    let world = repository();
    let board = Board::new(&world);
    agent(
        &world,
        "coder",
        r#"
echo "$ORC_WAKE_REASON" >> "$BOARD/journal"
if [ "$ORC_WAKE_REASON" = pipelineStep ]; then
  echo mine > mine; git add mine; git commit -qm mine; echo half > half; touch "$BOARD/at"
  while :; do sleep 0.02; done
fi
[ -n "$(git status --porcelain half)" ]
[ "$(git log -1 --format=%s)" = mine ]
echo whole > whole; echo done
"#,
    );
    pipeline(&world, "lost", &format!("{}steps:\n  it: {{ agent: coder, prompt: Do it. }}\n", board.open()));
    let running = world.start(&["run", "lost"]);
    until("it has worked", || board.0.join("at").exists());
    running.signal(Signal::KILL);
    drop(running.wait());
    world.run_to(0, &["flows", "resume", "--all"]);
    let flow = world.flow_of("lost").unwrap();
    assert_eq!(board.journal(), ["pipelineStep", "recovery"]);
    assert_eq!(result(&world, &flow), files(&[("half", "half"), ("mine", "mine"), ("whole", "whole")]));
    assert_no_copies(&world);
}

#[test]
fn its_commits_are_its_own_and_name_who_asked() {
    let world = repository();
    let uid = rustix::process::getuid().as_raw();
    world.write("orchestrator.yaml", &format!("people: {{ ann: {{ os: {uid}, github: 4711, role: admin }} }}\n"));
    agent(&world, "coder", "echo mine > mine; git add mine; git commit -qm 'By hand'; echo left > left; echo done\n");
    pipeline(
        &world,
        "who",
        r"
steps:
  it: { agent: coder, prompt: Do it. }
  explicit:
    needs: it
    agent: coder
    prompt: Do it.
    env: { GIT_AUTHOR_NAME: Bob, GIT_AUTHOR_EMAIL: bob@example.org }
  command: { needs: explicit, run: 'echo command > command' }
",
    );
    world.write("coder.sh", "cat > /dev/null\necho $ORC_STEP > $ORC_STEP; git add .; git commit -qm 'By hand'; echo $ORC_STEP > left; echo done\n");
    world.commit();
    let flow = run(&world, 0, "who");
    let (store, _) = made(&world, &flow);
    let show = |commit: &str, format: &str| git(&store, &["show", "-s", &format!("--format={format}"), commit]);
    let own = commit_of(&world, &flow, "it");
    let (by_hand, of_ours) = (format!("{own}~1"), own.clone());
    for commit in [&by_hand, &of_ours] {
        let (author, committer) = (show(commit, "%an <%ae>"), show(commit, "%cn <%ce>"));
        assert!(author.starts_with("coder (agent) <agent-"), "{author}");
        assert!(author.ends_with("@agents.orchestrator.local>"), "{author}");
        assert_eq!(committer, author);
    }
    assert_eq!(show(&by_hand, "%s"), "By hand");
    let trailer = show(&of_ours, "%(trailers:key=Co-Authored-By,valueonly)");
    assert_eq!(trailer, "ann <4711+ann@users.noreply.github.com>");
    let explicit = format!("{}~1", commit_of(&world, &flow, "explicit"));
    assert_eq!(show(&explicit, "%an <%ae>"), "Bob <bob@example.org>");
    assert!(show(&explicit, "%cn").starts_with("coder (agent)"), "whom nobody named stays");
    let command = show(&commit_of(&world, &flow, "command"), "%an <%ae>");
    assert!(!command.contains("agent-") && command.ends_with("@agents.orchestrator.local>"), "{command}");
    assert_no_copies(&world);
}
