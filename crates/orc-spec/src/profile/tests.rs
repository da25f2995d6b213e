use orc_domain::confine::BoxRules;
use orc_domain::permission::{Class, PermissionMode, Permissions};
use orc_domain::profile::{BuiltIn, Effort};
use orc_domain::time::Millis;
use serde_json::json;

use super::*;
use crate::diagnostic::Severity;
use crate::keys::{PROFILE, Shape};
use crate::settings::{FileKind, PartialSettings, Settings};

const SCHEMA: &str = r#"{ "type": "object", "required": ["verdict"] }"#;

fn texts(path: &str) -> Result<String, String> {
    match path {
        "schemas/verdict.json" => Ok(SCHEMA.to_owned()),
        "schemas/broken.json" => Ok("{ \"type\": ".to_owned()),
        "schemas/odd.json" => Ok(r#"{ "type": "objekt" }"#.to_owned()),
        _ => Err("no such file".to_owned()),
    }
}

fn file(text: &str) -> SourceFile {
    SourceFile::new("agents/coder.md", text)
}

/// A profile with these keys beside the required ones.
fn with(keys: &str) -> String {
    format!("---\nadapter: command\ncommand: [agent]\n{keys}\n---\nYou write code.\n")
}

/// Each problem as `line:column code`, warnings with a `?` before the code.
fn told(text: &str) -> Vec<String> {
    let file = file(text);
    let tell = |problem: &Diagnostic| {
        let at = file.position(problem.span.start);
        let mark = if problem.severity == Severity::Warning { "?" } else { "" };
        format!("{}:{} {mark}{}", at.line, at.column, problem.code)
    };
    compile_profile(&file, &texts, None).diagnostics.iter().map(tell).collect()
}

/// Message and help of each problem.
fn words(text: &str) -> String {
    let told = compile_profile(&file(text), &texts, None).diagnostics.into_iter();
    told.map(|problem| format!("{}; {}", problem.message, problem.help.unwrap_or_default()))
        .collect::<Vec<_>>()
        .join("\n")
}

fn profile(text: &str) -> Profile {
    let file = file(text);
    let compiled = compile_profile(&file, &texts, None);
    let told: Vec<String> = compiled.diagnostics.iter().map(|problem| problem.render(&file, false)).collect();
    assert_eq!(told, [""; 0]);
    compiled.profile.unwrap()
}

#[test]
fn a_profile_with_everything() {
    let found = profile(
        "---\nname: coder\ndescription: Writes code.\nadapter: command\ncommand: [agent, --mode, 2]\nrole: engineer\n\
         mode: review\nsilence_timeout: 2m\nmax_concurrent: 3\nmax_messages: 0\nmodel: claude-opus-5-5\nenv: { LEVEL: 3, \"EMPTY\": '' }\nbox: { network: [Example.com] }\n\
         output: { schema: schemas/verdict.json }\n---\n\nYou write code.\n\n---\nAlso below a rule.\n",
    );
    let wanted = Profile {
        name: "coder".to_owned(),
        description: Some("Writes code.".to_owned()),
        adapter: Adapter::Command { argv: ["agent", "--mode", "2"].map(str::to_owned).to_vec() },
        role: Some("engineer".to_owned()),
        mode: Mode::Review,
        silence_timeout: Millis::from_secs(120),
        max_concurrent: Some(3),
        max_messages: 0,
        model: Some("claude-opus-5-5".to_owned()),
        env: [("LEVEL", "3"), ("EMPTY", "")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        rules: BoxRules { network: ["example.com".to_owned()].into(), ..BoxRules::default() },
        permissions: Permissions::default(),
        permission_mode: None,
        output: Some(json!({ "type": "object", "required": ["verdict"] })),
        system_prompt: "You write code.\n\n---\nAlso below a rule.".to_owned(),
    };
    assert_eq!(found, wanted);
}

#[test]
fn what_is_not_written_has_a_default() {
    let found = profile("---\nadapter: command\ncommand: agent --stdin\n---\nYou write code.");
    assert_eq!(found.name, "coder");
    let argv = ["sh", "-eu", "-c", "agent --stdin"].map(str::to_owned).to_vec();
    assert_eq!(found.adapter, Adapter::Command { argv });
    assert_eq!((found.mode, found.silence_timeout), (Mode::Work, Millis::from_secs(900)));
    assert_eq!((found.max_concurrent, found.max_messages, found.output), (None, DEFAULT_MAX_MESSAGES, None));
    assert_eq!(profile(&with("mode: plan")).silence_timeout, Millis::from_secs(600));
    let inline = profile(&with("output:\n  schema: { type: object, properties: { n: { const: 1.10 } } }")).output;
    assert_eq!(inline, Some(json!({ "type": "object", "properties": { "n": { "const": "1.10" } } })));
}

#[test]
fn line_ends_and_byte_order_mark_change_nothing() {
    let plain = with("role: one\nenv: { A: b }");
    let crlf = plain.replace('\n', "\r\n");
    assert_eq!(profile(&crlf), profile(&plain));
    assert_eq!(profile(&format!("\u{feff}{crlf}")), profile(&plain));
    assert_eq!(profile(&plain).content_hash().unwrap(), profile(&crlf).content_hash().unwrap());
    let wrong = with("nmae: x");
    assert_eq!(told(&wrong), ["4:1 unknown_key"]);
    assert_eq!(told(&format!("\u{feff}{}", wrong.replace('\n', "\r\n"))), ["4:1 unknown_key"]);
}

#[test]
fn front_matter_that_is_not_there_or_does_not_end() {
    let cases: [(&str, &[&str], &str); 9] = [
        ("", &["1:1 front_matter"], "this file is empty; begin the file with"),
        ("\u{feff}\n\n", &["1:1 front_matter"], "this file is empty"),
        ("You write code.\n", &["1:1 front_matter"], "it begins with `You write code.`"),
        ("\n---\nadapter: command\n---\nx", &["1:1 front_matter"], "remove the blank lines before it"),
        ("----\nadapter: command\n---\nx", &["1:1 front_matter"], "it begins with `----`"),
        ("---\nadapter: command\n", &["1:1 front_matter"], "begins here and does not end; end it with a line `---`"),
        ("---\nadapter: command\n-----\nx\n", &["1:1 front_matter"], "a line that is `---` and nothing else"),
        ("---", &["1:1 front_matter"], "does not end"),
        ("---\n---\nYou.\n", &["2:1 missing_key"], "needs to know which model it asks"),
    ];
    for (text, wanted, message) in cases {
        assert_eq!(told(text), wanted, "{text:?}");
        assert!(words(text).contains(message), "{text:?}: {}", words(text));
    }
    assert_eq!(told("---\nadapter: command\ncommand: [a]\n---  "), ["4:1 ?front_matter"]);
    assert!(compile_profile(&file("---\nadapter: command\ncommand: [a]\n---\n \n"), &texts, None).profile.is_some());
}

#[test]
fn broken_yaml_keeps_its_place() {
    assert_eq!(told("---\nadapter: command\ncommand: [a\n---\nYou.\n"), ["3:10 yaml"]);
    assert_eq!(told(&with("name: coder\nname: coder")), ["5:1 duplicate_key"]);
    assert_eq!(told("---\n- a\n---\nYou.\n"), ["2:1 wrong_type"]);
}

#[test]
fn every_mistake_of_a_file_is_told_at_once() {
    let text = "\
---
name: codr
adapter: command
command: []
silence_timeout: 10s
mode: wrok
max_concurrent: none
max_messages: 11
env: { ORC_X: a, B: '${{ inputs.b }}', C: [] }
output: { shema: x }
modell: large
effort: high
tools: [Read]
budget: { monthly_usd: 5 }
prompt: do it
---
You write code.
";
    let wanted = [
        "2:7 bad_value",
        "4:10 bad_value",
        "5:18 bad_value",
        "6:7 bad_value",
        "7:17 wrong_type",
        "8:15 bad_value",
        "9:8 bad_value",
        "9:21 bad_value",
        "9:43 wrong_type",
        "10:11 unknown_key",
        "11:1 unknown_key",
        "12:1 not_honoured",
        "13:1 not_honoured",
        "14:1 not_available",
        "15:1 unknown_key",
    ];
    assert_eq!(told(text), wanted);
    let words = words(text);
    for part in [
        "this agent is called `codr`, and its file `coder`; rename the file to `codr.md`, or write `name: coder`",
        "`mode` needs one of `work`, `plan`, `review`, `check`, not `wrok`; did you mean `work`?",
        "`silence_timeout` goes from 1m to 240m, and this is 10s",
        "`max_messages` needs a whole number from 0 to 10, not 11",
        "a profile has no key `modell`; did you mean `model`?",
        "`adapter: command` cannot honour `effort`; the program decides that itself",
        "`adapter: command` cannot honour `tools`; the program brings its own tools",
        "`budget` is not available yet",
        "a profile has no key `prompt`; the system prompt is the text below",
    ] {
        assert!(words.contains(part), "{part}\n\n{words}");
    }
}

#[test]
fn every_key_of_the_table_is_read_refused_or_not_available() {
    for key in PROFILE.keys {
        if matches!(key.name, "adapter" | "command") {
            continue;
        }
        // A list within a list is right for no key.
        let codes = told(&with(&format!("{}: [[]]", key.name)));
        let wanted = match key.shape {
            Shape::Later => ["4:1 not_available".to_owned()],
            Shape::BuiltIn(..) => ["4:1 not_honoured".to_owned()],
            _ => [format!("4:{} wrong_type", key.name.len() + 3)],
        };
        assert_eq!(codes, wanted, "{}", key.name);
    }
}

#[test]
fn other_adapters_are_named_and_their_keys_are_not_blamed() {
    let text = "---\nadapter: claude-code\nmodel: large\n---\nYou.\n";
    assert_eq!(told(text), ["2:10 not_available"]);
    assert!(words(text).contains("`adapter: claude-code` is not available yet; `adapter: command` runs any program"));
    assert_eq!(told("---\nadapter: comand\ncommand: [a]\n---\nYou.\n"), ["2:10 bad_value"]);
    assert!(words("---\nadapter: comand\ncommand: [a]\n---\nYou.\n").contains("did you mean `command`?"));
    assert_eq!(told("---\nadapter: command\n---\nYou.\n"), ["2:1 missing_key"]);
    assert_eq!(told("---\nadapter: command\ncmd: [a]\n---\nYou.\n"), ["3:1 unknown_key"]);
}

#[test]
fn schemas_that_cannot_be_used() {
    let cases = [
        ("schemas/none.json", "cannot read the schema `schemas/none.json`: no such file"),
        ("schemas/broken.json", "the schema `schemas/broken.json` is not JSON: EOF"),
        ("schemas/odd.json", "this schema cannot be used: it is not a JSON Schema: `type`"),
        ("../verdict.json", "is not a path within the repository"),
        ("/schemas/verdict.json", "is not a path within the repository"),
        ("{ $ref: 'https://example.com/x' }", "it refers to `https://example.com/x`"),
        ("[]", "needs a JSON Schema or the path of one, not a list"),
    ];
    for (schema, message) in cases {
        let text = with(&format!("output: {{ schema: {schema} }}"));
        assert!(words(&text).contains(message), "{schema}: {}", words(&text));
        assert!(compile_profile(&file(&text), &texts, None).profile.is_none());
    }
    assert_eq!(told(&with("output: {}")), ["4:9 missing_key"]);
}

#[test]
fn the_box_of_an_agent_has_no_secrets_and_no_more_than_the_settings_allow() {
    assert_eq!(told(&with("box: { read: [~/.rustup], env: [LANG] }")), [""; 0]);
    assert_eq!(told(&with("box: { read: [~] }")), ["4:15 bad_value"]);
    let secret = with("box: { secrets: [TOKEN] }");
    assert_eq!(told(&secret), ["4:8 conflict"]);
    assert!(words(&secret).starts_with("secrets exist in `run:` steps only, never in an agent's box"));
    let settings = SourceFile::new("orchestrator.yaml", "box: { network: [example.com] }");
    let (partial, _) = PartialSettings::parse(&settings, FileKind::Workspace);
    let allowance = Settings::resolve(&[partial]).allowance();
    let compiled = compile_profile(&file(&with("box: { network: [example.org] }")), &texts, Some(&allowance));
    let codes: Vec<&str> = compiled.diagnostics.iter().map(|problem| problem.code.word()).collect();
    assert_eq!((codes.as_slice(), compiled.profile), (["not_allowed"].as_slice(), None));
}

#[test]
fn commands_that_name_no_program() {
    for command in ["[]", "''", "['', a]", "~", "{ a: b }", "\"a\\0b\"", "'${{ inputs.program }}'", "[a, [b]]"] {
        let text = format!("---\nadapter: command\ncommand: {command}\n---\nYou.\n");
        let compiled = compile_profile(&file(&text), &texts, None);
        assert!(compiled.profile.is_none() && compiled.diagnostics.len() == 1, "{command}: {:?}", told(&text));
    }
}

#[test]
fn what_the_system_would_not_start_is_too_long() {
    let long = "x".repeat(crate::shell::MAX_SCRIPT_BYTES + 1);
    assert_eq!(told(&format!("---\nadapter: command\ncommand: [a, {long}]\n---\nYou.\n")), ["3:10 limit"]);
    assert_eq!(told(&with(&format!("env: {{ A: {long} }}"))), ["4:11 limit"]);
}

#[test]
fn names_that_stand_twice_or_fit_no_file() {
    let text = with("");
    let files = [
        SourceFile::new("agents/coder.md", text.clone()),
        SourceFile::new("agents/Coder.md", text.clone()),
        SourceFile::new("agents/tester.md", with("name: coder")),
        SourceFile::new("agents/2nd.md", text.clone()),
        SourceFile::new("agents/fine.md", text),
    ];
    let compiled = compile_profiles(&files, &texts, None);
    let codes: Vec<Vec<&str>> =
        compiled.iter().map(|file| file.diagnostics.iter().map(|problem| problem.code.word()).collect()).collect();
    assert_eq!(codes, [vec![], vec!["duplicate_name"], vec!["bad_value", "duplicate_name"], vec!["bad_value"], vec![]]);
    assert!(compiled[1].diagnostics[0].message.contains("`agents/coder.md`"));
    let good: Vec<bool> = compiled.iter().map(|file| file.profile.is_some()).collect();
    assert_eq!(good, [true, false, false, false, true]);
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let text = format!("{}{}", with(""), "x".repeat(yaml::MAX_BYTES));
    assert_eq!(told(&text), ["1:1 limit"]);
}

#[test]
fn a_nul_in_the_system_prompt_is_found_at_its_place() {
    assert_eq!(told(&format!("{}a\0b", with(""))), ["7:2 bad_value"]);
}

proptest::proptest! {
    /// Whatever the text, there is a profile or a reason, and every place lies within the file.
    #[test]
    fn any_text_gives_a_profile_or_a_reason(head in "(-{2,4}|[a-z: \\[\\]{}'\"\n\r\t-]|\u{e4}|\u{feff}){0,60}", end in "-{0,4}\r?\n?.{0,8}") {
        for text in [format!("{head}{end}"), format!("---\nadapter: command\n{head}\n{end}")] {
            let file = file(&text);
            let compiled = compile_profile(&file, &texts, None);
            let has_error = compiled.diagnostics.iter().any(|problem| problem.severity == Severity::Error);
            assert_eq!(compiled.profile.is_none(), has_error);
            for problem in &compiled.diagnostics {
                assert!(problem.span.end <= text.len() + 1, "{problem:?}");
                proptest::prop_assert!(!problem.render(&file, false).is_empty());
            }
        }
    }
}

/// A profile of the built-in agent with these keys.
fn own(keys: &str) -> String {
    format!("---\nmodel: claude-sonnet-4-5\n{keys}\n---\nYou write code.\n")
}

fn built_in(text: &str) -> BuiltIn {
    match profile(text).adapter {
        Adapter::BuiltIn(built_in) => built_in,
        Adapter::Command { .. } => panic!("a program"),
    }
}

#[test]
fn the_built_in_agent_is_what_runs_a_profile_without_adapter() {
    assert_eq!(built_in(&own("role: coder")), BuiltIn::default());
    assert_eq!(profile(&own("adapter: built-in")), profile(&own("")));
    let all = built_in(&own(
        "tools: Read, Bash , Task\ndisallowedTools: [Write]\nmaxTurns: 40\nfallback_models: gpt-5\neffort: high\nmemory: false\n\
         git: false\nworkers: [reviewer, coder]",
    ));
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let wanted = BuiltIn {
        tools: Some(names(&["Agent", "Bash", "Read"])),
        disallowed_tools: names(&["Write"]),
        max_turns: Some(40),
        fallback_models: vec!["gpt-5".to_owned()],
        effort: Some(Effort::High),
        memory: false,
        git: false,
        workers: vec!["reviewer".to_owned(), "coder".to_owned()],
    };
    assert_eq!(all, wanted);
}

#[test]
fn rules_are_read_wherever_they_stand() {
    let keys = "permissionMode: acceptEdits\ntools: [Read, 'Bash(prefix:npm)', 'Bash(git log *), Edit']\ndisallowedTools: ['Bash(rm *)', Write]\n\
                permissions: { allow: 'Edit(docs/**)', ask: ['Bash(git push *)'], deny: [Read(.env)], ceiling: network }";
    assert_eq!(told(&own(keys)), [""; 0], "{}", words(&own(keys)));
    let profile = profile(&own(keys));
    assert_eq!(profile.permission_mode, Some(PermissionMode::AcceptEdits));
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let wanted = Permissions {
        allow: texts(&["Edit(docs/**)", "Bash(prefix:npm)", "Bash(git log *)"]),
        ask: texts(&["Bash(git push *)"]),
        deny: texts(&["Read(.env)", "Bash(rm *)"]),
        ceiling: Some(Class::Network),
        delegate: Vec::new(),
    };
    assert_eq!(profile.permissions, wanted);
    let Adapter::BuiltIn(built_in) = profile.adapter else { panic!() };
    assert_eq!(built_in.tools, Some(["Bash", "Edit", "Read"].map(str::to_owned).into()));
    assert_eq!(built_in.disallowed_tools, ["Write"].map(str::to_owned).into());
}

#[test]
fn mistakes_in_profiles_of_the_built_in_agent_are_named() {
    let cases = [
        ("tools: [Reed]", "3:9 bad_value", "there is no tool `Reed`; did you mean `Read`?"),
        ("disallowedTools: [mcp__x__y]", "3:19 not_available", "tools of servers"),
        ("disallowedTools: [submit_output]", "3:19 bad_value", "can always deliver it"),
        ("maxTurns: 0", "3:11 bad_value", "maxTurns"),
        ("effort: hgih", "3:9 bad_value", "did you mean `high`?"),
        ("memory: maybe", "3:9 wrong_type", "memory"),
        ("command: [x]", "3:1 missing_key", "add `adapter: command`"),
        ("adapter: built-in\ncommand: [x]", "4:1 not_honoured", "the built-in agent is no program"),
        ("permissionMode: auto", "3:17 not_available", "it needs a classifier"),
        ("permissionMode: bypass", "3:17 bad_value", "bypassPermissions"),
        ("permissionMode: [plan]", "3:17 wrong_type", "permissionMode"),
        ("permissions: { delegate: [{ to: x }] }", "3:27 missing_key", "`allow`"),
        ("permissions: { deny: ['Bash('] }", "3:23 bad_rule", "has no `)` at its end"),
        ("permissions: { allow: ['Effect(gitPush)'] }", "3:24 bad_rule", "can't be granted"),
        ("permissions: { allow: ['Bash(${{ inputs.x }})'] }", "3:24 bad_rule", "an expression cannot stand in a rule"),
        ("permissions: { ask: [''] }", "3:22 bad_rule", "the rule is empty"),
        ("permissions: { deny: { a: b } }", "3:22 wrong_type", "a name or a list of names"),
        ("permissions: [Bash]", "3:14 wrong_type", "permissions"),
        ("permissions: { ceiling: all }", "3:25 bad_value", "`push`"),
        ("permissions: { mode: plan }", "3:16 unknown_key", "write `permissionMode:` beside"),
        ("tools: ['Bash(command:rm *)']", "3:9 bad_rule", "write `Bash(rm *)`"),
        (
            "adapter: command\ncommand: [x]\npermissions: {}",
            "5:1 not_honoured",
            "no call of a program of your own is judged",
        ),
        ("adapter: command\ncommand: [x]\npermissionMode: plan", "5:1 not_honoured", "its box"),
        ("disallowedTools: ['Bash(']", "3:19 bad_rule", "has no `)`"),
        ("hooks: {}", "3:1 not_available", "not available yet"),
        ("max_turns: 3", "3:1 unknown_key", "write `maxTurns:`"),
    ];
    for (keys, wanted, message) in cases {
        assert_eq!(told(&own(keys)), [wanted], "{keys}: {}", words(&own(keys)));
        assert!(words(&own(keys)).contains(message), "{keys}: {}", words(&own(keys)));
    }
    let none = own("tools: [Read]\ndisallowedTools: [Read]");
    assert_eq!(told(&none), ["4:18 ?bad_value"]);
}

#[test]
fn workers_are_agents_that_there_are() {
    let agent = |name: &str, keys: &str| SourceFile::new(format!("agents/{name}.md"), own(keys));
    let files = [agent("lead", "workers: [coder, revewer, lead]"), agent("coder", ""), agent("reviewer", "")];
    let compiled = compile_profiles(&files, &texts, None);
    let told: Vec<String> = compiled[0].diagnostics.iter().map(|problem| problem.message.clone()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("there is no agent `revewer`"), "{told:?}");
    assert!(compiled[1].profile.is_some() && compiled[2].profile.is_some());
}
