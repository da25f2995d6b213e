use proptest::prelude::*;

use super::*;
use crate::graph_text::Tone;
use crate::{Library, SourceFile, compile};

fn pipeline(text: &str) -> Pipeline {
    let compiled = compile(&SourceFile::new("p.yaml", text), &Library::empty());
    compiled.pipeline.unwrap_or_else(|| panic!("{:?}\n{text}", compiled.diagnostics))
}

/// Elements open and close in order, texts hold no markup, attributes are quoted: enough to find text that broke out.
fn is_well_formed(xml: &str) -> bool {
    let (mut open, mut rest) = (Vec::new(), xml);
    while let Some(start) = rest.find('<') {
        if rest[..start].contains('>') {
            return false;
        }
        let Some(length) = rest[start..].find('>') else { return false };
        let tag = &rest[start + 1..start + length];
        rest = &rest[start + length + 1..];
        let name = |tag: &str| tag.split([' ', '/']).next().unwrap_or_default().to_owned();
        match tag.strip_prefix('/') {
            Some(closed) if open.pop().as_deref() != Some(closed) => return false,
            Some(_) => {}
            None if tag.contains('<') || tag.matches('"').count() % 2 == 1 => return false,
            None if tag.ends_with('/') => {}
            None => open.push(name(tag)),
        }
    }
    open.is_empty() && rest.trim().is_empty()
}

#[test]
fn a_flow_is_drawn_with_words_for_its_states() {
    let drawn = pipeline(
        "worktree: in_place\nsteps:\n  look: { run: x }\n  work: { run: x, needs: look, if: \"flow.id == '<x> & \\\"y\\\"'\" }\nfinally:\n  last: { run: x }\n",
    );
    let mark = |tone, words: &str| Mark { tone, words: words.to_owned() };
    let marks =
        [mark(Tone::Succeeded, "succeeded"), mark(Tone::Runs, "runs </text><script>"), mark(Tone::Waits, "waits")];
    let svg = to_svg(&drawn, &marks, "ship & <co>");
    assert!(is_well_formed(&svg), "{svg}");
    assert!(svg.contains("<title id=\"title\">ship &amp; &lt;co&gt;</title>"), "{svg}");
    assert!(svg.contains("<g class=\"step succeeded\">") && svg.contains("<g class=\"step runs\">"), "{svg}");
    assert!(svg.contains(">if flow.id == '&lt;x&gt; &amp; &quot;y&quot;'</text>"), "{svg}");
    assert!(svg.contains(">runs &lt;/text&gt;&lt;script&gt;</text>") && !svg.contains("<script"), "{svg}");
    assert!(svg.contains("work after look: runs"), "said in words: {svg}");
    assert!(svg.contains(">finally</text>") && svg.contains("arrow after"), "{svg}");
    assert!(svg.contains("prefers-color-scheme:dark"));
    // One arrow that was asked for, one to `finally`.
    assert_eq!(svg.matches("marker-end").count(), 2);
}

#[test]
fn bodies_are_reached_by_dotted_arrows() {
    let drawn = pipeline(
        "worktree: in_place\nsteps:\n  a: { repeat: { max: 2, steps: { b: { run: x }, c: { run: x, needs: b } } } }\n  d: { wait: 1s, needs: a }\n",
    );
    let svg = to_svg(&drawn, &[], "p");
    assert!(is_well_formed(&svg), "{svg}");
    assert_eq!((svg.matches("\"arrow after\"").count(), svg.matches("\"arrow\"").count()), (1, 2), "{svg}");
    assert!(svg.contains("a; d after a; b (each round of a); c (each round of a) after b"), "{svg}");
    assert!(svg.contains(">2 rounds</text>") && svg.contains(">wait 1s</text>"), "{svg}");
}

#[test]
fn what_xml_cannot_say_is_not_said() {
    assert_eq!(escaped("a\u{0}b\u{1b}[31m\n"), "a\u{fffd}b\u{fffd}[31m\u{fffd}");
    assert_eq!(cut(&"x".repeat(100)).chars().count(), LONGEST);
}

proptest! {
    #[test]
    fn every_step_is_drawn_once(needs in proptest::collection::vec(proptest::collection::btree_set(0_usize..20, 0..4), 1..20)) {
        let mut text = String::from("worktree: in_place\nsteps:\n");
        for (at, needs) in needs.iter().enumerate() {
            let needs: Vec<String> = needs.iter().filter(|need| **need < at).map(|need| format!("step{need}")).collect();
            text.push_str(&format!("  step{at}: {{ run: x, needs: [{}] }}\n", needs.join(", ")));
        }
        let drawn = pipeline(&text);
        let svg = to_svg(&drawn, &[], "p");
        prop_assert!(is_well_formed(&svg));
        prop_assert_eq!(svg.matches("<g class=\"step\">").count(), needs.len());
        for at in 0..needs.len() {
            let name = format!(">step{at}</text>");
            prop_assert_eq!(svg.matches(name.as_str()).count(), 1);
        }
        prop_assert_eq!(svg.matches("marker-end").count(), drawn.steps.iter().map(|step| step.needs.len()).sum::<usize>());
    }
}
