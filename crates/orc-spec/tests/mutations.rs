//! Files with random damage: every one is compiled or told about, and every problem can be shown.

use orc_spec::settings::{FileKind, PartialSettings};
use orc_spec::{Library, SourceFile, compile};
use proptest::prelude::*;

const SEEDS: [&str; 3] = [
    include_str!("../../../pipelines/hello.yaml"),
    include_str!("fixtures/design-example.yaml"),
    include_str!("fixtures/every-kind.yaml"),
];
const PIECES: [&str; 24] = [
    "${{", "}}", "{", "}", "[", "]", ": ", "\n", "  ", "\t", "'", "\"", "#", "&a ", "*a", "!x ", "<<: ", "- ", "|",
    "%", "é", "\u{0}", "---\n", "steps:",
];

#[derive(Clone, Debug)]
enum Damage {
    Delete(prop::sample::Index, usize),
    Insert(prop::sample::Index, &'static str),
    Repeat(prop::sample::Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), 1_usize..20).prop_map(|(at, length)| Damage::Delete(at, length)),
        (at(), prop::sample::select(PIECES.to_vec())).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (at(), 1_usize..60).prop_map(|(at, length)| Damage::Repeat(at, length)),
    ]
}

fn damaged(text: &str, damages: &[Damage]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for damage in damages {
        match damage {
            Damage::Delete(at, length) => {
                let at = at.index(chars.len() + 1);
                let end = (at + length).min(chars.len());
                chars.drain(at..end);
            }
            Damage::Insert(at, piece) => {
                let at = at.index(chars.len() + 1);
                chars.splice(at..at, piece.chars());
            }
            Damage::Repeat(at, length) => {
                let at = at.index(chars.len() + 1);
                let copy = chars[at..(at + length).min(chars.len())].to_vec();
                chars.splice(at..at, copy);
            }
        }
    }
    chars.into_iter().collect()
}

fn check(text: &str) {
    let file = SourceFile::new("damaged.yaml", text);
    let compiled = compile(&file, &Library::empty());
    assert!(compiled.pipeline.is_some() || !compiled.diagnostics.is_empty(), "nothing came of {text:?}");
    for problem in &compiled.diagnostics {
        assert!(problem.span.start <= problem.span.end && problem.span.end <= text.len(), "{problem:?}");
        assert!(text.is_char_boundary(problem.span.start) && text.is_char_boundary(problem.span.end), "{problem:?}");
        let shown = problem.render(&file, false);
        assert!(shown.contains(problem.code.word()), "{shown}");
    }
    let json = orc_spec::diagnostic::json_document([(&file, compiled.diagnostics.as_slice())]);
    assert_eq!(json["diagnostics"].as_array().map(Vec::len), Some(compiled.diagnostics.len()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn damaged_pipelines_are_compiled_or_told_about(
        seed in prop::sample::select(SEEDS.to_vec()),
        damages in prop::collection::vec(damage(), 1..8),
    ) {
        check(&damaged(seed, &damages));
    }

    #[test]
    fn bytes_are_compiled_or_told_about(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn settings_never_panic(text in "[a-z_: \n\\[\\]{}0-9MiB#-]{0,120}") {
        let file = SourceFile::new("orchestrator.yaml", text.as_str());
        let (_, problems) = PartialSettings::parse(&file, FileKind::Managed);
        for problem in problems {
            prop_assert!(problem.span.end <= file.text.len());
        }
    }
}
