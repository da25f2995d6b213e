//! Bodies, matrices, other pipelines, agents, approvals, waits.

use orc_domain::action::{ApprovalAction, OnTimeout, PipelineAction, RepeatAction, Tier, WaitAction, WaitEvent};
use orc_domain::expr::{Template, TemplatePart};
use orc_domain::time::Millis;

use super::*;

/// What is told of one step with these keys, at line 3 and column 8 on.
fn told_of(keys: &str) -> Vec<String> {
    told(&steps(&format!("  a: {{ {keys} }}\n")))
}

fn check(cases: &[(&str, &[&str])]) {
    let wrong =
        cases.iter().map(|(keys, wanted)| (keys, told_of(keys), wanted)).filter(|(_, told, wanted)| told != *wanted);
    assert_eq!(wrong.map(|(keys, told, _)| format!("{keys}: {told:?}")).collect::<Vec<_>>(), [""; 0]);
}

const LOOP: &str = "\
worktree: in_place
steps:
  plan: { run: x }
  other: { run: x }
  check:
    needs: plan
    repeat:
      max: 3
      until: steps.review.output.ok && steps.plan.outcome == 'succeeded'
      steps:
        test: { run: x, continue_on_fail: true }
        deep:
          needs: test
          repeat: { max: 2, steps: { inner: { run: \"echo ${{ steps.test.outcome }} ${{ steps.plan.output.x }}\" } } }
        review: { run: \"echo ${{ previous.test.outcome }} ${{ steps.deep.output.inner.y }}\", needs: [deep] }
  second: { repeat: { max: 1, steps: { test: { run: x } } } }
  after: { run: \"echo ${{ steps.check.rounds }} ${{ steps.check.output.review.x }}\", needs: check }
finally:
  end: { repeat: { max: 1, steps: { tell: { run: \"echo ${{ steps.after.outcome }}\" } } } }
";

#[test]
fn bodies_follow_their_repeat_without_gaps() {
    let pipeline = pipeline(LOOP);
    let shape = |step: &StepSpec| (step.key.clone(), step.within.map(|within| within.0), step.phase);
    let main = PhaseKind::Main;
    let wanted = [
        ("plan", None, main),
        ("other", None, main),
        ("check", None, main),
        ("second", None, main),
        ("after", None, main),
        ("end", None, PhaseKind::Finally),
        ("test", Some(2), main),
        ("deep", Some(2), main),
        ("review", Some(2), main),
        ("test", Some(3), main),
        ("tell", Some(5), PhaseKind::Finally),
        ("inner", Some(7), main),
    ];
    let shapes: Vec<_> = pipeline.steps.iter().map(shape).collect();
    assert_eq!(shapes, wanted.map(|(key, within, phase)| (key.to_owned(), within, phase)));
    assert_eq!(pipeline.roots(), 6);
    assert_eq!(pipeline.steps[8].needs, [SpecIndex(7)]);
    let Action::Repeat(RepeatAction { first, count, max, until }) = &pipeline.steps[2].action else {
        panic!("repeats")
    };
    assert_eq!((first.0, *count, *max), (6, 3, 3));
    let until = until.as_ref().unwrap().to_string();
    assert_eq!(until, "steps.review.output.ok && (steps.plan.outcome == 'succeeded')");
    let stored = serde_json::to_string(&pipeline).unwrap();
    assert_eq!(serde_json::from_str::<Pipeline>(&stored).unwrap(), pipeline);
}

#[test]
fn a_body_reads_its_round_and_what_is_finished_before() {
    let read = |place: &str, expression: &str| {
        let line = match place {
            "until" => format!(
                "  check: {{ needs: plan, repeat: {{ max: 3, until: \"{expression}\", steps: {{ test: {{ run: x }}, fix: {{ run: x, needs: test }} }} }} }}\n"
            ),
            _ => format!(
                "  check: {{ needs: plan, repeat: {{ max: 3, steps: {{ test: {{ run: x }}, fix: {{ run: \"echo ${{{{ {expression} }}}}\", needs: test }}, side: {{ run: x }} }} }} }}\n"
            ),
        };
        steps(&format!(
            "  plan: {{ run: x }}\n  other: {{ run: x }}\n{line}  after: {{ run: x, needs: check }}\nfinally: {{ end: {{ run: x }} }}\n"
        ))
    };
    for expression in ["steps.test.output.x", "steps.plan.output.x", "previous.fix.output.x", "previous.side.outcome"] {
        assert_eq!(told(&read("fix", expression)), [""; 0], "{expression}");
    }
    for expression in
        ["steps.fix.output.x", "steps.plan.output.x", "previous.test.output.x", "steps.test.outcome == 'failed'"]
    {
        assert_eq!(told(&read("until", expression)), [""; 0], "{expression}");
    }
    let cases = [
        ("fix", "steps.side.output.x", "`fix` does not wait for `side`; add it to its needs: `needs: [side]`"),
        (
            "fix",
            "steps.other.output.x",
            "`check` does not wait for `other`; add it to the needs of `check`: `needs: [other]`",
        ),
        (
            "fix",
            "steps.check.output.x",
            "`check` is not finished while its steps run; read steps of this round, or `previous`",
        ),
        ("fix", "steps.fix.output.x", "`fix` reads its own result"),
        ("fix", "steps.after.output.x", "`check` does not wait for `after`"),
        (
            "fix",
            "steps.end.output.x",
            "`check` does not wait for `end`; every step of `finally` starts after all others",
        ),
        ("fix", "steps.tset.output.x", "there is no step `tset`; did you mean `test`?"),
        ("fix", "previous.plan.output", "this `repeat` has no step `plan`; its steps are fix, side, test"),
        (
            "fix",
            "previous.test.outptu",
            "`previous.test` has no `outptu`; it has outcome, output, error; did you mean `output`?",
        ),
        ("fix", "previous.test.rounds", "`previous.test` has no `rounds`"),
        ("until", "steps.other.output.x", "`check` does not wait for `other`; add it to its needs"),
        ("until", "steps.check.rounds > 1", "`check` reads its own result"),
        ("until", "success()", "`success()` has a meaning in `if` only"),
        ("until", "steps.test.outcome", "`until` needs an expression that gives true or false, not text; compare it"),
    ];
    for (place, expression, wanted) in cases {
        let text = read(place, expression);
        let words = words(&text);
        assert!(words.starts_with(wanted), "{place} {expression}: {words}");
    }
    let outside = |path: &str| {
        words(&steps(&format!(
            "  check: {{ repeat: {{ max: 1, steps: {{ test: {{ run: x }} }} }} }}\n  b: {{ run: \"echo ${{{{ {path} }}}}\", needs: check }}\n"
        )))
    };
    assert!(outside("steps.test.output").starts_with("there is no step `test`"));
    assert!(
        outside("steps.check.output.tset")
            .starts_with("`steps.check.output` has no `tset`; it has test; did you mean `test`?")
    );
    assert!(outside("previous.test").starts_with("`previous` is the round before, and this is not within a `repeat`"));
    assert!(outside("steps.check.results").contains("only a step with `foreach:` or `matrix:` has results"));
    assert_eq!(outside("steps.check.rounds - 1"), "");
}

#[test]
fn needs_stay_within_a_body() {
    let body = |step: &str| {
        steps(&format!(
            "  plan: {{ run: x }}\n  check: {{ needs: plan, repeat: {{ max: 3, steps: {{ test: {{ run: x }}, {step} }} }} }}\n  after: {{ run: x }}\n"
        ))
    };
    let cases = [
        (
            "fix: { run: x, needs: plan }",
            "`plan` stands outside of the body of `check`, where steps need each other only; add it to the needs of `check`",
        ),
        ("fix: { run: x, needs: tset }", "there is no step `tset`; did you mean `test`?"),
        ("fix: { run: x, needs: [fix] }", "`fix` needs itself"),
        ("b: { run: x, needs: c }, c: { run: x, needs: b }", "these steps wait for each other: b -> c -> b"),
        ("plan: { run: x }", "a step `plan` is in sight of this one already; choose another name"),
        ("check: { run: x }", "a step `check` is in sight of this one already"),
        ("after: { run: x }", "a step `after` is in sight of this one already"),
        ("b: { repeat: { max: 2, steps: { test: { run: x } } } }", "a step `test` is in sight of this one already"),
        ("b: { run: x, if: false }", "`b` never runs: its `if` is always false"),
        ("b: { run: x, repeat: { max: 2, steps: { c: { run: x } } } }", "`b` does several things: `run` and `repeat`"),
    ];
    for (step, wanted) in cases {
        let words = words(&body(step));
        assert!(words.starts_with(wanted) && words.lines().count() == 1, "{step}: {words}");
    }
    let out = steps("  check: { repeat: { max: 3, steps: { test: { run: x } } } }\n  b: { run: x, needs: test }\n");
    assert!(words(&out).starts_with(
        "`test` is a step of the body of `check`, which only steps of that body can need; need `check` itself"
    ));
}

#[test]
fn a_repeat_has_rounds_and_steps() {
    check(&[
        ("repeat: { max: 2 }", &["3:3 missing_key"]),
        ("repeat: { steps: { b: { run: x } } }", &["3:3 missing_key"]),
        ("repeat: { max: 0, steps: { b: { run: x } } }", &["3:23 bad_value"]),
        ("repeat: { max: 101, steps: { b: { run: x } } }", &["3:23 bad_value"]),
        ("repeat: { max: 2, steps: {} }", &["3:26 bad_value"]),
        ("repeat: { max: 2, steps: [{ run: x }] }", &["3:33 wrong_type"]),
        ("repeat: 3", &["3:16 wrong_type"]),
        ("repeat: { max: 2, untill: true, steps: { b: { run: x } } }", &["3:26 unknown_key"]),
        ("repeat: { max: 2, finally: {}, steps: { b: { run: x } } }", &["3:26 unknown_key"]),
        ("repeat: { max: 2, until: steps.b, steps: { b: { run: x } } }", &["3:33 type"]),
        (
            "repeat: { max: 2, steps: { b: { run: x } } }, timeout: 1h, env: { A: b }",
            &["3:54 conflict", "3:67 conflict"],
        ),
        (
            "repeat: { max: 2, steps: { b: { run: x } } }, retry: { attempts: 2 }, priority: 1",
            &["3:54 conflict", "3:78 conflict"],
        ),
        ("repeat: { max: 2, steps: { b: { run: x } } }, continue_on_fail: true, if: inputs.x", &["3:89 unknown_name"]),
    ]);
}

#[test]
fn elements_of_a_repeat_are_read_by_its_body() {
    let each = |keys: &str, script: &str, more: &str| {
        steps(&format!(
            "  a: {{ {keys}, repeat: {{ max: 2, until: \"item == 'x'\", steps: {{ b: {{ run: \"{script}\"{more} }} }} }} }}\n"
        ))
    };
    assert_eq!(told(&each("foreach: [x, y]", "echo ${{ item }}", ", if: item == 'y'")), [""; 0]);
    assert_eq!(told(&each("foreach: [x, y]", "x", ", foreach: [1]")), ["3:89 conflict"]);
    assert_eq!(told(&each("foreach: [x, y]", "echo ${{ item }} ${{ part }}", ", foreach: [item], as: part")), [""; 0]);
    let matrix = "  a: { matrix: { os: [l] }, repeat: { max: 2, steps: { b: { run: \"echo ${{ matrix.os }}\", if: matrix.os == 'l' } } } }\n";
    assert_eq!(told(&steps(matrix)), [""; 0]);
    let twice = "  a: { matrix: { os: [l] }, repeat: { max: 2, steps: { b: { run: x, matrix: { n: [1] } } } } }\n";
    assert_eq!(told(&steps(twice)), ["3:69 conflict"]);
    let results = "  a: { foreach: [1], repeat: { max: 2, steps: { b: { run: x } } } }\n  c: { needs: a, run: \"echo ${{ steps.a.results[0].output.b.x }}\" }\n";
    assert_eq!(told(&steps(results)), [""; 0]);
}

#[test]
fn the_fixture_of_every_kind_alone_compiles() {
    let compiled = pipeline(include_str!("../../../tests/fixtures/every-kind.yaml"));
    let kinds: BTreeSet<&str> = compiled.steps.iter().map(|step| step.action.word()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["approval", "repeat", "run", "wait"]);
}

fn cells(matrix: &str) -> Vec<String> {
    let Some(Fan { elements: Elements::Matrix(cells), .. }) =
        only_step(&format!("  a: {{ run: x, matrix: {matrix} }}\n")).fan
    else {
        panic!("it has a matrix");
    };
    let shown = |cell: &BTreeMap<String, Value>| {
        cell.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    cells.iter().map(shown).collect()
}

#[test]
fn combinations_of_a_matrix() {
    assert_eq!(cells("{ os: [a, b], n: [1, 2] }"), ["n=1 os=a", "n=2 os=a", "n=1 os=b", "n=2 os=b"]);
    assert_eq!(
        cells("{ os: [a, b], n: [1, 2], exclude: [{ os: a, n: 1 }, { n: 2, os: b }] }"),
        ["n=2 os=a", "n=1 os=b"]
    );
    assert_eq!(cells("{ os: [a, b], n: [1, 2], exclude: [{ os: a }] }"), ["n=1 os=b", "n=2 os=b"]);
    assert_eq!(cells("{ include: [{ os: a }, { os: b, n: 1 }] }"), ["os=a", "n=1 os=b"]);
    assert_eq!(cells("{ v: [1.10, 007, no, true] }"), ["v=1.10", "v=007", "v=no", "v=true"]);
    // Each line of `include` changes what the lines before it added, and never an axis.
    let fruit = "{ fruit: [apple, pear], animal: [cat, dog], include: [{ color: green }, { color: pink, animal: cat }, \
                 { fruit: apple, shape: circle }, { fruit: banana }, { fruit: banana, animal: cat }] }";
    let wanted = [
        "animal=cat color=pink fruit=apple shape=circle",
        "animal=dog color=green fruit=apple shape=circle",
        "animal=cat color=pink fruit=pear",
        "animal=dog color=green fruit=pear",
        "fruit=banana",
        "animal=cat fruit=banana",
    ];
    assert_eq!(cells(fruit), wanted);
    let step =
        only_step("  a: { run: \"echo ${{ matrix.n + 1 }}\", matrix: { n: [1, 2] }, limit: 1, fail_fast: true }\n");
    assert_eq!(step.fan.map(|fan| (fan.limit, fan.fail_fast)), Some((Some(1), true)));
}

#[test]
fn matrices_that_cannot_be() {
    check(&[
        ("run: x, matrix: {}", &["3:24 bad_value"]),
        ("run: x, matrix: { os: [] }", &["3:30 bad_value"]),
        ("run: x, matrix: { os: linux }", &["3:30 wrong_type"]),
        ("run: x, matrix: [a]", &["3:24 wrong_type"]),
        ("run: x, matrix: { os: \"${{ inputs.x }}\" }", &["3:30 expression"]),
        ("run: x, matrix: \"${{ inputs.x }}\"", &["3:24 expression"]),
        ("run: x, matrix: { os: [a], exclude: [{ os: a }] }", &["3:24 bad_value"]),
        ("run: x, matrix: { os: [a], exclude: [{ so: a }] }", &["3:45 unknown_name"]),
        ("run: x, matrix: { os: [a], exclude: [{ os: b }] }", &["3:45 ?never_produced"]),
        ("run: x, matrix: { os: [a], include: { os: b } }", &["3:44 wrong_type"]),
        ("run: x, matrix: { os: [a], include: [b] }", &["3:45 wrong_type"]),
        ("run: x, matrix: { os: [a, a] }", &["3:24 bad_value"]),
        ("run: x, matrix: { os: [1, \"1\"] }", &["3:24 bad_value"]),
        ("run: x, matrix: { 1os: [a] }", &["3:26 bad_value"]),
        ("run: x, matrix: { os: [a] }, foreach: [1]", &["3:16 conflict"]),
        ("run: x, matrix: { os: [a] }, as: part", &["3:37 conflict"]),
        ("run: \"echo ${{ matrix.so }}\", matrix: { os: [a] }", &["3:30 unknown_name"]),
        ("run: \"echo ${{ matrix.n + 1 }}\", matrix: { n: [x] }", &["3:23 type"]),
        ("run: \"echo ${{ matrix.n + 1 }}\", matrix: { n: [x, 1] }", &[]),
        ("run: x, if: matrix.os == 'a', matrix: { os: [a] }", &["3:20 never_produced"]),
        ("run: x, limit: 2", &["3:16 conflict"]),
    ]);
    let axis = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<_>>().join(", ");
    let large = |axes: usize, values: usize| {
        let axes = (0..axes).map(|at| format!("a{at}: [{}]", axis(values))).collect::<Vec<_>>().join(", ");
        told_of(&format!("run: x, matrix: {{ {axes} }}"))
    };
    assert_eq!(large(3, 10), [""; 0]);
    assert_eq!(large(1, 1001), ["3:24 limit"]);
    assert_eq!(large(25, 25), ["3:24 limit"]);
    assert_eq!(told_of(&format!("run: x, matrix: {{ a: [{}] }}", "x".repeat(250))), ["3:24 limit"]);
}

/// Compiles `pipelines/ship.yaml` beside the files given.
fn compiled(text: &str, files: &[(&str, &str)]) -> Compiled {
    let read = |path: &str| {
        let found = files.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "there is no such file".to_owned())
    };
    let agents = agents(&["coder", "reviewer"]);
    let people = BTreeSet::from(["alice".to_owned(), "maintainers".to_owned()]);
    let broken = BTreeSet::from(["sloppy".to_owned()]);
    let library = Library {
        pipelines: &read,
        schemas: &read,
        agents: &agents,
        broken_agents: &broken,
        people: Some(&people),
        allowance: None,
    };
    compile(&SourceFile::new("pipelines/ship.yaml", text), &library)
}

fn words_among(text: &str, files: &[(&str, &str)]) -> Vec<String> {
    let told = compiled(text, files).diagnostics.into_iter();
    told.map(|problem| format!("{}; {}", problem.message, problem.help.unwrap_or_default())).collect()
}

const CHILD: &str = "\
name: build it
inputs: { area: , count: { type: number, default: 3 }, parts: { type: list, default: [] } }
worktree: in_place
steps: { a: { run: x } }
outputs: { version: steps.a.output.version, count: inputs.count, all: \"${{ 'x' }}\" }
";

#[test]
fn another_pipeline_is_compiled_pinned_and_typed() {
    let text = "steps:\n  b: { pipeline: build, with: { area: \"${{ flow.id }}\", count: 1_000, parts: [1, b] } }\n  \
                c: { wait: 1s, needs: b, if: \"steps.b.output.count > 2 && steps.b.output.version == 1\" }\n";
    let compiled = compiled(text, &[("pipelines/build.yaml", CHILD)]);
    assert_eq!(compiled.diagnostics, []);
    let pipeline = compiled.pipeline.unwrap();
    let [child] = compiled.children.as_slice() else { panic!("one child") };
    let (hash, built) = child.pipeline.clone().unwrap();
    assert_eq!((child.source.name.as_str(), child.source.text.as_str()), ("pipelines/build.yaml", CHILD));
    assert_eq!(hash, built.content_hash().unwrap());
    assert_eq!(built.outputs["version"].to_string(), "steps.a.output.version");
    let Action::Pipeline(PipelineAction { name, pipeline: pinned, with }) = &pipeline.steps[0].action else {
        panic!("calls")
    };
    assert_eq!((name.as_str(), pinned), ("build it", &hash));
    let literal = |value| Template { parts: vec![TemplatePart::Expr(Expr::Literal(value))] };
    assert_eq!(with["count"], literal(Value::Int(1000)));
    assert_eq!(with["parts"], literal(Value::List(vec![Value::Int(1), Value::text("b")])));
    assert_eq!(with["area"].to_string(), "${{ flow.id }}");
}

#[test]
fn paths_count_from_the_file_that_names_them() {
    let leaf = "worktree: in_place\nsteps: { a: { run: x } }\n";
    let files = [
        ("pipelines/sub/one.yaml", "steps: { a: { pipeline: two }, b: { pipeline: ../three.yaml } }\n"),
        ("pipelines/sub/two.yaml", leaf),
        ("pipelines/three.yaml", leaf),
        ("other.yml", leaf),
    ];
    let text = "steps: { a: { pipeline: sub/one.yaml }, b: { pipeline: ./three.yaml }, c: { pipeline: ../other.yml } }";
    let compiled = compiled(text, &files);
    assert_eq!(compiled.diagnostics, []);
    let names: Vec<&str> = compiled.children.iter().map(|child| child.source.name.as_str()).collect();
    assert_eq!(names, ["pipelines/sub/two.yaml", "pipelines/three.yaml", "pipelines/sub/one.yaml", "other.yml"]);
}

#[test]
fn mistakes_about_another_pipeline() {
    let call = |keys: &str| {
        words_among(
            &format!(
                "steps: {{ b: {{ pipeline: build, {keys} }}, c: {{ wait: 1s, needs: b, if: steps.b.output.version == 1 }} }}"
            ),
            &[("pipelines/build.yaml", CHILD)],
        )
    };
    let cases = [
        ("with: {}", "the pipeline `build it` needs inputs: area; add `with: { area: ... }`"),
        ("with: { area: x, coutn: 1 }", "the pipeline `build it` has no input `coutn`; did you mean `count`?"),
        ("with: { area: x, zone: 1 }", "the pipeline `build it` has no input `zone`; it takes area, count, parts"),
        ("with: { area: x, count: many }", "the input `count` needs a number, not `many`"),
        ("with: { area: x, count: \"${{ flow.id }}\" }", "the input `count` takes a number, not text"),
        ("with: { area: x, count: \"1${{ flow.id }}\" }", "the input `count` takes a number, not text"),
        ("with: { area: [x] }", "the input `area` needs text, not a list"),
        ("with: { area: x, parts: [\"${{ flow.id }}\"] }", "an expression cannot stand within a value"),
        ("with: { area: \"${{ steps.c.output }}\" }", "`b` does not wait for `c`"),
        (
            "with: { area: x }, timeout: 1h",
            "`timeout` has a meaning beside `run`, `agent` only, not beside `pipeline`; write it in the other pipeline",
        ),
        (
            "with: { area: x }, env: { A: b }",
            "`env` has a meaning beside `run`, `agent` only, not beside `pipeline`; hand the value in as an input: `with:`",
        ),
    ];
    for (keys, wanted) in cases {
        let told = call(keys);
        assert!(told.len() == 1 && told[0].starts_with(wanted), "{keys}: {told:?}");
    }
    let field = "steps: { b: { pipeline: build, with: { area: x } }, c: { wait: 1s, needs: b, if: steps.b.output.versoin == 1 } }";
    let told = words_among(field, &[("pipelines/build.yaml", CHILD)]);
    assert_eq!(told, ["`steps.b.output` has no `versoin`; it has all, count, version; did you mean `version`?"]);
    let call = |path: &str| words_among(&format!("steps: {{ b: {{ pipeline: {path} }} }}"), &[]);
    assert!(
        call("none")[0]
            .starts_with("cannot read the pipeline `pipelines/none.yaml`: there is no such file; `NAME` is the file")
    );
    assert!(call("/etc/x.yaml")[0].starts_with("`/etc/x.yaml` is not the name or the path of a pipeline"));
    assert!(call("\"${{ inputs.x }}\"")[0].starts_with("an expression cannot choose the pipeline"));
    assert!(call("{ name: x }")[0].starts_with("`pipeline` needs text, not a map"));
}

#[test]
fn a_broken_child_is_told_in_its_own_file() {
    let broken = "worktree: in_place\nsteps: { a: { run: x, neds: b }, b: { rn: x } }\n";
    let text = "steps: { b: { pipeline: build }, c: { pipeline: build, needs: b, if: steps.b.output.any } }";
    let compiled = compiled(text, &[("pipelines/build.yaml", broken)]);
    let told: Vec<_> =
        compiled.diagnostics.iter().map(|problem| (problem.file.as_str(), problem.message.as_str())).collect();
    let parent = "pipelines/ship.yaml";
    assert_eq!(
        told,
        [
            (parent, "the pipeline `pipelines/build.yaml` cannot be used: it has 2 errors"),
            (parent, "the pipeline `pipelines/build.yaml` cannot be used"),
        ]
    );
    let [child] = compiled.children.as_slice() else { panic!("one child") };
    assert!(child.pipeline.is_none() && compiled.pipeline.is_none());
    assert_eq!(child.diagnostics.len(), 2);
    assert!(
        child
            .diagnostics
            .iter()
            .all(|problem| problem.file == "pipelines/build.yaml" && problem.code == Code::UnknownKey)
    );
}

#[test]
fn pipelines_that_call_each_other_are_refused_with_the_circle() {
    let to = |name: &str| format!("steps: {{ a: {{ pipeline: {name} }} }}\n");
    let (one, two, own) = (to("two"), to("ship"), to("ship"));
    let compiled_two = compiled(&to("one"), &[("pipelines/one.yaml", &one), ("pipelines/two.yaml", &two)]);
    let circles: Vec<&str> = compiled_two
        .children
        .iter()
        .flat_map(|child| &child.diagnostics)
        .filter(|problem| problem.code == Code::Cycle)
        .map(|problem| problem.message.as_str())
        .collect();
    assert_eq!(
        circles,
        [
            "these pipelines call each other: pipelines/ship.yaml -> pipelines/one.yaml -> pipelines/two.yaml -> pipelines/ship.yaml"
        ]
    );
    assert_eq!(compiled_two.pipeline, None);
    assert!(
        words_among(&own, &[])[0]
            .starts_with("these pipelines call each other: pipelines/ship.yaml -> pipelines/ship.yaml")
    );
    let chain: Vec<(String, String)> =
        (0..20).map(|at| (format!("pipelines/p{at}.yaml"), to(&format!("p{}", at + 1)))).collect();
    let chain: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let deep = compiled(&to("p0"), &chain);
    assert_eq!(deep.children.len(), 8);
    assert_eq!(deep.children[0].diagnostics[0].code, Code::Limit);
}

#[test]
fn agents_are_looked_up_and_embedded() {
    let text = "worktree: in_place\nenv: { E: x }\nsteps:\n  a: { agent: coder, prompt: \"Do ${{ env.E }}\", output: { schema: { type: object, properties: { ok: { type: boolean }, parts: { type: array, items: { type: string } } } } } }\n  \
                b: { agent: reviewer, needs: a, foreach: steps.a.output.parts, if: steps.a.output.ok, prompt: \"${{ item }}\", output: { schema: schemas/v.json } }\n";
    let compiled = compiled(text, &[("schemas/v.json", "{ \"type\": \"string\" }")]);
    assert_eq!(compiled.diagnostics, []);
    let pipeline = compiled.pipeline.unwrap();
    assert_eq!(pipeline.agents.keys().collect::<Vec<_>>(), ["coder", "reviewer"]);
    let Action::Agent(agent) = &pipeline.steps[1].action else { panic!("an agent") };
    assert_eq!(agent.schema, Some(serde_json::json!({ "type": "string" })));
    let cases = [
        ("agent: codr, prompt: x", "there is no agent `codr`; did you mean `coder`?"),
        ("agent: tester, prompt: x", "there is no agent `tester`; the agents are coder, reviewer, sloppy"),
        (
            "agent: sloppy, prompt: x",
            "the profile of the agent `sloppy` has mistakes; what is wrong is said at its own place",
        ),
        ("agent: coder", "`a` does not say what is asked; add `prompt:`"),
        ("agent: coder, prompt:", "`prompt` needs text, not nothing"),
        ("agent: coder, promt: x", "a step has no key `promt`; did you mean `prompt`?"),
        ("agent: coder, prompt: x, shell: bash", "`shell` has a meaning beside `run` only, not beside `agent`"),
        ("agent: coder, prompt: x, output: { schema: { type: objekt } }", "this schema cannot be used"),
        ("agent: coder, prompt: x, output: { schema: schemas/no.json }", "cannot read the schema `schemas/no.json`"),
        ("run: x, prompt: x", "`prompt` has a meaning beside `agent` only, not beside `run`"),
        ("run: x, output: { schema: {} }", "`output` beside `run` is not available yet"),
        ("run: x, with: {}", "`with` has a meaning beside `pipeline` only"),
    ];
    for (keys, wanted) in cases {
        let told = words_among(&steps(&format!("  a: {{ {keys} }}\n")), &[]);
        assert!(told.len() == 1 && told[0].starts_with(wanted), "{keys}: {told:?}");
    }
}

#[test]
fn what_a_schema_says_is_what_can_be_read() {
    let read = |path: &str, more: &str| {
        let schema = format!(
            "{{ type: object, properties: {{ n: {{ type: integer }}, deep: {{ type: object, properties: {{ x: {{ type: string }} }} }} }}{more} }}"
        );
        words_among(
            &steps(&format!(
                "  a: {{ agent: coder, prompt: x, output: {{ schema: {schema} }} }}\n  b: {{ needs: a, run: x, if: \"{path}\" }}\n"
            )),
            &[],
        )
    };
    assert_eq!(read("steps.a.output.n > 1 && steps.a.output.deep.x == 'y'", ""), [""; 0]);
    assert!(
        read("steps.a.output.m == 1", "")[0].starts_with("nothing says that `steps.a.output` has `m`; it has deep, n")
    );
    let closed = ", additionalProperties: false";
    assert!(read("steps.a.output.m == 1", closed)[0].starts_with("`steps.a.output` has no `m`; it has deep, n"));
    assert!(read("steps.a.output.deep.x > 1", "")[0].starts_with("`>` compares two numbers or two texts"));
    assert_eq!(read("steps.a.output.m == 1", ", anyOf: [{}]"), [""; 0]);
}

#[test]
fn approvals() {
    let approval = |keys: &str| match only_step(&format!("  a: {{ approval: {keys} }}\n")).action {
        Action::Approval(approval) => approval,
        other => panic!("{other:?}"),
    };
    let plain = ApprovalAction {
        by: vec!["alice".to_owned()],
        message: None,
        timeout: Millis::from_secs(7 * 86_400),
        on_timeout: OnTimeout::Deny,
        remind: None,
        tiers: Vec::new(),
        four_eyes: false,
    };
    assert_eq!(approval("[alice, alice]"), plain);
    assert_eq!(approval("alice"), plain);
    assert!(approval("{}").by.is_empty());
    let full = approval(
        "{ by: alice, message: \"ship ${{ flow.id }}?\", timeout: 3d, on_timeout: approve, remind: 4h, tiers: [{ after: 1d, by: [leads] }, { after: 2d, by: bob }], four_eyes: true }",
    );
    assert_eq!(
        (full.timeout, full.on_timeout, full.remind),
        (Millis::from_secs(3 * 86_400), OnTimeout::Approve, Some(Millis::from_secs(4 * 3600)))
    );
    assert_eq!(full.tiers[1], Tier { after: Millis::from_secs(2 * 86_400), by: vec!["bob".to_owned()] });
    assert!(full.four_eyes);
    check(&[
        ("approval:", &["3:16 wrong_type"]),
        ("approval: []", &["3:18 bad_value"]),
        ("approval: { by: [] }", &["3:24 bad_value"]),
        ("approval: { by: { a: 1 } }", &["3:24 wrong_type"]),
        ("approval: { approvers: [a] }", &["3:20 unknown_key"]),
        ("approval: { on_timeout: fail }", &["3:32 bad_value"]),
        ("approval: { timeout: 1h, remind: 1h }", &["3:41 conflict"]),
        ("approval: { timeout: 1h, tiers: [{ after: 2h, by: a }] }", &["3:50 conflict"]),
        ("approval: { tiers: [{ after: 2h, by: a }, { after: 2h, by: b }] }", &["3:59 conflict"]),
        ("approval: { tiers: [{ after: 2h }, { by: a }] }", &["3:28 missing_key", "3:43 missing_key"]),
        ("approval: { tiers: { after: 2h, by: a } }", &["3:27 wrong_type"]),
        ("approval: { message: \"${{ env.X }}\" }", &["3:34 expression"]),
        ("approval: a, timeout: 1h", &["3:21 conflict"]),
    ]);
    let among = |by: &str| words_among(&format!("steps: {{ a: {{ approval: {{ by: {by} }} }} }}"), &[]);
    assert_eq!(among("[alice, maintainers]"), [""; 0]);
    assert!(
        among("[maintaners]")[0]
            .starts_with("the settings have no person and no group `maintaners`; did you mean `maintainers`?")
    );
    assert!(among("[zoe]")[0].contains("add it under `people:` or `groups:`"));
}

#[test]
fn waits() {
    let wait = |keys: &str| match only_step(&format!("  a: {{ wait: {keys} }}\n")).action {
        Action::Wait(wait) => wait,
        other => panic!("{other:?}"),
    };
    assert_eq!(wait("10m"), WaitAction::For(Template::literal("10m")));
    assert_eq!(wait("{ for: 1h30m }"), WaitAction::For(Template::literal("1h30m")));
    assert_eq!(
        wait("{ until: 2026-12-24T18:00:00+01:00 }"),
        WaitAction::Until(Template::literal("2026-12-24T18:00:00+01:00"))
    );
    let event = |event, pipeline: Option<&str>, timeout| WaitAction::Event {
        event,
        pipeline: pipeline.map(Template::literal),
        timeout: Millis::from_secs(timeout),
    };
    assert_eq!(wait("{ event: FlowFinished }"), event(WaitEvent::FlowFinished, None, 86_400));
    assert_eq!(
        wait("{ event: AgentRunCompleted, pipeline: ship, timeout: 2h }"),
        event(WaitEvent::AgentRunCompleted, Some("ship"), 7200)
    );
    check(&[
        ("wait: \"${{ flow.id }}\"", &[]),
        ("wait: { until: \"${{ flow.id }}\" }", &[]),
        ("wait:", &["3:12 wrong_type"]),
        ("wait: 10", &["3:14 bad_value"]),
        ("wait: 0s", &["3:14 bad_value"]),
        ("wait: \"2026-12-24T18:00:00Z\"", &["3:14 bad_value"]),
        ("wait: { until: \"2026-12-24\" }", &["3:23 bad_value"]),
        ("wait: { until: 10m }", &["3:23 bad_value"]),
        ("wait: { until: \"2026-13-24T18:00:00Z\" }", &["3:23 bad_value"]),
        ("wait: {}", &["3:14 conflict"]),
        ("wait: { for: 1s, event: FlowFinished }", &["3:14 conflict"]),
        ("wait: { for: 1s, timeout: 1h }", &["3:25 conflict"]),
        ("wait: { minutes: 3 }", &["3:16 unknown_key"]),
        ("wait: { event: TicketCreated }", &["3:23 not_available"]),
        ("wait: { event: FlowFinish }", &["3:23 bad_value"]),
        ("wait: 10m, timeout: 1h", &["3:19 conflict"]),
        ("wait: 10m, worktree: in_place, artifacts: x", &["3:19 conflict", "3:39 conflict"]),
    ]);
    assert_eq!(told("steps: { a: { wait: 10m } }"), [""; 0]);
}
