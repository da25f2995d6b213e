//! What a pipeline puts out.

use orc_domain::flow::FlowOutcome;
use orc_domain::graph::Pipeline;
use orc_domain::transition::Transition;
use orc_domain::value::Value;
use orc_testkit::fixture::{literal, numbers, output, pipeline, read, repeat, step};

use crate::scene::Scene;

fn with_outputs<const N: usize>(outputs: [(&str, orc_domain::expr::Expr); N]) -> Pipeline {
    let main = vec![
        step("a"),
        step("fan").foreach(numbers(2)),
        repeat("r", 2, None, vec![step("x")]),
        step("s").when(literal(false)),
    ];
    let outputs = outputs.into_iter().map(|(name, expr)| (name.to_owned(), expr)).collect();
    Pipeline { outputs, ..pipeline(main, vec![step("f")]) }
}

fn play(scene: &mut Scene) {
    for path in ["a", "fan[0]", "fan[1]", "r~1/x", "r~2/x"] {
        scene.deliver_with(path, output([("n", Value::text(path))]));
    }
    scene.deliver("f");
}

#[test]
fn outputs_are_read_from_steps_elements_and_rounds() {
    let outputs = [
        ("a", read("steps.a.output.n")),
        ("fan", read("steps.fan.results")),
        ("r", read("steps.r.output.x.n")),
        ("rounds", read("steps.r.rounds")),
        ("skipped", read("steps.s.outcome")),
    ];
    let mut scene = Scene::begin_with(with_outputs(outputs), 10);
    play(&mut scene);
    let Some(Value::Map(fields)) = scene.flow().head.output.clone() else { panic!() };
    assert_eq!(
        (&fields["a"], &fields["r"], &fields["rounds"]),
        (&Value::text("a"), &Value::text("r~2/x"), &Value::Int(2))
    );
    assert_eq!(fields["skipped"], Value::text("skipped"));
    assert!(matches!(&fields["fan"], Value::List(results) if results.len() == 2));
}

#[test]
fn an_output_without_a_value_fails_the_flow_and_names_it() {
    let mut scene = Scene::begin_with(with_outputs([("x", read("steps.a.output.nothing"))]), 10);
    play(&mut scene);
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
    assert_eq!((scene.flow().head.output.clone(), scene.took(Transition::FlowOutputError)), (None, 1));
    assert!(scene.flow().head.detail.starts_with("outputs.x: "), "{}", scene.flow().head.detail);
}

#[test]
fn a_flow_that_did_not_succeed_puts_nothing_out() {
    let mut scene = Scene::begin_with(with_outputs([("a", read("steps.a.output.n"))]), 10);
    scene.force();
    for path in ["a", "fan[0]", "fan[1]", "r~1/x"] {
        scene.fail(path);
    }
    assert_eq!((scene.outcome(), scene.flow().head.output.clone()), (Some(FlowOutcome::Cancelled), None));
}
