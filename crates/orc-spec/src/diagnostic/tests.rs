use super::*;

fn sample() -> (SourceFile, Vec<Diagnostic>) {
    let file = SourceFile::new("pipelines/ship.yaml", "steps:\n  é: x\n  a: y\n  a: z\n");
    let mut report = Report::new(&file.name);
    let (first, second) = (file.text.find("a: y").unwrap(), file.text.find("a: z").unwrap());
    report
        .error(Code::DuplicateKey, Span::new(second, second + 1), "the key `a` stands here a second time")
        .label(Span::new(first, first + 1), "it stands here first")
        .help("keep one of them");
    report.warning(Code::Unreachable, Span::new(9, 11), "never runs");
    (file, report.finish())
}

#[test]
fn the_source_is_underlined() {
    let (file, diagnostics) = sample();
    let wanted = "\
error[duplicate_key]: the key `a` stands here a second time
 --> pipelines/ship.yaml:4:3
  |
3 |   a: y
  |   - it stands here first
4 |   a: z
  |   ^
  |
  = help: keep one of them";
    assert_eq!(diagnostics[1].render(&file, false), wanted);
    assert!(
        diagnostics[0]
            .render(&file, false)
            .starts_with("warning[unreachable]: never runs\n --> pipelines/ship.yaml:2:3\n")
    );
    let coloured = diagnostics[1].render(&file, true);
    assert!(coloured.contains("\u{1b}[") && !diagnostics[1].render(&file, false).contains('\u{1b}'));
}

#[test]
fn the_json_form_is_stable() {
    let (file, diagnostics) = sample();
    let document = json_document([(&file, diagnostics.as_slice())]);
    let wanted = json!({
        "schema": "orc/diagnostics/1",
        "diagnostics": [
            {
                "code": "unreachable", "severity": "warning", "file": "pipelines/ship.yaml",
                "line": 2, "column": 3, "end_line": 2, "end_column": 4,
                "message": "never runs", "labels": [], "help": null,
            },
            {
                "code": "duplicate_key", "severity": "error", "file": "pipelines/ship.yaml",
                "line": 4, "column": 3, "end_line": 4, "end_column": 4,
                "message": "the key `a` stands here a second time",
                "labels": [{ "line": 3, "column": 3, "end_line": 3, "end_column": 4, "text": "it stands here first" }],
                "help": "keep one of them",
            },
        ],
    });
    assert_eq!(document, wanted);
}

#[test]
fn places_beyond_the_text_are_its_end() {
    let file = SourceFile::new("f", "ab\n");
    let mut report = Report::new("f");
    report.error(Code::Yaml, Span::new(2, 99), "x");
    report.error(Code::Yaml, Span::new(99, 100), "y");
    for problem in report.finish() {
        assert!(problem.render(&file, false).contains("f:"), "{problem:?}");
    }
    assert_eq!(file.position(99), crate::source::Position { line: 2, column: 1 });
    assert_eq!(SourceFile::new("x", "é").position(1).column, 1);
}

#[test]
fn a_terminal_gets_no_control_characters_of_the_file() {
    let file = SourceFile::new("f", "a: \u{1b}[31mred\u{7}\n");
    let mut report = Report::new("f");
    report.error(Code::Yaml, Span::new(0, 1), "x\u{1b}[31m\u{7}").help("\u{1b}").label(Span::new(1, 2), "\u{1b}");
    let text = report.finish()[0].render(&file, false);
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
}

#[test]
fn only_the_first_problems_are_shown() {
    let mut report = Report::new("f");
    for at in 0..1000 {
        report.error(Code::Yaml, Span::new(at, at), "x");
    }
    let shown = report.finish();
    assert_eq!((shown.len(), shown[MAX_DIAGNOSTICS].code), (MAX_DIAGNOSTICS + 1, Code::TooMany));
    assert_eq!(shown[MAX_DIAGNOSTICS].message, "800 more problems of this file are not shown");
}

#[test]
fn codes_are_distinct() {
    let mut words: Vec<&str> = Code::ALL.iter().map(|(code, _)| code.word()).collect();
    let count = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), count);
    assert!(Code::ALL.iter().all(|(_, doc)| doc.trim().ends_with('.')));
}
