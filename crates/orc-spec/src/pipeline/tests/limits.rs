//! Groups, budgets, priority, artifacts, outputs.

use orc_domain::budget::{Budget, OnExhausted};
use orc_domain::graph::{Concurrency, OnLimit};
use orc_domain::money::UsdMicros;
use orc_domain::time::Millis;

use super::*;

fn with_key(key: &str) -> String {
    format!("{key}\nworktree: in_place\ninputs: {{ area: }}\nsteps: {{ a: {{ run: x }} }}")
}

fn check(cases: &[(&str, &[&str])], place: impl Fn(&str) -> String) {
    let wrong = cases
        .iter()
        .map(|(keys, wanted)| (keys, told(&place(keys)), wanted))
        .filter(|(_, told, wanted)| told != *wanted);
    assert_eq!(wrong.map(|(keys, told, _)| format!("{keys}: {told:?}")).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn groups() {
    let group = |key: &str| {
        let Concurrency { group, limit, on_limit } = pipeline(&with_key(key)).concurrency.unwrap();
        (group.to_string(), limit, on_limit)
    };
    assert_eq!(group("concurrency: deploy"), ("deploy".to_owned(), 1, OnLimit::Queue));
    let full = "concurrency: { group: \"deploy ${{ inputs.area }}\", limit: 2, on_limit: cancel_running }";
    assert_eq!(group(full), ("deploy ${{ inputs.area }}".to_owned(), 2, OnLimit::CancelRunning));
    let cases: [(&str, &[&str]); 8] = [
        ("concurrency: \"${{ flow.id }}\"", &["1:19 expression"]),
        ("concurrency: \"${{ env.X }}\"", &["1:19 expression"]),
        ("concurrency: ''", &["1:14 bad_value"]),
        ("concurrency: { limit: 1 }", &["1:14 missing_key"]),
        ("concurrency: { group: a, limit: 0 }", &["1:33 bad_value"]),
        ("concurrency: { group: a, on_limit: drop }", &["1:36 bad_value"]),
        ("concurrency: { group: a, cancel-in-progress: true }", &["1:26 unknown_key"]),
        ("concurrency: [a]", &["1:14 wrong_type"]),
    ];
    check(&cases, with_key);
    assert!(words(&with_key("budget: { time: 4h, on_exhausted: wait }")).contains("does not say how long it waits"));
    let step = only_step("  a: { run: x, foreach: [1], concurrency: { group: \"${{ item }}\", on_limit: skip } }\n");
    assert_eq!(step.concurrency.map(|group| group.on_limit), Some(OnLimit::Skip));
    let cancel = steps("  a: { run: x, concurrency: { group: a, on_limit: cancel_running } }\n");
    assert!(words(&cancel).starts_with("`cancel_running` is for flows, and a step has none to cancel"));
}

#[test]
fn budgets() {
    let text = "budget: { usd: 20.00, tokens: 5_000_000, model_calls: 2_000, tool_calls: 10_000, time: 4h, on_exhausted: { wait: 24h } }";
    let wanted = Budget {
        time: Some(Millis::from_secs(4 * 3600)),
        model_calls: Some(2000),
        tool_calls: Some(10_000),
        tokens: Some(5_000_000),
        usd: UsdMicros::parse("20"),
        on_exhausted: OnExhausted::Wait(Millis::from_secs(86_400)),
    };
    assert_eq!(pipeline(&with_key(text)).budget, Some(wanted));
    // A float would make 0.1 something else.
    let exact = pipeline(&with_key("budget: { usd: 0.1, on_exhausted: fail }")).budget.unwrap();
    assert_eq!((exact.usd, exact.on_exhausted), (Some(UsdMicros::from_micros(100_000)), OnExhausted::Fail));
    let cases: [(&str, &[&str]); 11] = [
        ("budget: {}", &["1:9 bad_value"]),
        ("budget: { on_exhausted: fail }", &["1:9 bad_value"]),
        ("budget: 20", &["1:9 wrong_type"]),
        ("budget: { usd: $20 }", &["1:16 bad_value"]),
        ("budget: { usd: 0 }", &["1:16 bad_value"]),
        ("budget: { usd: 1e3 }", &["1:16 bad_value"]),
        ("budget: { tokens: 0 }", &["1:19 bad_value"]),
        ("budget: { tokens: 1.5 }", &["1:19 bad_value"]),
        ("budget: { time: 4 }", &["1:17 bad_value"]),
        ("budget: { time: 4h, on_exhausted: {} }", &["1:35 missing_key"]),
        ("budget: { time: 4h, on_exhausted: wait }", &["1:35 bad_value"]),
    ];
    check(&cases, with_key);
    let step =
        |keys: &str| format!("budget: {{ time: 1h, tokens: 100, usd: 1 }}\n{}", steps(&format!("  a: {{ {keys} }}\n")));
    let cases: [(&str, &[&str]); 6] = [
        ("run: x, budget: { time: 1h }", &[]),
        ("run: x, budget: { time: 2h }", &["4:32 conflict"]),
        ("run: x, budget: { usd: 0.5 }", &["4:26 not_honoured"]),
        ("run: x, budget: { time: 1m, on_exhausted: fail }", &["4:36 conflict"]),
        ("wait: 1s, budget: { time: 1m }", &["4:18 conflict"]),
        ("repeat: { max: 1, steps: { b: { run: x, budget: { time: 61m } } } }", &["4:64 conflict"]),
    ];
    check(&cases, step);
    assert!(
        words(&step("run: x, budget: { time: 2h }"))
            .starts_with("`time` of this step is above that of the pipeline, which is 1h")
    );
    let agent = agents(&["coder"]);
    let text = step("agent: coder, prompt: x, budget: { tokens: 101, usd: 1.000001 }");
    let compiled = compile(&SourceFile::new("p.yaml", text), &Library { agents: &agent, ..Library::empty() });
    let told: Vec<&str> = compiled.diagnostics.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(
        told,
        [
            "`tokens` of this step is above that of the pipeline, which is 100",
            "`usd` of this step is above that of the pipeline, which is $1.00",
        ]
    );
}

#[test]
fn priority_and_artifacts() {
    let step = only_step("  a: { run: x, priority: -100, artifacts: [target/a.html, b] }\n");
    assert_eq!(step.priority, -100);
    let shown =
        |step: &StepSpec| step.artifacts.iter().map(|(name, path)| format!("{name}={path}")).collect::<Vec<_>>();
    assert_eq!(shown(&step), ["a.html=target/a.html", "b=b"]);
    let named = only_step("  a: { run: x, foreach: [1], artifacts: { report: \"out/${{ item }}.html\" } }\n");
    assert_eq!(shown(&named), ["report=out/${{ item }}.html"]);
    assert_eq!(shown(&only_step("  a: { run: x, artifacts: out/b.txt }\n")), ["b.txt=out/b.txt"]);
    let cases: [(&str, &[&str]); 14] = [
        ("priority: 101", &["3:26 bad_value"]),
        ("priority: high", &["3:26 bad_value"]),
        ("priority: '1'", &["3:26 bad_value"]),
        ("artifacts: [/etc/passwd]", &["3:28 bad_value"]),
        ("artifacts: [../x]", &["3:28 bad_value"]),
        ("artifacts: [~/x]", &["3:28 bad_value"]),
        ("artifacts: [a//b]", &["3:28 bad_value"]),
        ("artifacts: ['*.html']", &["3:28 bad_value"]),
        ("artifacts: [a/x, b/x]", &["3:33 duplicate_name"]),
        ("artifacts: [\"${{ flow.id }}\"]", &["3:28 bad_value"]),
        ("artifacts: { .x: a }", &["3:29 bad_value"]),
        ("artifacts: { x: [a] }", &["3:32 wrong_type"]),
        ("artifacts: [a b]", &["3:28 bad_value"]),
        ("artifacts: { x: \"${{ inputs.y }}\" }", &["3:44 unknown_name"]),
    ];
    check(&cases, |keys| steps(&format!("  a: {{ run: x, {keys} }}\n")));
}

#[test]
fn outputs() {
    let text = "worktree: in_place\nsteps: { a: { run: x } }\noutputs: { x: steps.a.output.x, y: \"${{ 1 + 2 }}\" }\nfinally: { z: { run: x } }";
    let outputs = pipeline(text).outputs;
    assert_eq!(
        outputs.iter().map(|(name, expr)| format!("{name}={expr}")).collect::<Vec<_>>(),
        ["x=steps.a.output.x", "y=1 + 2"]
    );
    let cases: [(&str, &[&str]); 7] = [
        ("x: steps.z.output.x", &["3:18 not_needed"]),
        ("x: hello", &["3:12 unknown_name"]),
        ("x: [a]", &["3:15 wrong_type"]),
        ("x: \"a ${{ 1 }}\"", &["3:15 expression"]),
        ("x y: 1", &["3:12 bad_value"]),
        ("x: env.A", &["3:15 expression"]),
        ("x: success()", &["3:15 expression"]),
    ];
    for (output, wanted) in cases {
        let text = format!(
            "worktree: in_place\nsteps: {{ a: {{ run: x }} }}\noutputs: {{ {output} }}\nfinally: {{ z: {{ run: x }} }}"
        );
        let told = told(&text);
        assert!(told.len() == 1 && told[0].ends_with(wanted[0].split(' ').nth(1).unwrap()), "{output}: {told:?}");
    }
}
