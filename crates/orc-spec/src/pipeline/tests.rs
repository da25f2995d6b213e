mod kinds;
mod limits;
mod trees;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use orc_domain::expr::{Expr, Root, Segment};
use orc_domain::graph::{Action, Elements, Fan, InputKind, PhaseKind, RunAction, SpecIndex, StepSpec};
use orc_domain::json_schema::JsonSchema;
use orc_domain::profile::Profile;
use orc_domain::value::{Finite, Value};

use super::*;
use crate::diagnostic::Severity;
use crate::profile::{Texts, compile_profile};

/// Each problem as `line:column code`, warnings with a `?` before the code.
fn told(text: &str) -> Vec<String> {
    let file = SourceFile::new("pipelines/ship.yaml", text);
    let tell = |problem: &Diagnostic| {
        let at = file.position(problem.span.start);
        let mark = if problem.severity == Severity::Warning { "?" } else { "" };
        format!("{}:{} {mark}{}", at.line, at.column, problem.code)
    };
    compile(&file, &Library::empty()).diagnostics.iter().map(tell).collect()
}

/// Message and help of each problem.
fn words(text: &str) -> String {
    let file = SourceFile::new("pipelines/ship.yaml", text);
    let told = compile(&file, &Library::empty()).diagnostics.into_iter();
    told.map(|problem| format!("{}; {}", problem.message, problem.help.unwrap_or_default()))
        .collect::<Vec<_>>()
        .join("\n")
}

fn pipeline(text: &str) -> Pipeline {
    let file = SourceFile::new("pipelines/ship.yaml", text);
    let compiled = compile(&file, &Library::empty());
    let told: Vec<String> = compiled.diagnostics.iter().map(|problem| problem.render(&file, false)).collect();
    let pipeline = compiled.pipeline.unwrap_or_else(|| panic!("{}", told.join("\n")));
    assert_eq!(schema_problems(text), [""; 0], "what compiles fits the schema for editors: {text}");
    pipeline
}

fn schema_problems(text: &str) -> Vec<String> {
    static SCHEMA: LazyLock<JsonSchema> =
        LazyLock::new(|| JsonSchema::compile(&crate::schema::pipeline_schema()).unwrap());
    let root = yaml::parse(text, &mut Report::new("")).unwrap();
    SCHEMA.problems(&read::value(&root).unwrap().to_json()).iter().map(ToString::to_string).collect()
}

fn steps(text: &str) -> String {
    format!("worktree: in_place\nsteps:\n{text}")
}

fn only_step(text: &str) -> StepSpec {
    pipeline(&steps(text)).steps.remove(0)
}

fn agents(names: &[&str]) -> BTreeMap<String, Profile> {
    let one = |name: &&str| {
        let file =
            SourceFile::new(format!("agents/{name}.md"), "---\nadapter: command\ncommand: [agent]\n---\nWork.\n");
        ((*name).to_owned(), compile_profile(&file, &|_| Err("none".to_owned()), None).profile.unwrap())
    };
    names.iter().map(one).collect()
}

#[test]
fn the_example_compiles_and_says_nothing() {
    let file = SourceFile::new("pipelines/hello.yaml", include_str!("../../../../pipelines/hello.yaml"));
    let compiled = compile(&file, &Library::empty());
    assert_eq!(compiled.diagnostics, []);
    let keys: Vec<String> = compiled.pipeline.unwrap().steps.into_iter().map(|step| step.key).collect();
    assert_eq!(keys, ["look", "count", "stumble", "report", "goodbye"]);
}

#[test]
fn ten_mistakes_are_told_at_their_places() {
    let text = "\
name: ship
worktree: in_place
inputs:
  count: { type: number, default: many }
defualts: { timeout: 1h }
steps:
  build:
    run: make
    timeout: 30
  test:
    neds: [build]
    run: make test
  check:
    needs: [biuld]
    run: make check
  deploy:
    needs: [test]
    run: echo '${{ inputs.count }}'
    retry: { attempts: 0 }
  notify:
    run: echo ${{ inputs.conut }}
  build:
    run: again
  tell: { run: ${{ inputs.count }} }
";
    let wanted = [
        "4:35 wrong_type",
        "5:1 unknown_key",
        "9:14 bad_value",
        "11:5 unknown_key",
        "14:13 unknown_step",
        "18:16 quoting",
        "19:24 bad_value",
        "21:26 unknown_name",
        "22:3 duplicate_key",
        "24:16 yaml",
    ];
    assert_eq!(told(text), wanted);
    let words = words(text);
    for suggestion in
        ["did you mean `needs`?", "did you mean `build`?", "did you mean `count`?", "did you mean `defaults`?"]
    {
        assert!(words.contains(suggestion), "{suggestion} in\n{words}");
    }
}

#[test]
fn of_the_full_example_only_later_keys_are_refused() {
    let file = SourceFile::new("ship.yaml", include_str!("../../tests/fixtures/design-example.yaml"));
    let agents = agents(&["architect", "coder", "reviewer"]);
    let schema: Texts<'_> = &|_| {
        let members = r#"{ "verdict": { "type": "string" }, "findings": {}, "parts": { "type": "array" } }"#;
        Ok(format!(r#"{{ "type": "object", "properties": {members} }}"#))
    };
    let compiled = compile(&file, &Library { agents: &agents, schemas: schema, ..Library::empty() });
    assert_eq!(compiled.pipeline, None);
    let errors = compiled.diagnostics.iter().filter(|problem| problem.severity == Severity::Error);
    let refused: Vec<(usize, &str)> = errors
        .map(|problem| {
            assert_eq!(problem.code, Code::NotAvailable, "{}", problem.message);
            assert!(problem.message.contains("not available yet"), "{}", problem.message);
            (file.position(problem.span.start).line, &file.text[problem.span.range()])
        })
        .collect();
    let wanted = [(4, "ticket"), (5, "schedule"), (6, "github"), (7, "event"), (42, "publish"), (44, "comment")];
    assert_eq!(refused, wanted);
}

#[test]
fn every_later_key_is_refused_alone() {
    for key in keys::STEP.keys.iter().filter(|key| !key.is_available()) {
        let text = steps(&format!("  a: {{ {}: {{ x: 1 }} }}\n", key.name));
        assert_eq!(told(&text), ["3:8 not_available"], "{}", key.name);
    }
    for key in keys::PIPELINE.keys.iter().filter(|key| !key.is_available()) {
        let text = format!("{}: {{ x: 1 }}\n{}", key.name, steps("  a: { run: x }\n"));
        assert_eq!(told(&text), ["1:1 not_available"], "{}", key.name);
    }
    for key in keys::ON.keys.iter().filter(|key| !key.is_available()) {
        let text = format!("on: {{ {}: {{ x: 1 }} }}\n{}", key.name, steps("  a: { run: x }\n"));
        assert_eq!(told(&text), ["1:7 not_available"], "{}", key.name);
    }
}

/// A table entry that no reader reads would be a key that is silently ignored.
#[test]
fn every_available_key_is_read() {
    let wrong = "[[{ x: 1 }]]";
    for key in keys::STEP.keys.iter().filter(|key| key.is_available() && key.name != "run") {
        let foreach = if matches!(key.name, "as" | "limit" | "fail_fast") { "foreach: [1], " } else { "" };
        let wrong = if key.name == "foreach" { "{ x: 1 }" } else { wrong };
        let text = steps(&format!("  a: {{ run: x, {foreach}{}: {wrong} }}\n", key.name));
        assert!(!told(&text).is_empty(), "{}", key.name);
    }
    let others = [(&keys::PIPELINE, "", ""), (&keys::ON, "on: { ", " }"), (&keys::DEFAULTS, "defaults: { ", " }")];
    let nested =
        [(&keys::RETRY, "defaults: { retry: { ", " } }"), (&keys::INPUT, "inputs: { i: { type: string, ", " } }")];
    for (table, before, after) in others.into_iter().chain(nested) {
        for key in table.keys.iter().filter(|key| key.is_available()) {
            if matches!((table.name, key.name), ("a pipeline", "steps" | "worktree")) {
                continue;
            }
            let before = if table.name == "an input" && key.name == "type" { "inputs: { i: { " } else { before };
            let text = format!("{before}{}: {wrong}{after}\n{}", key.name, steps("  a: { run: x }\n"));
            assert!(!told(&text).is_empty(), "{} of {}", key.name, table.name);
        }
    }
    assert_eq!(told("worktree: [x]\nsteps: { a: { run: x } }"), ["1:11 wrong_type"]);
    assert_eq!(told("worktree: in_place\nsteps: x\nfinally: y"), ["2:8 wrong_type", "3:10 wrong_type"]);
}

#[test]
fn words_of_other_tools_get_an_answer() {
    let cases = [
        ("jobs: {}\nworktree: in_place\n", "write the steps under `steps:`"),
        ("worktree: in_place\nsteps: { a: { run: x, uses: y } }", "write the commands under `run:`"),
        ("worktree: in_place\nsteps: { a: { run: x, runs-on: y } }", "remove this key"),
        ("worktree: in_place\nsteps: { a: { run: x, timeout-minutes: 5 } }", "write `timeout: 30m`"),
        ("worktree: in_place\nsteps: { a: { run: x, timeout_minutes: 5 } }", "write `timeout: 30m`"),
        ("worktree: in_place\nsteps: { a: { run: x, continue-on-error: true } }", "write `continue_on_fail: true`"),
        ("worktree: in_place\nsteps: { a: { run: x, strategy: {} } }", "write `matrix:`, or `foreach:`"),
        ("worktree: in_place\nsteps: { a: { run: x, working-directory: y } }", "begin the script with `cd"),
        ("worktree: in_place\nsteps: { a: { script: x } }", "write `run:`"),
        ("worktree: in_place\non: { workflow_dispatch: {} }\nsteps: { a: { run: x } }", "write `manual: true`"),
        ("worktree: in_place\nsteps: { a: { run: x, if: \"steps.a.outputs\", needs: [] } }", "outcome, output, error"),
    ];
    for (text, advice) in cases {
        let words = words(text);
        assert!(words.contains(advice), "{advice} in\n{words}");
    }
    // The word of another tool is all that is told, not also what is missing because of it.
    assert_eq!(told("worktree: in_place\njobs: {}\n"), ["2:1 unknown_key"]);
    assert_eq!(told(&steps("  a: { script: x }\n")), ["3:8 unknown_key"]);
    assert_eq!(told("worktre: in_place\nsteps: { a: { run: x } }"), ["1:1 unknown_key"]);
}

#[test]
fn steps_have_a_name_and_do_one_thing() {
    let cases = [
        ("  a: {}\n", "3:3 step_kind"),
        ("  a:\n", "3:4 wrong_type"),
        ("  a: [x]\n", "3:6 wrong_type"),
        ("  1a: { run: x }\n", "3:3 bad_value"),
        ("  a b: { run: x }\n", "3:3 bad_value"),
        ("  a: { run: '' }\n", "3:13 bad_value"),
        ("  a: { run: [x] }\n", "3:13 wrong_type"),
        ("  a: { run: \"x\\0\" }\n", "3:13 bad_value"),
    ];
    for (text, wanted) in cases {
        assert_eq!(told(&steps(text)), [wanted], "{text}");
    }
    assert_eq!(told(&steps("  a: { run: x, agent: y }\n")), ["3:3 step_kind"]);
    assert_eq!(told("worktree: in_place\nsteps: {}"), ["2:1 bad_value"]);
    assert_eq!(told("worktree: in_place\n"), ["1:1 missing_key"]);
    assert_eq!(told("- x"), ["1:1 wrong_type"]);
    assert_eq!(told("worktree: in_place\nsteps: [{ run: x }]"), ["2:8 wrong_type"]);
    let twice = "worktree: in_place\nsteps: { a: { run: x } }\nfinally: { a: { run: x } }";
    assert_eq!(told(twice), ["3:12 duplicate_key"]);
    let many: String = (0..=MAX_STEPS).map(|number| format!("  s{number}: {{ run: x }}\n")).collect();
    assert_eq!(told(&steps(&many)), [format!("{}:3 limit", MAX_STEPS + 3)]);
}

#[test]
fn needs_are_names_of_steps_of_the_same_part() {
    let order = pipeline(&steps("  c: { run: x, needs: [b, a, b] }\n  a: { run: x }\n  b: { run: x, needs: a }\n"));
    assert_eq!(order.steps[0].needs, [SpecIndex(2), SpecIndex(1)]);
    assert_eq!(order.steps[2].needs, [SpecIndex(1)]);
    let parts = "worktree: in_place\nsteps: { a: { run: x, needs: z } }\nfinally:\n  z: { run: x, needs: a }\n  y: { run: x, needs: z }";
    assert_eq!(told(parts), ["2:30 conflict", "4:23 conflict"]);
    assert!(words(&steps("  build: { run: x }\n  b: { run: x, needs: [biuld] }\n")).contains("did you mean `build`?"));
    assert_eq!(told(&steps("  a: { run: x, needs: { b: 1 } }\n")), ["3:23 wrong_type"]);
}

#[test]
fn a_cycle_is_named() {
    let three = steps("  a: { run: x, needs: b }\n  b: { run: x, needs: c }\n  c: { run: x, needs: a }\n");
    assert_eq!(told(&three), ["3:23 cycle"]);
    assert!(words(&three).contains("these steps wait for each other: a -> b -> c -> a"));
    let own = steps("  a: { run: x, needs: [a] }\n");
    assert_eq!(told(&own), ["3:24 cycle"]);
    assert!(words(&own).contains("`a` needs itself"));
    let two = steps(
        "  a: { run: x, needs: b }\n  b: { run: x, needs: a }\n  c: { run: x, needs: d }\n  d: { run: x, needs: [c, a] }\n",
    );
    assert_eq!(told(&two), ["3:23 cycle", "5:23 cycle"]);
}

#[test]
fn an_expression_reads_only_what_its_step_waits_for() {
    let read = |needs: &str, path: &str| {
        steps(&format!(
            "  a: {{ run: x }}\n  b: {{ run: x, needs: a, foreach: [1] }}\n  c: {{ run: \"echo ${{{{ {path} }}}}\", needs: [{needs}] }}\n"
        ))
    };
    for path in
        ["steps.a.output.x", "steps.a.outcome", "steps.b.results[0].output.y", "steps.b.outcome", "steps['a'].error"]
    {
        assert_eq!(told(&read("b", path)), [""; 0], "{path}");
    }
    let cases = [
        ("", "steps.a.output", "not_needed"),
        ("b", "steps.c.output", "not_needed"),
        ("b", "steps.d.output", "unknown_step"),
        ("b", "steps.a.outputs", "unknown_name"),
        ("b", "steps.a.results", "unknown_name"),
        ("b", "steps.b.output", "unknown_name"),
        ("b", "steps.b.results[0].outptu", "unknown_name"),
        ("b", "steps.b.results.x", "type"),
        ("b", "steps", "expression"),
        ("b", "steps.a.outcome.x", "type"),
        ("b", "item", "unknown_name"),
        ("b", "matrix.os", "never_produced"),
        ("b", "previous.a", "never_produced"),
        ("b", "ticket.title", "never_produced"),
        ("b", "event.x", "never_produced"),
        ("b", "inputs.x", "unknown_name"),
        ("b", "env.X", "unknown_name"),
        ("b", "flow.nme", "unknown_name"),
        ("b", "always()", "expression"),
    ];
    for (needs, path, code) in cases {
        let told = told(&read(needs, path));
        assert!(told.len() == 1 && told[0].ends_with(&format!(" {code}")), "{path}: {told:?}");
    }
    assert!(words(&read("", "steps.a.output")).contains("add it to its needs: `needs: [a]`"));
    let finally =
        format!("{}finally: {{ z: {{ run: \"echo ${{{{ steps.a.outcome }}}}\" }} }}\n", steps("  a: { run: x }\n"));
    assert_eq!(told(&finally), [""; 0]);
}

#[test]
fn a_slip_in_needs_is_told_once() {
    let text = steps("  a: { run: x }\n  b: { run: \"echo ${{ steps.a.output }}\", neds: a }\n");
    assert_eq!(told(&text), ["4:43 unknown_key"]);
    let text = steps("  build: { run: x }\n  b: { run: \"echo ${{ steps.build.output }}\", needs: biuld }\n");
    assert_eq!(told(&text), ["4:54 unknown_step"]);
}

#[test]
fn conditions_have_an_implicit_success_unless_they_ask_for_a_status() {
    let step = |condition: &str| {
        let text = format!("  a: {{ run: x }}\n  b: {{ run: x, needs: a, if: {condition} }}\n");
        pipeline(&steps(&text)).steps.remove(1).condition
    };
    assert!(step("steps.a.output.go == true").implicit_success);
    assert!(step("\"${{ steps.a.output.go }}\"").implicit_success);
    assert!(!step("always()").implicit_success);
    assert!(!step("\"!cancelled() && steps.a.outcome == 'failed'\"").implicit_success);
    assert_eq!(step("true").expr, Some(Expr::Literal(Value::Bool(true))));
    assert!(only_step("  a: { run: x }\n").condition.implicit_success);
    let cases = [
        ("flow.id", "3:20 type"),
        ("1", "3:20 type"),
        ("[x]", "3:20 wrong_type"),
        ("success", "3:20 unknown_name"),
        ("\"${{ true }} && false\"", "3:20 expression"),
        ("env.X", "3:20 expression"),
        ("!cancelled()", "3:20 yaml"),
    ];
    for (condition, wanted) in cases {
        assert_eq!(told(&steps(&format!("  a: {{ run: x, if: {condition} }}\n"))), [wanted], "{condition}");
    }
}

#[test]
fn outcomes_are_compared_with_words_that_exist() {
    let text = steps("  a: { run: x }\n  b: { run: x, needs: a, if: steps.a.outcome == 'success' }\n");
    assert_eq!(told(&text), ["4:49 type"]);
    assert!(words(&text).contains("did you mean `succeeded`?"));
}

#[test]
fn fan_out_keys() {
    let step = only_step(
        "  a: { run: \"echo ${{ part }}\", foreach: [1, b, 1.10], as: part, limit: 1_000, fail_fast: true }\n",
    );
    let fan = step.fan.unwrap();
    let list = Expr::Literal(Value::List(vec![Value::Int(1), Value::text("b"), Value::text("1.10")]));
    assert_eq!(fan.elements, Elements::List { list, binding: "part".to_owned() });
    assert_eq!((fan.limit, fan.fail_fast), (Some(1000), true));
    let cases = [
        ("run: x, as: p, limit: 1, fail_fast: true", vec!["3:16 conflict", "3:23 conflict", "3:33 conflict"]),
        ("run: x, foreach: [1], limit: 0", vec!["3:37 bad_value"]),
        ("run: x, foreach: [1], as: steps", vec!["3:34 bad_value"]),
        ("run: x, foreach: [1], as: my-part", vec!["3:34 bad_value"]),
        ("run: x, foreach: flow.id", vec!["3:25 type"]),
        ("run: x, foreach: hello", vec!["3:25 unknown_name"]),
        ("run: x, foreach: [1, \"${{ flow.id }}\"]", vec!["3:29 expression"]),
        ("run: x, foreach: [1], if: item == 1", vec!["3:34 unknown_name"]),
    ];
    for (keys, wanted) in cases {
        assert_eq!(told(&steps(&format!("  a: {{ {keys} }}\n"))), wanted, "{keys}");
    }
    let long = steps(&format!("  a: {{ run: x, foreach: [{}] }}\n", "1, ".repeat(1001)));
    assert_eq!(told(&long), ["3:25 limit"]);
    assert!(words(&long).contains("1001 elements, a fan-out takes 1000"));
}

#[test]
fn retry_timeout_and_flags() {
    let text = "worktree: in_place\ndefaults: { timeout: 2h, retry: { attempts: 3, backoff: 1s } }\n\
                steps: { a: { run: x, retry: { backoff: 2h }, timeout: 90s, continue_on_fail: true }, b: { run: x } }";
    let steps_of = pipeline(text).steps;
    assert_eq!((steps_of[0].retry.attempts, steps_of[0].retry.backoff.as_millis()), (3, 7_200_000));
    assert_eq!(steps_of[0].retry.max_backoff.as_millis(), 7_200_000);
    assert_eq!((steps_of[0].timeout.as_millis(), steps_of[1].timeout.as_millis()), (90_000, 7_200_000));
    assert!(steps_of[0].continue_on_fail && !steps_of[1].continue_on_fail && steps_of[1].idempotent);
    let cases = [
        ("retry: { attempts: 0 }", vec!["3:35 bad_value"]),
        ("retry: { attempts: 101 }", vec!["3:35 bad_value"]),
        ("retry: { attempts: '3' }", vec!["3:35 wrong_type"]),
        ("retry: 3", vec!["3:23 wrong_type"]),
        ("retry: { max_attempts: 3 }", vec!["3:25 unknown_key"]),
        ("retry: { backoff: 2h, max_backoff: 1h }", vec!["3:51 conflict"]),
        ("timeout: 30", vec!["3:25 bad_value"]),
        ("timeout: 0s", vec!["3:25 bad_value"]),
        ("timeout: 400d", vec!["3:25 bad_value"]),
        ("timeout: 1.5h", vec!["3:25 bad_value"]),
        ("continue_on_fail: yes", vec!["3:34 wrong_type"]),
        ("idempotent: false, retry: { attempts: 2 }", vec!["3:16 conflict"]),
    ];
    for (keys, wanted) in cases {
        assert_eq!(told(&steps(&format!("  a: {{ run: x, {keys} }}\n"))), wanted, "{keys}");
    }
    let inherited =
        "worktree: in_place\ndefaults: { retry: { attempts: 2 } }\nsteps: { a: { run: x, idempotent: false } }";
    assert_eq!(told(inherited), ["3:23 conflict"]);
    assert!(!only_step("  a: { run: x, idempotent: false }\n").idempotent);
    assert!(words(&steps("  a: { run: x, continue_on_fail: yes }\n")).contains("write `true` without quotes"));
}

#[test]
fn environment_variables() {
    let text = "worktree: in_place\nenv: { A: 1.10, B: no, C: , D: \"${{ inputs.x }}!\" }\ninputs: { x: }\n\
                steps: { a: { run: \"echo ${{ env.A }} ${{ env.E }}\", env: { E: \"${{ env.B }}\" } } }";
    let compiled = pipeline(text);
    let texts: Vec<String> = compiled.env.values().map(ToString::to_string).collect();
    assert_eq!(texts, ["1.10", "no", "", "${{ inputs.x }}!"]);
    let cases = [
        ("ORC_X: 1", "2:8 bad_value"),
        ("a b: 1", "2:8 bad_value"),
        ("A: [1]", "2:11 wrong_type"),
        ("A: \"${{ steps.a.output }}\"", "2:16 expression"),
        ("A: \"${{ env.B }}\"", "2:16 expression"),
        ("A: \"x\\0\"", "2:11 bad_value"),
    ];
    for (env, wanted) in cases {
        let text = format!("worktree: in_place\nenv: {{ {env} }}\nsteps: {{ a: {{ run: x }} }}");
        assert_eq!(told(&text), [wanted], "{env}");
    }
}

#[test]
fn what_never_runs_is_said() {
    let text = steps(
        "  a: { run: x, if: false }\n  b: { run: x, needs: a }\n  c: { run: \"echo ${{ steps.a.output.x }}\", needs: [b], if: always() }\n  d: { run: x, needs: c }\n",
    );
    assert_eq!(told(&text), ["3:3 ?unreachable", "4:3 ?unreachable", "5:29 ?never_produced"]);
    assert!(pipeline(&text).steps.len() == 4, "warnings do not refuse a pipeline");
}

#[test]
fn tainted_text_in_a_command_is_pointed_out() {
    let text = "on: { ticket: {} }\nworktree: in_place\nenv: { T: \"${{ ticket.title }}\" }\nsteps:\n\
                \x20 a: { run: \"echo ${{ ticket.body }} ${{ env.T }} ${{ length(ticket.body) }} ${{ ticket.number == 1 }}\" }\n\
                \x20 b: { run: \"echo ${{ item }}\", foreach: ticket.labels }\n";
    let wanted = ["1:7 not_available", "3:11 ?tainted", "5:19 ?tainted", "5:38 ?tainted", "6:19 ?tainted"];
    assert_eq!(told(text), wanted);
}

#[test]
fn scripts_carry_expressions_as_variables() {
    let step = only_step("  a: { run: \"echo ${{ flow.id }} x=${{ flow.pipeline }}\", shell: bash }\n");
    let Action::Run(RunAction { script, shell, bindings }) = step.action else { panic!("it runs a script") };
    assert_eq!(script, "echo \"${ORC_EXPR_1}\" x=\"${ORC_EXPR_2}\"");
    assert_eq!(shell, ["bash", "-euo", "pipefail", "-c"]);
    let id = Expr::Ref { root: Root::Flow, path: vec![Segment::Member("id".to_owned())] };
    assert_eq!(bindings[0], ("ORC_EXPR_1".to_owned(), id));
    let cases = [
        ("shell: zsh", vec!["3:23 bad_value"]),
        ("shell: []", vec!["3:23 wrong_type"]),
        ("shell: [node, -e], env: { X: \"${{ flow.id }}\" }", vec![]),
    ];
    for (keys, wanted) in cases {
        assert_eq!(told(&steps(&format!("  a: {{ run: x, {keys} }}\n"))), wanted, "{keys}");
    }
    let long = steps(&format!("  a: {{ run: \"{}\" }}\n", "x".repeat(128 * 1024)));
    assert_eq!(told(&long), ["3:13 limit"]);
}

#[test]
fn names_triggers_and_inputs() {
    let compiled = pipeline(
        "on: { manual: true }\ninputs:\n  a:\n  b: { type: number, default: 1.10 }\n  c: { default: 1.10 }\n  d: { default: no }\n  \
         e: { type: list, default: [1.10, 2, no, true, 007, \"3\"] }\n  f: { type: number, default: 1_000 }\nworktree: in_place\nsteps: { s: { run: x } }",
    );
    assert_eq!(compiled.name, "ship");
    let default = |name: &str| compiled.inputs[name].default.clone();
    assert_eq!((default("a"), compiled.inputs["a"].kind), (None, InputKind::String));
    assert_eq!(default("b"), Some(Value::Float(Finite::new(1.1).unwrap())));
    assert_eq!(default("c"), Some(Value::text("1.10")));
    assert_eq!(default("d"), Some(Value::text("no")));
    assert_eq!(default("f"), Some(Value::Int(1000)));
    let list = ["1.10", "2", "no", "true", "007", "3"].map(Value::text);
    let [one, _, no, _, seven, three] = list;
    assert_eq!(default("e"), Some(Value::List(vec![one, Value::Int(2), no, Value::Bool(true), seven, three])));
    let cases = [
        ("name: ''", "1:7 bad_value"),
        ("on: manual", "1:5 wrong_type"),
        ("on: { manual: false }", "1:15 not_available"),
        ("inputs: { a: text }", "1:14 wrong_type"),
        ("inputs: { a: { type: strin } }", "1:22 bad_value"),
        ("inputs: { a: { type: boolean, default: yes } }", "1:40 wrong_type"),
        ("inputs: { a: { type: number, default: '1' } }", "1:39 wrong_type"),
        ("inputs: { a: { type: list, default: x } }", "1:37 wrong_type"),
        ("inputs: { a: { default: } }", "1:23 wrong_type"),
        ("inputs: { a: { default: \"${{ flow.id }}\" } }", "1:25 expression"),
        ("inputs: { a: { required: true } }", "1:16 unknown_key"),
        ("inputs: { 1a: {} }", "1:11 bad_value"),
    ];
    for (key, wanted) in cases {
        assert_eq!(told(&format!("{key}\nworktree: in_place\nsteps: {{ a: {{ run: x }} }}")), [wanted], "{key}");
    }
}

#[test]
fn inputs_are_checked_when_a_flow_starts() {
    let pipeline = pipeline(
        "inputs: { area: , count: { type: number, default: 3 }, deep: { type: boolean, default: false }, parts: { type: list, default: [] } }\n\
         worktree: in_place\nsteps: { s: { run: x } }",
    );
    let check = |given: &[(&str, &str)]| {
        let given = given.iter().map(|(name, text)| ((*name).to_owned(), RawInput::Text((*text).to_owned()))).collect();
        check_inputs(&pipeline, given).map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let values = check(&[("area", "1.10"), ("count", "1_000"), ("deep", "true"), ("parts", "[\"a\"]")]).unwrap();
    assert_eq!(values["area"], Value::text("1.10"));
    assert_eq!(values["count"], Value::Int(1000));
    assert_eq!(values["deep"], Value::Bool(true));
    assert_eq!(values["parts"], Value::List(vec![Value::text("a")]));
    assert_eq!(check(&[("area", "x")]).unwrap()["count"], Value::Int(3));
    let wanted = [
        "the input `count` takes a number, not `many`",
        "the input `deep` takes `true` or `false`, not `yes`",
        "pipeline `ship` has no input `parst`; did you mean `parts`?",
        "pipeline `ship` needs the input `area`; give it with --input area=VALUE",
    ];
    assert_eq!(check(&[("count", "many"), ("deep", "yes"), ("parst", "[]")]).unwrap_err(), wanted);
    let typed = [("area".to_owned(), RawInput::Value(Value::Int(1)))].into();
    assert_eq!(check_inputs(&pipeline, typed).unwrap_err()[0].to_string(), "the input `area` takes text, not a number");
}

#[test]
fn equal_texts_give_equal_pipelines() {
    let text = include_str!("../../../../pipelines/hello.yaml");
    assert_eq!(pipeline(text).content_hash().unwrap(), pipeline(text).content_hash().unwrap());
    let stored = serde_json::to_string(&pipeline(text)).unwrap();
    assert_eq!(serde_json::from_str::<Pipeline>(&stored).unwrap(), pipeline(text));
}

#[test]
fn what_holds_for_agents_stands_in_pipelines_and_steps() {
    let programs = agents(&["coder"]);
    let file = SourceFile::new("agents/coder.md", "---\nmodel: claude-sonnet-4-5\n---\nWork.\n");
    let profile = compile_profile(&file, &|_| Err("none".to_owned()), None).profile.unwrap();
    let agents: BTreeMap<_, _> = [("coder".to_owned(), profile)].into();
    let of = |above: &str, step: &str| {
        let text = format!("permissions: {above}\nsteps:\n  a: {{ agent: coder, prompt: x, permissions: {step} }}\n");
        let file = SourceFile::new("p.yaml", text);
        compile(&file, &Library { agents: &agents, ..Library::empty() })
    };
    let compiled = of("{ deny: ['Bash(git push *)'], ceiling: run }", "{ ask: [WebFetch] }").pipeline.unwrap();
    assert_eq!(compiled.permissions.deny, ["Bash(git push *)"]);
    assert_eq!(compiled.permissions.ceiling, Some(orc_domain::permission::Class::Run));
    let Action::Agent(action) = &compiled.steps[0].action else { panic!() };
    assert_eq!(action.permissions.ask, ["WebFetch"]);
    for (above, step, message) in [
        ("{ allow: [Bash] }", "{}", "come from its own profile"),
        ("{ deny: ['Bash('] }", "{}", "has no `)`"),
        ("{}", "{ allow: [Bash] }", "come from its own profile"),
        ("{ delegate: {} }", "{}", "a list such as"),
        ("{ deny: ['Edit(${{ flow.id }})'] }", "{}", "an expression cannot stand in a rule"),
        ("{}", "{ deny: [Reed] }", "did you mean `Read`?"),
        ("{}", "{ ceiling: rn }", "`run`"),
    ] {
        let told = of(above, step).diagnostics;
        let words: Vec<String> = told.iter().map(|problem| format!("{} {:?}", problem.message, problem.help)).collect();
        assert!(words.iter().any(|words| words.contains(message)), "{above} {step}: {words:?}");
    }
    for step in ["run: make", "approval: {}", "wait: { for: 1m }", "pipeline: other"] {
        let file = SourceFile::new("p.yaml", format!("steps:\n  a: {{ {step}, permissions: {{ ceiling: run }} }}\n"));
        let told = compile(&file, &Library::empty()).diagnostics;
        let message = "`permissions` has a meaning beside `agent` only";
        assert!(told.iter().any(|problem| problem.message.starts_with(message)), "{step}: {told:?}");
    }
    // Calls of a program are not judged.
    let text =
        "permissions: { ceiling: run }\nsteps:\n  a: { agent: coder, prompt: x, permissions: { ceiling: run } }\n";
    let compiled = compile(&SourceFile::new("p.yaml", text), &Library { agents: &programs, ..Library::empty() });
    let codes: Vec<_> = compiled.diagnostics.iter().map(|problem| (problem.code, problem.severity)).collect();
    assert_eq!(codes, [(Code::NotHonoured, Severity::Warning), (Code::NotHonoured, Severity::Error)]);
}
