//! Combinations: paths, what they read, a thousand of them.

use orc_domain::flow::FlowOutcome;
use orc_domain::graph::MAX_ELEMENTS;
use orc_testkit::fixture::{numbers, pipeline, read, repeat, step};

use crate::scene::{Scene, starts};

#[test]
fn a_combination_is_named_by_its_values_and_read_by_them() {
    let build = step("build").matrix("os", &["linux", "mac os/11", ""]).env("OS", read("matrix.os"));
    let mut scene = Scene::begin(vec![build, step("after").needs(&["build"])], vec![]);
    assert_eq!(starts(&scene.last), ["build{os=linux}", "build{os=mac%20os%2f11}", "build{os=}"]);
    let os = |index: usize| match &scene.last.effects[index].kind {
        orc_domain::effect::EffectKind::StartRun { command, .. } => command.env["OS"].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!([os(0), os(1), os(2)], ["linux", "mac os/11", ""]);
    scene.deliver("build{os=linux}");
    scene.fail("build{os=mac%20os%2f11}");
    scene.deliver("build{os=}");
    let picture = scene.picture();
    assert_eq!(picture[0], "build: failed: 1 of 3 elements failed: first `build{os=mac%20os%2f11}`, exit code 1");
    assert_eq!(scene.outcome(), Some(FlowOutcome::Failed));
}

#[test]
fn a_combination_repeats_and_its_rounds_read_it() {
    let body = vec![step("test").env("OS", read("matrix.os"))];
    let mut scene = Scene::begin(vec![repeat("build", 2, None, body).matrix("os", &["linux", "mac"]).limit(1)], vec![]);
    assert_eq!(starts(&scene.last), ["build{os=linux}~1/test"]);
    assert_eq!(scene.picture()[2], "build{os=mac}: held by limit");
    scene.deliver("build{os=linux}~1/test");
    assert_eq!(starts(&scene.deliver("build{os=linux}~2/test")), ["build{os=mac}~1/test"]);
}

#[test]
fn a_thousand_elements_are_written_by_pages_and_rounds_of_them_again() {
    let count = u32::try_from(MAX_ELEMENTS).unwrap();
    let body = vec![step("fan").foreach(numbers(count)).limit(1)];
    let mut scene = Scene::begin_with(pipeline(vec![repeat("check", 2, None, body)], vec![]), 1);
    let mut pages = 1;
    while scene.picture()[1] != "check~1/fan: 1000 of 1000 elements" {
        scene.ring();
        pages += 1;
    }
    assert_eq!((pages, scene.flow().steps.len()), (5, 1002));
    for element in 0..count {
        scene.slots = 1;
        scene.deliver(&format!("check~1/fan[{element}]"));
    }
    assert_eq!(scene.picture()[0], "check: round 2");
    assert_eq!(scene.picture()[1002], "check~2/fan: 200 of 1000 elements");
}
