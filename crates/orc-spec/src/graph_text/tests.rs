use super::*;
use crate::{Library, SourceFile, compile};

fn pipeline(text: &str) -> Pipeline {
    compile(&SourceFile::new("p.yaml", text), &Library::empty()).pipeline.unwrap()
}

#[test]
fn steps_arrows_and_conditions_are_drawn() {
    let drawn = pipeline(
        "name: 'a \"b\"'\nworktree: in_place\nsteps:\n  look: { run: x }\n  \
         work: { run: x, needs: look, foreach: [1], as: part, if: \"flow.id == '<x> & \\\"y\\\"; #1'\" }\n",
    );
    let mermaid = "\
flowchart TD
  s0[\"look\"]
  s1[\"work<br>for each part<br>if flow.id == '#60;x#62; #38; #34;y#34;#59; #35;1'\"]
  s0 --> s1
";
    assert_eq!(to_mermaid(&drawn, &[]), mermaid);
    let dot = "\
digraph \"a \\\"b\\\"\" {
  node [shape=box];
  s0 [label=\"look\"];
  s1 [label=\"work\\nfor each part\\nif flow.id == '<x> & \\\"y\\\"; #1'\"];
  s0 -> s1;
}
";
    assert_eq!(to_dot(&drawn, &[]), dot);
}

#[test]
fn finally_is_set_apart() {
    let drawn = pipeline(
        "worktree: in_place\nsteps: { end: { run: x } }\nfinally: { z: { run: x }, y: { run: x, needs: z } }\n",
    );
    let mermaid = "\
flowchart TD
  subgraph steps
    s0[\"end\"]
  end
  subgraph finally
    s1[\"z\"]
    s2[\"y\"]
  end
  s1 --> s2
  steps -.-> finally
";
    assert_eq!(to_mermaid(&drawn, &[]), mermaid);
    assert!(to_dot(&drawn, &[]).contains("s1 [label=\"z\", style=dashed];"));
}

#[test]
fn the_states_of_a_flow_are_words_and_colours() {
    let drawn = pipeline("worktree: in_place\nsteps: { a: { run: x }, b: { run: x, needs: a } }\n");
    let mark = |tone, words: &str| Mark { tone, words: words.to_owned() };
    let marks = [mark(Tone::Succeeded, "succeeded"), mark(Tone::Failed, "failed: \"3\"")];
    let mermaid = "\
flowchart TD
  s0[\"a<br>succeeded\"]:::succeeded
  s1[\"b<br>failed#58; #34;3#34;\"]:::failed
  s0 --> s1
  classDef succeeded stroke:#1a7f37,stroke-width:2px
  classDef failed stroke:#cf222e,stroke-width:2px
";
    assert_eq!(to_mermaid(&drawn, &marks), mermaid);
    let dot = to_dot(&drawn, &marks);
    assert!(dot.contains("s1 [label=\"b\\nfailed: \\\"3\\\"\", color=\"#cf222e\"];"), "{dot}");
}
