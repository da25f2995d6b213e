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

#[test]
fn every_kind_says_what_it_is_and_bodies_are_clusters() {
    let text = "worktree: in_place\nsteps:\n  ask: { approval: [alice, bob] }\n  admin: { approval: {} }\n  \
                rest: { wait: 10m }\n  till: { wait: { until: \"2026-12-24T18:00:00Z\" } }\n  \
                other: { wait: { event: FlowFinished, pipeline: ship } }\n  cells: { run: x, matrix: { os: [a, b] } }\n  \
                fix:\n    needs: ask\n    repeat:\n      max: 3\n      until: steps.deep.outcome == 'succeeded'\n      \
                steps: { test: { run: x }, deep: { needs: test, repeat: { max: 2, steps: { inner: { run: x } } } } }\n";
    let drawn = pipeline(text);
    let mermaid = "\
flowchart TD
  s0[\"ask<br>approval by alice, bob\"]
  s1[\"admin<br>approval\"]
  s2[\"rest<br>wait 10m\"]
  s3[\"till<br>wait until 2026-12-24T18#58;00#58;00Z\"]
  s4[\"other<br>wait for FlowFinished of ship\"]
  s5[\"cells<br>matrix of 2\"]
  s6[\"fix<br>at most 3 rounds, until steps.deep.outcome == 'succeeded'\"]
  subgraph b6[\"each round of fix\"]
    s7[\"test\"]
    s8[\"deep<br>2 rounds\"]
    subgraph b8[\"each round of deep\"]
      s9[\"inner\"]
    end
  end
  s0 --> s6
  s7 --> s8
  s6 -.-> s7
  s8 -.-> s9
";
    assert_eq!(to_mermaid(&drawn, &[]), mermaid);
    let dot = to_dot(&drawn, &[]);
    let clusters = "
  subgraph cluster_6 {
    label=\"each round of fix\";
    s7 [label=\"test\"];
    s8 [label=\"deep\\n2 rounds\"];
    subgraph cluster_8 {
      label=\"each round of deep\";
      s9 [label=\"inner\"];
    }
  }
";
    assert!(dot.contains(clusters) && dot.contains("s6 -> s7 [style=dotted];"), "{dot}");
}
