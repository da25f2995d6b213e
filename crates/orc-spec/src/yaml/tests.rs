use proptest::prelude::*;

use super::*;

fn read(text: &str) -> (Option<Node>, Vec<String>) {
    let mut report = Report::new("f.yaml");
    let node = parse(text, &mut report);
    let file = crate::SourceFile::new("f.yaml", text);
    let told = report.finish().into_iter().map(|problem| {
        let at = file.position(problem.span.start);
        format!("{}:{} {}: {}", at.line, at.column, problem.code, problem.message)
    });
    (node, told.collect())
}

/// The tree as text: plain scalars bare, others quoted, what was reported as `!`.
fn shown(node: &Node) -> String {
    match &node.kind {
        Kind::Scalar(scalar) if scalar.plain => scalar.text.clone(),
        Kind::Scalar(scalar) => format!("{:?}", scalar.text),
        Kind::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Kind::Map(entries) => {
            let members = entries.iter().map(|entry| format!("{}: {}", entry.key.text, shown(&entry.value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Kind::Broken => "!".to_owned(),
    }
}

fn tree(text: &str) -> String {
    let (node, told) = read(text);
    assert_eq!(told, [""; 0], "{text}");
    shown(&node.unwrap())
}

#[test]
fn scalars_are_what_was_written() {
    let cases = [
        (
            "a: no\nb: on\nc: 1.10\nd: 017\ne: 1_000\nf: ~\ng:\nh: 0x1F",
            "{a: no, b: on, c: 1.10, d: 017, e: 1_000, f: ~, g: , h: 0x1F}",
        ),
        ("on: yes\ny: n", "{on: yes, y: n}"),
        ("a: 'no'\nb: \"1\\n\"\nc: |\n  x\n  y\nd: >-\n  x\n  y\n", r#"{a: "no", b: "1\n", c: "x\ny\n", d: "x y"}"#),
        ("a: !!str 1", r#"{a: "1"}"#),
        ("{a: [1, {b: c}], d: {}}", "{a: [1, {b: c}], d: {}}"),
        ("é: ü\nb: 日本", "{é: ü, b: 日本}"),
        ("\u{feff}a: 1\r\nb: 2\r\n", "{a: 1, b: 2}"),
        ("a: |\r\n  x\r\n  y\r\nb: 1\r\n", "{a: \"x\\ny\\n\", b: 1}"),
        ("--- # comment\na: 1\n...\n", "{a: 1}"),
    ];
    for (text, wanted) in cases {
        assert_eq!(tree(text), wanted);
    }
}

#[test]
fn anchors_aliases_and_merge_keys() {
    let cases = [
        ("a: &x 1\nb: *x", "{a: 1, b: 1}"),
        ("a: &x { k: 1, l: 2 }\nb: { <<: *x, l: 3 }", "{a: {k: 1, l: 2}, b: {l: 3, k: 1}}"),
        ("a: &x { k: 1 }\nb: &y { k: 2, m: 4 }\nc: { <<: [*x, *y] }", "{a: {k: 1}, b: {k: 2, m: 4}, c: {k: 1, m: 4}}"),
        ("'<<': 1", "{<<: 1}"),
    ];
    for (text, wanted) in cases {
        assert_eq!(tree(text), wanted);
    }
    let (node, told) = read("a: *nope\nb: { <<: 1 }\nc: &c [*c]\n");
    assert_eq!(shown(&node.unwrap()), "{a: !, b: !, c: [!]}");
    let wanted = [
        "1:4 yaml: no anchor `&nope` stands before this `*nope`",
        "2:10 yaml: `<<` merges a map or a list of maps",
        "3:8 yaml: this alias stands within the value that it refers to",
    ];
    assert_eq!(told, wanted);
}

#[test]
fn places_are_exact() {
    let text = "a: 1\nb:\n  c: 'x y'\n  d: |\n    one\n    two\n  e: [p, q]\nü: z\n";
    let node = parse(text, &mut Report::new("f")).unwrap();
    let mut places = Vec::new();
    collect(&node, text, &mut places);
    let wanted = ["a", "1", "b", "c", "'x y'", "d", "one\n    two", "e", "[p, q]", "p", "q", "ü", "z"];
    assert_eq!(places, wanted);
}

/// The source text of every key, scalar and flow list, in order.
fn collect<'a>(node: &Node, text: &'a str, places: &mut Vec<&'a str>) {
    match &node.kind {
        Kind::Scalar(_) => places.push(&text[node.span.range()]),
        Kind::List(items) => {
            places.push(&text[node.span.range()]);
            items.iter().for_each(|item| collect(item, text, places));
        }
        Kind::Map(entries) => {
            for entry in entries {
                places.push(&text[entry.key.span.range()]);
                collect(&entry.value, text, places);
            }
        }
        Kind::Broken => {}
    }
}

#[test]
fn repeated_keys_are_told_and_the_first_stays() {
    let (node, told) = read("a: 1\nb: { c: 1, c: 2 }\na: 3\n");
    assert_eq!(shown(&node.unwrap()), "{a: 1, b: {c: 1}}");
    assert_eq!(
        told,
        [
            "2:12 duplicate_key: the key `c` stands here a second time",
            "3:1 duplicate_key: the key `a` stands here a second time"
        ]
    );
}

#[test]
fn mistakes_with_one_cause_are_read_over() {
    let cases = [
        ("a: { x: ${{ b }} }\nc: 1", "{a: {x: !}, c: 1}", "1:9 yaml: an expression within"),
        ("a: { x: ${{ b == 'c' }}, y: 1 }", "{a: {x: !, y: 1}}", "1:9 yaml: an expression within"),
        ("a: [ pre${{ b }}post, y ]", "{a: [!, y]}", "1:6 yaml: an expression within"),
        ("a: { x: ${{ c['d'] }} }", "{a: {x: !}}", "1:9 yaml: an expression within"),
        ("a: { x: ${{ c }} and ${{ d }}, y: 1 }", "{a: {x: !, y: 1}}", "1:9 yaml: an expression within"),
        ("a: b: c\nd: 1", "{a: !, d: 1}", "1:4 yaml: a second colon"),
        ("a:\n  b: echo: x\n  c: 1", "{a: {b: !, c: 1}}", "2:6 yaml: a second colon"),
        ("a: @x\nb: 1", "{a: !, b: 1}", "1:4 yaml: a value cannot begin with"),
        ("a: `x`\nb: 1", "{a: !, b: 1}", "1:4 yaml: a value cannot begin with"),
        ("a: %x\nb: 1", "{a: !, b: 1}", "1:4 yaml: a value cannot begin with"),
        ("a:\n\tb: 1\n", "{a: {b: 1}}", "2:1 yaml: a tab"),
        ("a: !x 1\nb: 2", "{a: !, b: 2}", "1:4 yaml: the YAML tag `!x`"),
        ("a: !cancelled() && x\nb: 2", "{a: !, b: 2}", "1:4 yaml: the YAML tag `!cancelled()`"),
        ("? [a]\n: b\nc: d", "{c: d}", "1:3 yaml: a key must be a word"),
    ];
    for (text, wanted, problem) in cases {
        let (node, told) = read(text);
        assert!(told.len() == 1 && told[0].starts_with(problem), "{text}: {told:?}");
        assert_eq!(node.as_ref().map(shown).as_deref(), Some(wanted), "{text}");
    }
    let (node, told) = read("a: { x: ${{ b }} }\nb: c: d\ne:\n\tf: 1\n");
    assert_eq!((node.as_ref().map(shown).as_deref(), told.len()), (Some("{a: {x: !}, b: !, e: {f: 1}}"), 3));
}

#[test]
fn other_syntax_errors_end_the_reading_at_their_place() {
    let cases = [
        ("a:\n  b: 1\n c: 2\n", "3:2 yaml: this line does not fit the lines above it"),
        ("a: [1, 2\nb: 3\n", "2:1 yaml: this line does not fit the lines above it"),
        ("- a\nb: c\n", "2:1 yaml: this line does not fit the lines above it"),
        ("a: \"x\n", "2:1 yaml: a quoted value is not closed"),
        ("a: { b: echo 'x[1]' }\n", "1:16 yaml: a `,` or `}` is missing here"),
        ("a: }\n", "1:4 yaml: this is not YAML"),
        ("%YAML 1.1\n---\na: 1\n", "1:1 yaml: directives"),
        ("a: 1\n---\nb: 2\n", "2:1 yaml: a second document begins here"),
        ("", "1:1 yaml: this file is empty"),
        ("# only a comment\n", "1:1 yaml: this file is empty"),
    ];
    for (text, problem) in cases {
        let (node, told) = read(text);
        assert_eq!(node, None, "{text}");
        assert!(told.len() == 1 && told[0].starts_with(problem), "{text}: {told:?}");
    }
}

#[test]
fn entanglement_size_and_depth_are_bounded() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let big_anchor = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 5_000].join(", "));
    let deep = format!("a: {}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    let wide = format!("a: [{}]", "x, ".repeat(MAX_NODES));
    let nested = "a: &a [[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]\nb: [[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]\n".to_owned();
    for (text, message) in [
        (laughs, "more than 50000 values"),
        (big_anchor, "bytes of text"),
        (deep, "nested deeper than 32"),
        (wide, "more than 50000 values"),
        (nested, "with this alias"),
        ("x".repeat(MAX_BYTES + 1), "at most 1048576 are read"),
    ] {
        let (node, told) = read(&text);
        assert_eq!(node, None);
        assert!(told.len() == 1 && told[0].contains("limit:") && told[0].contains(message), "{told:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_told_about(text in "[ -~\n\té{}\\[\\]:,&*!|>'\"$#%-]{0,80}") {
        let (node, told) = read(&text);
        prop_assert!(node.is_some() || !told.is_empty());
    }

    #[test]
    fn any_bytes_are_read_or_told_about(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let (node, told) = read(&text);
        prop_assert!(node.is_some() || !told.is_empty());
    }
}
