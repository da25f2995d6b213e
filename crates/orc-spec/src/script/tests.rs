use serde_json::json;

use super::*;

fn file(text: &str) -> SourceFile {
    SourceFile::new("models/demo.yaml", text)
}

fn script(text: &str) -> Script {
    let file = file(text);
    let compiled = compile_script(&file);
    let told: Vec<String> = compiled.diagnostics.iter().map(|problem| problem.render(&file, false)).collect();
    assert_eq!(told, [""; 0]);
    compiled.script.unwrap()
}

/// Each problem as `line:column code message; help`.
fn told(text: &str) -> Vec<String> {
    let file = file(text);
    let compiled = compile_script(&file);
    assert!(compiled.script.is_none(), "{text}");
    let tell = |problem: &Diagnostic| {
        let at = file.position(problem.span.start);
        let help = problem.help.clone().unwrap_or_default();
        format!("{}:{} {} {}; {help}", at.line, at.column, problem.code, problem.message)
    };
    compiled.diagnostics.iter().map(tell).collect()
}

#[test]
fn a_script_with_everything() {
    let found = script(
        "description: Everything.\ntracks:\n  review:\n    match: { model: 'm-*', system: You review, prompt: [file, b], tools: Read }\n    \
         repeat: last\n    turns:\n      - thinking: Hm.\n        text: ${{ as it stands }}\n        tool_calls:\n          \
         - { name: Write, input: { path: a, count: 3, deep: [true, '1'] } }\n          - { name: Raw, input: '{\"a\":' }\n          \
         - name: Bare\n        usage: { input: 1_000, output: 0, cache_read: 5, cache_write_long: 6 }\n        delay: 2s\n        \
         delay_between: 10ms\n        cut_after: 0\n      - { text: '', stop: max_tokens, usage: none }\n      \
         - { error: { status: 529, type: overloaded_error, message: Later., retry_after: 1500ms, times: 3 }, text: Now. }\n      \
         - error: { status: 400 }\n  rest:\n    turns: [{ stop: refusal }]\n",
    );
    let call = |name: &str, input| Call { name: name.to_owned(), input };
    let said = |text: &str| Some(text.to_owned());
    let quick = |answer| Turn { failure: None, answer, delay: Millis::ZERO, between: Millis::ZERO, cut_after: None };
    let others = Tokens { cache_read: 5, cache_write_long: 6, ..Tokens::default() };
    let first = Answer {
        thinking: said("Hm."),
        text: said("${{ as it stands }}"),
        calls: vec![
            call("Write", json!({ "path": "a", "count": 3, "deep": [true, "1"] })),
            call("Raw", json!("{\"a\":")),
            call("Bare", json!({})),
        ],
        stop: Stop::ToolUse,
        figures: Figures::Told { input: Some(1000), output: Some(0), reasoning: None, others },
    };
    let failure = |status, kind: Option<&str>, message: &str, retry_after, times| {
        Some(Failure { status, kind: kind.map(str::to_owned), message: message.to_owned(), retry_after, times })
    };
    let turns = vec![
        Turn {
            delay: Millis::from_secs(2),
            between: Millis::from_millis(10),
            cut_after: Some(0),
            ..quick(Some(first))
        },
        quick(Some(Answer { text: said(""), stop: Stop::MaxTokens, figures: Figures::Untold, ..Answer::default() })),
        Turn {
            failure: failure(529, Some("overloaded_error"), "Later.", Some(Millis::from_millis(1500)), Some(3)),
            ..quick(Some(Answer { text: said("Now."), ..Answer::default() }))
        },
        Turn { failure: failure(400, None, "the script wants this request to fail", None, None), ..quick(None) },
    ];
    let fits = Fits {
        model: said("m-*"),
        system: vec!["You review".to_owned()],
        prompt: vec!["file".to_owned(), "b".to_owned()],
        tools: vec!["Read".to_owned()],
    };
    let refusal = quick(Some(Answer { stop: Stop::Refusal, ..Answer::default() }));
    assert_eq!(
        found,
        Script {
            file: "models/demo.yaml".to_owned(),
            tracks: vec![
                Track { name: "review".to_owned(), fits, turns, beyond: Beyond::Last },
                Track { name: "rest".to_owned(), fits: Fits::default(), turns: vec![refusal], beyond: Beyond::Error },
            ],
        }
    );
}

#[test]
fn every_problem_has_its_place_and_what_helps() {
    let turns = |turns: &str| format!("tracks:\n  a:\n    turns:\n      - {turns}\n");
    for (text, wanted) in [
        ("tracks: {}\n".to_owned(), vec!["1:9 bad_value this model knows no conversation; add a track with `turns:`"]),
        (
            "description: x\n".to_owned(),
            vec![
                "1:1 missing_key this model knows no conversation; add `tracks: { main: { turns: [{ text: Hello. }] } }`",
            ],
        ),
        (
            "turns: []\n".to_owned(),
            vec![
                "1:1 unknown_key a scripted model has no key `turns`; write them into a track: `tracks: { main: { turns: [...] } }`",
            ],
        ),
        (
            "tracks:\n  all: { turns: [{ text: a }] }\n  b c: { match: { model: b }, turns: [] }\n".to_owned(),
            vec![
                "3:3 bad_value `b c` cannot be the name of a track; letters, digits, `_` and `-`, beginning with a letter, at most 64",
                "3:3 unreachable nothing gets to `b c`: the track `all` fits all; write `all` last, or give it a `match:`",
                "3:38 bad_value the track `b c` says nothing; add `turns: [{ text: Hello. }]`",
            ],
        ),
        (
            "tracks:\n  a: { match: { prompt: '', tool: x } }\n".to_owned(),
            vec![
                "2:8 missing_key the track `a` says nothing; add `turns: [{ text: Hello. }]`",
                "2:25 bad_value an empty text is in every text; remove it",
                "2:29 unknown_key `match` has no key `tool`; write `tools:`",
            ],
        ),
        (
            turns("{ delay: 1s }"),
            vec![
                "4:11 missing_key this turn says nothing; add `text:`, `tool_calls:` or `error:`; an answer without content is `text: \"\"`",
            ],
        ),
        (turns("{ txt: a }"), vec!["4:11 unknown_key a turn has no key `txt`; did you mean `text`?"]),
        (
            turns("{ text: a, error: { status: 500 } }"),
            vec![
                "4:11 conflict this turn always fails, so `text` is never said; add `times:` to the error, or write the answer into the next turn",
            ],
        ),
        (
            turns("{ error: { status: 500, times: 2 } }"),
            vec![
                "4:11 missing_key after so many failures this turn has no answer; add `text:` or `tool_calls:`, or remove `times:`",
            ],
        ),
        (
            turns("{ error: { code: 200 } }"),
            vec!["4:20 unknown_key `error` of a turn has no key `code`; write `status:` or `type:`"],
        ),
        (
            turns("{ error: { status: 200 } }"),
            vec!["4:28 bad_value `status` needs a whole number from 400 to 599, not `200`; "],
        ),
        (
            turns("{ tool_calls: [{ input: [1] }, { name: a, input: [1] }] }"),
            vec![
                "4:26 missing_key this call names no tool; add `name:`",
                "4:58 wrong_type `input` needs a map, or a text, not a list; ",
            ],
        ),
        (
            turns("{ usage: some, stop: end }"),
            vec![
                "4:18 bad_value `usage` needs one of `none`, not `some`; ",
                "4:30 bad_value `stop` needs one of `end_turn`, `tool_use`, `max_tokens`, `refusal`, not `end`; ",
            ],
        ),
        (
            turns("{ usage: { input: -1, output_tokens: 3 } }"),
            vec![
                "4:27 wrong_type `input` needs a whole number from 0 to 1000000000, not `-1`; ",
                "4:31 unknown_key `usage` has no key `output_tokens`; write `output:`",
            ],
        ),
    ] {
        assert_eq!(told(&text), wanted, "{text}");
    }
}

#[test]
fn words_of_the_table_are_those_of_the_vocabulary() {
    assert_eq!(keys::STOPS, Stop::ALL.map(Stop::word));
}

#[test]
fn the_scripts_that_real_programs_are_tested_with() {
    let [claude, codex] = [
        script(include_str!("../../../../tests/models/claude-code.yaml")),
        script(include_str!("../../../../tests/models/codex.yaml")),
    ];
    for script in [claude, codex] {
        let [first, rest] = script.tracks.as_slice() else { panic!("two tracks: {script:?}") };
        assert_eq!((first.turns.len(), rest.beyond), (3, Beyond::Last));
    }
}
