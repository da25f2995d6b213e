//! `worktree:`, `box:`, `on_conflict:`.

use orc_domain::confine::BoxRules;
use orc_domain::graph::{RepositorySpec, StartFrom, Worktree};

use super::*;
use crate::settings::{FileKind, PartialSettings, Settings};

fn settings(text: &str) -> Settings {
    let (partial, told) = PartialSettings::parse(&SourceFile::new("orchestrator.yaml", text), FileKind::Workspace);
    assert_eq!(told, []);
    Settings::resolve(&[partial])
}

/// With the agent `coder` and, if there are any, settings: each problem as `line:column code message; help`.
fn said_with(text: &str, settings: Option<&Settings>) -> (Option<Pipeline>, Vec<String>) {
    let agents = agents(&["coder"]);
    let allowance = settings.map(Settings::allowance);
    let file = SourceFile::new("pipelines/ship.yaml", text);
    let library = Library { agents: &agents, allowance: allowance.as_ref(), ..Library::empty() };
    let compiled = compile(&file, &library);
    let tell = |problem: &Diagnostic| {
        let at = file.position(problem.span.start);
        let mark = if problem.severity == Severity::Warning { "?" } else { "" };
        let help = problem.help.as_deref().unwrap_or_default();
        let explains_itself = problem.code == Code::WrongType || problem.message.contains(" needs ");
        assert!(explains_itself || !help.is_empty(), "nothing says what to do: {}", problem.message);
        format!("{}:{} {mark}{} {}; {help}", at.line, at.column, problem.code, problem.message)
    };
    let told = compiled.diagnostics.iter().map(tell).collect();
    if compiled.pipeline.is_some() {
        assert_eq!(schema_problems(text), [""; 0], "what compiles fits the schema for editors: {text}");
    }
    (compiled.pipeline, told)
}

fn said(text: &str) -> Vec<String> {
    said_with(text, None).1
}

fn good(text: &str) -> Pipeline {
    let (pipeline, told) = said_with(text, None);
    assert_eq!(told, [""; 0], "{text}");
    pipeline.unwrap()
}

/// A text, how its one problem begins, and words that it has.
type Case<'a> = (&'a str, &'a str, &'a [&'a str]);

fn check(cases: &[Case<'_>]) {
    check_in(|text| text.to_owned(), cases);
}

/// The same with texts that are made of what differs.
fn check_in(place: impl Fn(&str) -> String, cases: &[Case<'_>]) {
    let mut wrong = Vec::new();
    for (text, begin, words) in cases {
        let told = said(&place(text));
        let holds = told.len() == 1 && told[0].starts_with(begin) && words.iter().all(|word| told[0].contains(word));
        if !holds {
            wrong.push(format!("{text}: {told:?}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

fn of(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_step_works_in_a_private_copy_unless_it_says_otherwise() {
    let places = |text: &str| -> Vec<StartFrom> { good(text).steps.iter().map(|step| step.worktree.from).collect() };
    let two = "steps: { a: { run: x }, b: { run: x, needs: a } }";
    assert_eq!(places(two), [StartFrom::Parents, StartFrom::Parents]);
    for from in StartFrom::ALL {
        assert_eq!(places(&format!("worktree: {}\n{two}", from.word())), [from, from]);
        assert_eq!(places(&format!("worktree: {{ from: {} }}\n{two}", from.word())), [from, from]);
        let own = format!("steps: {{ a: {{ run: x, worktree: {} }}, b: {{ run: x }} }}", from.word());
        assert_eq!(places(&own), [from, StartFrom::Parents]);
        let over = format!(
            "worktree: {{ from: in_place }}\nsteps: {{ a: {{ run: x, worktree: {{ from: {} }} }}, b: {{ run: x }} }}",
            from.word()
        );
        assert_eq!(places(&over), [from, StartFrom::InPlace]);
    }
    // What is no run hands on what it was given, whatever the pipeline's steps start from.
    let kinds = "worktree: fresh\nsteps: { a: { repeat: { max: 1, steps: { b: { run: x } } } }, c: { wait: 1s } }";
    assert_eq!(places(kinds), [StartFrom::Parents, StartFrom::Parents, StartFrom::Fresh]);
}

#[test]
fn repositories_are_named_by_the_pipeline_and_chosen_by_steps() {
    let pipeline = good(
        "worktree: { repositories: [{ path: ./, base: release/1.2 }, ../docs//, { path: vendor/./lib }] }\n\
         steps: { a: { run: x }, b: { run: x, worktree: { repositories: [vendor/lib/, ., ./] } }, c: { run: x, worktree: { from: fresh, repositories: ../docs } } }",
    );
    let repository =
        |path: &str, base: Option<&str>| RepositorySpec { path: path.to_owned(), base: base.map(str::to_owned) };
    let wanted = [repository(".", Some("release/1.2")), repository("../docs", None), repository("vendor/lib", None)];
    assert_eq!(pipeline.repositories, wanted);
    let worktrees: Vec<&Worktree> = pipeline.steps.iter().map(|step| &step.worktree).collect();
    let chosen = |from, paths: &[&str]| Worktree {
        from,
        repositories: Some(paths.iter().map(|path| (*path).to_owned()).collect()),
    };
    assert_eq!(*worktrees[0], Worktree::default());
    assert_eq!(*worktrees[1], chosen(StartFrom::Parents, &["vendor/lib", "."]));
    assert_eq!(*worktrees[2], chosen(StartFrom::Fresh, &["../docs"]));
    assert_eq!(good("steps: { a: { run: x, worktree: { repositories: [.] } } }").repositories, []);
}

#[test]
fn worktrees_that_cannot_be() {
    let of_pipeline = |value: &str| format!("worktree: {value}\nsteps: {{ a: {{ run: x }} }}");
    let cases: [(&str, &str, &[&str]); 23] = [
        ("parent", "1:11 bad_value", &["did you mean `parents`?"]),
        ("in-place", "1:11 bad_value", &["did you mean `in_place`?"]),
        ("{ from: frehs }", "1:19 bad_value", &["`from` needs one of", "did you mean `fresh`?"]),
        ("{ form: fresh }", "1:13 unknown_key", &["did you mean `from`?"]),
        ("{ base: main }", "1:13 unknown_key", &["repositories: [{ path: ., base: main }]"]),
        ("{ strategy: clone }", "1:13 unknown_key", &["in orchestrator.yaml"]),
        ("{ repositories: [] }", "1:27 bad_value", &["names none"]),
        ("{ repositories: [/srv/docs] }", "1:28 bad_value", &["is not relative", "`../docs`"]),
        ("{ repositories: [~/docs] }", "1:28 bad_value", &["is not relative"]),
        ("{ repositories: [a/../b] }", "1:28 bad_value", &["goes up again after a name"]),
        ("{ repositories: [''] }", "1:28 bad_value", &["is not a path"]),
        ("{ repositories: [\"a\\0b\"] }", "1:28 bad_value", &["is not a path"]),
        ("{ repositories: ['a\\b'] }", "1:28 bad_value", &["separated by `/`"]),
        ("{ repositories: [\"${{ inputs.x }}\"] }", "1:28 bad_value", &["known before a flow starts"]),
        ("{ repositories: [., ./] }", "1:31 duplicate_name", &["`.` stands here a second time"]),
        ("{ repositories: [{ base: main }] }", "1:28 missing_key", &["write `{ path: . }`"]),
        ("{ repositories: [{ path: ., branch: main }] }", "1:39 unknown_key", &["write `base:`"]),
        ("{ repositories: [{ path: ., base: 'a b' }] }", "1:45 bad_value", &["write `main`"]),
        ("{ repositories: [{ path: ., base: -x }] }", "1:45 bad_value", &["cannot be the name of a branch"]),
        ("{ repositories: [{ path: ., base: a..b }] }", "1:45 bad_value", &["cannot be the name of a branch"]),
        ("{ repositories: [{ path: ., base: x.lock }] }", "1:45 bad_value", &["cannot be the name of a branch"]),
        ("{ repositories: [{ path: ., base: \"${{ inputs.x }}\" }] }", "1:45 expression", &["pins its commits"]),
        ("{ from: none, repositories: [.] }", "1:11 ?conflict", &["no step of this pipeline gets a copy"]),
    ];
    check_in(of_pipeline, &cases);
    assert!(said(&of_pipeline("{ repositories: docs }"))[0].starts_with("1:27 wrong_type"), "a list is needed");
    let of_step = |value: &str| {
        format!(
            "worktree: {{ repositories: [., ../docs] }}\nsteps:\n  a: {{ run: x, worktree: {value} }}\n  b: {{ run: x }}"
        )
    };
    let cases: [(&str, &str, &[&str]); 6] = [
        ("{ repositories: [../dcos] }", "3:43 unknown_name", &["did you mean `../docs`?"]),
        ("{ repositories: [elsewhere] }", "3:43 unknown_name", &["name it for the pipeline first"]),
        ("{ repositories: [] }", "3:26 bad_value", &["write `worktree: none`"]),
        ("{ from: none, repositories: [.] }", "3:26 conflict", &["no effect beside `worktree: none`"]),
        ("{ from: in_place, repositories: [.] }", "3:26 conflict", &["no effect beside `worktree: in_place`"]),
        ("{ path: . }", "3:28 unknown_key", &["write it on a repository"]),
    ];
    check_in(of_step, &cases);
    check(&[
        ("steps: { a: { run: x, worktree: { repositories: [../docs] } } }", "1:50 unknown_name", &["name it for"]),
        ("steps: { a: { wait: 1s, worktree: none } }", "1:25 conflict", &["beside `run`, `agent` only"]),
        (
            "steps: { a: { repeat: { max: 1, steps: { b: { run: x } } }, worktree: none } }",
            "1:61 conflict",
            &["its body"],
        ),
    ]);
}

#[test]
fn a_child_works_in_repositories_of_its_caller() {
    let child = "worktree: { repositories: [., ../docs] }\nsteps: { a: { run: x } }";
    let pipelines: Texts<'_> = &|_| Ok(child.to_owned());
    let told = |text: &str| {
        let compiled = compile(&SourceFile::new("ship.yaml", text), &Library { pipelines, ..Library::empty() });
        compiled.diagnostics.into_iter().map(|problem| problem.message).collect::<Vec<_>>()
    };
    assert_eq!(told("worktree: { repositories: [../docs, .] }\nsteps: { a: { pipeline: c } }"), [""; 0]);
    let wanted = ["`c` works in repositories that this pipeline does not have: ../docs"];
    assert_eq!(told("steps: { a: { pipeline: c } }"), wanted);
}

#[test]
fn a_box_has_what_pipeline_and_step_say() {
    let pipeline = good(
        "box: { read: [~/.rustup/, /opt//tools], network: [Api.Example.com], cache: [cargo], secrets: [TOKEN] }\n\
         steps:\n  a: { run: x, box: { write: [/var/cache/x], env: [LANG], network: [\"*.example.com:8443\"] } }\n  \
         b: { agent: coder, prompt: x, box: { read: [/etc/hosts] } }\n  c: { run: x, worktree: in_place }\n  d: { wait: 1s }\n",
    );
    let rules: Vec<&BoxRules> = pipeline.steps.iter().map(|step| &step.rules).collect();
    let common = BoxRules {
        read: of(&["/opt/tools", "~/.rustup"]),
        network: of(&["api.example.com"]),
        cache: of(&["cargo"]),
        ..BoxRules::default()
    };
    let mut first = BoxRules { secrets: of(&["TOKEN"]), ..common.clone() };
    first.write = of(&["/var/cache/x"]);
    first.env = of(&["LANG"]);
    first.network.extend(of(&["*.example.com:8443"]));
    assert_eq!(*rules[0], first);
    // No secret reaches an agent, whoever names it.
    assert_eq!(*rules[1], common.with(&BoxRules { read: of(&["/etc/hosts"]), ..BoxRules::default() }));
    assert_eq!([rules[2], rules[3]], [&BoxRules::default(), &BoxRules::default()]);
}

#[test]
fn boxes_that_cannot_be() {
    let of_step = |value: &str| format!("steps:\n  a: {{ run: x, box: {value} }}");
    let cases: [(&str, &str, &[&str]); 29] = [
        ("[x]", "2:21 wrong_type", &[]),
        ("{ raed: [/x] }", "2:23 unknown_key", &["did you mean `read`?"]),
        ("{ hosts: [x] }", "2:23 unknown_key", &["write `network:`"]),
        ("{ limits: {} }", "2:23 unknown_key", &["in orchestrator.yaml"]),
        ("{ read: ~/.rustup }", "2:29 wrong_type", &["write `read: [~/.rustup]`"]),
        ("{ cache: }", "2:28 wrong_type", &["write `cache: [cargo]`"]),
        ("{ read: [src] }", "2:30 bad_value", &["neither absolute nor below `~/`", "own copy is there"]),
        ("{ read: [$HOME/x] }", "2:30 bad_value", &["write `~/`"]),
        ("{ read: [/] }", "2:30 bad_value", &["the whole machine", "name the folders"]),
        ("{ read: [~] }", "2:30 bad_value", &["a whole home"]),
        ("{ read: [~/x/../.ssh] }", "2:30 bad_value", &["goes up", "where it leads"]),
        ("{ read: [/proc] }", "2:30 bad_value", &["belongs to the kernel"]),
        ("{ write: [/dev/kvm] }", "2:31 bad_value", &["belongs to the kernel"]),
        ("{ read: [~/.ssh/config] }", "2:30 bad_value", &["hidden from every box", "secrets: [NAME]"]),
        ("{ write: [~/.aws] }", "2:31 bad_value", &["credentials of a cloud"]),
        ("{ read: [/var/run/docker.sock] }", "2:30 bad_value", &["sockets of this machine"]),
        ("{ read: [/run/user/1000] }", "2:30 bad_value", &["sockets of this machine"]),
        ("{ write: [/usr/local] }", "2:31 bad_value", &["read-only in every box", "under `read:`"]),
        ("{ read: [\"${{ env.X }}\"] }", "2:30 expression", &["write it out"]),
        ("{ cache: [a b] }", "2:31 bad_value", &["letters, digits"]),
        ("{ cache: [a-b, a_b] }", "2:30 duplicate_name", &["the same variable"]),
        ("{ network: [\"https://x.org\"] }", "2:33 bad_value", &["is not a host", "write `example.com`"]),
        ("{ network: [\"*\"] }", "2:33 bad_value", &["only at the beginning"]),
        ("{ network: [169.254.169.254] }", "2:33 bad_value", &["cannot be allowed", "remove it"]),
        ("{ network: [\"example.com:0\"] }", "2:33 bad_value", &["a port is a number"]),
        ("{ env: [A=1] }", "2:29 bad_value", &["only the name"]),
        ("{ env: [ORC_X] }", "2:29 bad_value", &["kept for variables"]),
        ("{ secrets: [to-ken] }", "2:33 bad_value", &["letters, digits and `_`"]),
        ("{ env: [A], secrets: [A] }", "2:42 conflict", &["in one of the lists"]),
    ];
    check_in(of_step, &cases);
    check(&[
        (
            "steps: { a: { agent: coder, prompt: x, box: { secrets: [T] } } }",
            "1:47 conflict",
            &["secrets exist in `run:` steps only, never in an agent's box", "hand its result on"],
        ),
        (
            "box: { secrets: [T] }\nsteps: { a: { agent: coder, prompt: x } }",
            "1:1 conflict",
            &["no such step has a box"],
        ),
        ("steps: { a: { run: x, box: { secrets: [T] }, env: { T: 1 } } }", "1:53 conflict", &["another name"]),
        ("env: { T: 1 }\nbox: { secrets: [T] }\nsteps: { a: { run: x } }", "3:10 conflict", &["another name"]),
        ("steps: { a: { wait: 1s, box: {} } }", "1:25 conflict", &["beside `run`, `agent` only"]),
    ]);
}

#[test]
fn an_agent_that_calls_a_model_does_not_work_in_place() {
    let profile = "---\nadapter: command\ncommand: [agent]\nmodel: m-1\n---\nWork.\n";
    let profile = compile_profile(&SourceFile::new("agents/a.md", profile), &|_| Err("none".to_owned()), None);
    let agents = BTreeMap::from([("a".to_owned(), profile.profile.unwrap())]);
    let told = |text: &str| {
        let library = Library { agents: &agents, ..Library::empty() };
        let said = compile(&SourceFile::new("p.yaml", text), &library).diagnostics;
        said.into_iter().map(|problem| (problem.span.start, problem.message)).collect::<Vec<_>>()
    };
    let wanted = "this agent calls the model `m-1`, and a step in your own checkout has no box".to_owned();
    for text in [
        "steps: { a: { agent: a, prompt: x, worktree: in_place } }",
        "worktree: in_place\nsteps: { a: { agent: a, prompt: x } }",
    ] {
        assert_eq!(told(text), [(text.find("a, prompt").unwrap(), wanted.clone())]);
    }
    assert_eq!(told("steps: { a: { agent: a, prompt: x } }"), []);
}

#[test]
fn there_is_no_box_in_place() {
    check(&[
        (
            "steps: { a: { run: x, worktree: in_place, box: { read: [/x] } } }",
            "1:43 conflict",
            &["this step works in your own checkout, where there is no box", "remove `worktree: in_place`"],
        ),
        ("worktree: in_place\nbox: { read: [/x] }\nsteps: { a: { run: x } }", "2:1 conflict", &["all steps"]),
        ("worktree: in_place\nsteps: { a: { run: x, box: { cache: [c] } } }", "2:23 conflict", &["no box"]),
    ]);
    let some =
        good("worktree: in_place\nbox: { read: [/x] }\nsteps: { a: { run: x }, b: { run: x, worktree: fresh } }");
    assert_eq!((some.steps[0].rules.is_empty(), some.steps[1].rules.is_empty()), (true, false));
    // A pipeline of which nothing runs here says nothing about a place.
    good("worktree: in_place\nbox: { read: [/x] }\nsteps: { a: { wait: 1s } }");
}

#[test]
fn settings_say_what_may_be_asked_for() {
    let settings = settings(
        "box: { read: [/opt, ~/.cargo], write: [/var/cache], network: [\"*.example.com\", example.com], env: [] }\n\
         secrets: { TOKEN: { env: T } }\n",
    );
    let told = |value: &str| said_with(&format!("steps: {{ a: {{ run: x, box: {value} }} }}"), Some(&settings)).1;
    let allowed = [
        "{ read: [/opt, /opt/x, ~/.cargo/bin, /var/cache/x], write: [/var/cache/y], cache: [any] }",
        "{ network: [example.com, a.b.example.com, \"*.a.example.com\", \"example.com:443\"], secrets: [TOKEN] }",
    ];
    for value in allowed {
        assert_eq!(told(value), [""; 0], "{value}");
    }
    let refused = [
        (
            "{ read: [/optical] }",
            "1:37 not_allowed `/optical` is more than the setting `box.read` allows; orchestrator.yaml:1 allows `/opt`, `~/.cargo`; remove",
        ),
        ("{ write: [/opt/x] }", "1:38 not_allowed `/opt/x` is more than the setting `box.write` allows"),
        ("{ network: [example.org] }", "1:40 not_allowed `example.org` is more than the setting `box.network`"),
        ("{ network: [\"example.com:8443\"] }", "1:40 not_allowed `example.com:8443` is more than"),
        (
            "{ env: [LANG] }",
            "1:36 not_allowed `LANG` is more than the setting `box.env` allows; orchestrator.yaml:1 allows nothing",
        ),
        ("{ secrets: [TOKNE] }", "1:40 not_allowed the settings have no secret `TOKNE`; did you mean `TOKEN`?"),
        ("{ secrets: [OTHER] }", "1:40 not_allowed the settings have no secret `OTHER`; say where it is found"),
    ];
    let wrong = refused.iter().map(|(value, wanted)| (told(value), wanted));
    let wrong = wrong.filter(|(told, wanted)| told.len() != 1 || !told[0].starts_with(**wanted));
    assert_eq!(wrong.map(|(told, _)| told.concat()).collect::<Vec<_>>(), [""; 0]);
    // The same for rules that were compiled under other settings.
    let rules =
        good("steps: { a: { run: x, box: { read: [/optical, /opt/x], secrets: [OTHER] } } }").steps.remove(0).rules;
    let excess = settings.allowance().excess(&rules);
    let excess: Vec<_> = excess.iter().map(|excess| (excess.key, excess.entry.as_str())).collect();
    assert_eq!(excess, [("read", "/optical"), ("secrets", "OTHER")]);
    // Without a word, everything but secrets that there are not.
    let nothing = Settings::resolve(&[]);
    let many = "steps: { a: { run: x, box: { read: [/x], network: [a.org], env: [A], secrets: [S] } } }";
    assert_eq!(said_with(many, Some(&nothing)).1.len(), 1);
}

const JOIN: &str =
    "steps:\n  a: { run: x }\n  b: { run: x }\n  c: { run: x, needs: [a, b], on_conflict: { agent: coder } }\n";

#[test]
fn an_agent_resolves_conflicts() {
    let pipeline = good(JOIN);
    let action = pipeline.steps[2].on_conflict.as_ref().unwrap();
    assert_eq!((action.agent.as_str(), &action.schema), ("coder", &None));
    assert_eq!(pipeline.agents.keys().collect::<Vec<_>>(), ["coder"]);
    let prompt = action.prompt.to_string();
    for words in ["`a`, `b`", "`MERGE_HEAD`", "both intents", "Run the tests", "Commit the merge, or leave it"] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    assert_eq!(action.prompt.expressions().count(), 0);
    let fan =
        good("steps: { many: { foreach: [1], as: part, run: x, on_conflict: { agent: coder } } }").steps.remove(0);
    assert!(fan.on_conflict.unwrap().prompt.to_string().contains("the elements of the step `many`"));
    let own = good(
        "inputs: { goal: }\nenv: { E: 1 }\nsteps: { a: { foreach: [1], repeat: { max: 1, steps: { b: { run: x } } }, on_conflict: { agent: coder, prompt: \"Merge for ${{ inputs.goal }} ${{ env.E }}.\" } } }",
    );
    let prompt = own.steps[0].on_conflict.as_ref().unwrap().prompt.to_string();
    assert_eq!(prompt, "Merge for ${{ inputs.goal }} ${{ env.E }}.");
    // Whoever resolves needs what the pipeline's boxes let through, and no secret.
    let boxed = good(
        "box: { network: [example.com], secrets: [T] }\nsteps: { r: { run: x }, a: { foreach: [1], repeat: { max: 1, steps: { b: { run: x } } }, on_conflict: { agent: coder } } }",
    );
    assert_eq!(boxed.steps[1].rules, BoxRules { network: of(&["example.com"]), ..BoxRules::default() });
}

#[test]
fn conflicts_that_nobody_resolves() {
    let with = |keys: &str| format!("steps:\n  a: {{ run: x }}\n  b: {{ run: x }}\n  c: {{ needs: [a, b], {keys} }}\n");
    let cases: [(&str, &str, &[&str]); 12] = [
        ("run: x, on_conflict: coder", "4:44 wrong_type", &["write `on_conflict: { agent: coder }`"]),
        ("run: x, on_conflict: {}", "4:44 missing_key", &["does not say who"]),
        ("run: x, on_conflict: { agent: codre }", "4:53 unknown_name", &["did you mean `coder`?"]),
        ("run: x, on_conflict: { agent: coder, promt: x }", "4:60 unknown_key", &["did you mean `prompt`?"]),
        ("run: x, on_conflict: { agent: coder, prompt: \"${{ x }}\" }", "4:73 unknown_name", &[]),
        (
            "run: x, foreach: [1], on_conflict: { agent: coder, prompt: \"${{ item }}\" }",
            "4:87 unknown_name",
            &["the prompt of `on_conflict`"],
        ),
        ("wait: 1s, on_conflict: { agent: coder }", "4:33 conflict", &["has a meaning beside"]),
        (
            "repeat: { max: 1, steps: { d: { run: x } } }, on_conflict: { agent: coder }",
            "4:69 conflict",
            &["on those steps"],
        ),
        ("run: x, worktree: none, on_conflict: { agent: coder }", "4:47 conflict", &["no copy to merge into"]),
        ("run: x, worktree: in_place, on_conflict: { agent: coder }", "4:51 conflict", &["no copy to merge into"]),
        ("run: x, worktree: fresh, on_conflict: { agent: coder }", "4:48 conflict", &["takes nothing of what"]),
        ("run: x, foreach: [1], worktree: in_place, on_conflict: { agent: coder }", "4:65 conflict", &["no copy"]),
    ];
    check_in(with, &cases);
    let chain = |parent: &str| {
        format!(
            "steps:\n  z: {{ run: x }}\n  a: {{ {parent} }}\n  c: {{ run: x, needs: a, on_conflict: {{ agent: coder }} }}\n"
        )
    };
    // One result is never in conflict with itself; several may come through one step.
    let never = said(&chain("run: x, needs: z, foreach: [1]"));
    assert!(never.len() == 1 && never[0].starts_with("4:26 ?conflict `on_conflict` is never needed: `a`"), "{never:?}");
    for parent in ["wait: 1s, needs: [z]", "repeat: { max: 1, steps: { d: { run: x } } }", "run: x"] {
        assert_eq!(said(&chain(parent)), [""; 0], "{parent}");
    }
    assert_eq!(said(&format!("{JOIN}  d: {{ run: x, needs: c, on_conflict: {{ agent: coder }} }}\n")), [""; 0]);
}
