//! What contradicts itself: named with files and sides, and brought together by an agent if there is one for it.

use serde_json::Value;

use crate::support::World;
use crate::{agent, assert_no_copies, files, made, pipeline, repository, result, run};

/// Keeps both sides of every file that contradicts itself; fails unless it was told which these are.
const JUDGE: &str = "\
for file in $(git diff --name-only --diff-filter=U); do
  grep -q \"$file\" \"$PROMPT\"
  sed -i '/^<<<<<<< /d; /^|||||||/d; /^=======$/d; /^>>>>>>> /d' \"$file\"
done
echo resolved
";

/// Elements of which each changes the same line.
fn elements(items: &str, more: &str) -> String {
    format!(
        "steps:\n  each: {{ foreach: [{items}], run: 'echo ${{{{ item }}}} > a.txt'{more} }}\n  after: {{ needs: each, run: cat a.txt }}\n"
    )
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn elements_that_change_the_same_file_fail_their_step() {
    let world = repository();
    pipeline(&world, "plain", &elements("p, q, r", ""));
    let flow = run(&world, 1, "plain");
    let ends = world.ends(&flow);
    assert_eq!(
        (ends["each"].as_str(), ends["after"].as_str(), ends["each[2]"].as_str()),
        ("failed", "skipped", "succeeded")
    );
    let explained = world.json(&["explain", &flow, "--step", "each"]);
    let said = &explained["explanations"][0];
    assert!(text(&said["reason"]).contains("`each[0]` and `each[1], each[2]` both changed a.txt"), "{said}");
    assert!(text(&said["unblocked_by"]).contains("`on_conflict`"), "{said}");
    // Nothing of what they made is lost.
    let shown = world.json(&["worktrees", "show", &flow]);
    let steps: Vec<String> = shown["results"].as_array().unwrap().iter().map(|one| text(&one["step"])).collect();
    for step in ["each[0]", "each[1]", "each[2]"] {
        assert!(steps.iter().any(|one| one == step), "{step} is not in {steps:?}");
    }
    assert_no_copies(&world);
}

#[test]
fn an_agent_brings_four_together_one_after_another() {
    let world = repository();
    agent(&world, "judge", JUDGE);
    pipeline(&world, "four", &elements("p, q, r, s", ", on_conflict: { agent: judge }"));
    let flow = run(&world, 0, "four");
    assert_eq!(result(&world, &flow), files(&[("a.txt", "p\nq\nr\ns")]));
    // Each of them is part of the history.
    let (store, commit) = made(&world, &flow);
    for at in 0..4 {
        let own = crate::commit_of(&world, &flow, &format!("each[{at}]"));
        crate::support::git(&store, &["merge-base", "--is-ancestor", &own, &commit]);
    }
    assert_no_copies(&world);
}

#[test]
fn an_agent_brings_parents_of_a_step_together_before_it_begins() {
    let world = repository();
    agent(&world, "judge", JUDGE);
    pipeline(
        &world,
        "parents",
        r#"
steps:
  left: { run: 'echo left > a.txt; echo left > b.txt' }
  right: { run: 'echo right > a.txt; echo right > b.txt' }
  both:
    needs: [left, right]
    on_conflict: { agent: judge }
    run: |
      printf 'left\nright\n' | cmp - a.txt
      test -z "$(git status --porcelain)"
      echo both > both
"#,
    );
    let flow = run(&world, 0, "parents");
    let wanted = [("a.txt", "left\nright"), ("b.txt", "left\nright"), ("both", "both")];
    assert_eq!(result(&world, &flow), files(&wanted));
    assert_no_copies(&world);
}

/// An agent that ends well and leaves what contradicts itself as it is.
fn assert_not_believed(text: &str) {
    let world: World = repository();
    agent(&world, "lazy", "echo done\n");
    pipeline(&world, "lazy", text);
    let flow = run(&world, 1, "lazy");
    let explained = world.json(&["explain", &flow]);
    assert!(explained.to_string().contains("both changed a.txt"), "{explained}");
    assert_no_copies(&world);
}

#[test]
fn an_agent_that_leaves_markers_is_not_believed() {
    assert_not_believed(&elements("p, q", ", on_conflict: { agent: lazy }"));
    assert_not_believed(concat!(
        "steps:\n",
        "  left: { run: 'echo left > a.txt' }\n",
        "  right: { run: 'echo right > a.txt' }\n",
        "  both: { needs: [left, right], on_conflict: { agent: lazy }, run: 'true' }\n",
    ));
}
