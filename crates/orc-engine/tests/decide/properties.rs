//! Whatever is heard, in whatever order: `decide` is total, repeatable, keeps its index true and its finals final.

use orc_domain::expr::StatusFn;
use orc_domain::flow::StepState;
use orc_domain::ids::RunId;
use orc_domain::input::{Ending, Input};
use orc_domain::time::Millis;
use orc_domain::value::Value;
use orc_testkit::fixture::{StepFixture, flow_id, literal, numbers, output, pipeline, read, status, step};
use proptest::prelude::*;

use crate::scene::{Scene, exit, process};

/// What happens next: to the nth of the runs there ever were, or to the flow.
#[derive(Clone, Debug)]
enum Happening {
    Started(usize),
    Delivered(usize),
    Failed(usize),
    Lost(usize, bool),
    Unknown(u8),
    Cancel(bool),
    Time(u32),
    Back(u32),
    Slots(u32),
    Twice,
}

fn happening() -> impl Strategy<Value = Happening> {
    let nth = 0..64_usize;
    prop_oneof![
        4 => nth.clone().prop_map(Happening::Started),
        6 => nth.clone().prop_map(Happening::Delivered),
        4 => nth.clone().prop_map(Happening::Failed),
        2 => (nth, any::<bool>()).prop_map(|(nth, claimed)| Happening::Lost(nth, claimed)),
        1 => any::<u8>().prop_map(Happening::Unknown),
        1 => any::<bool>().prop_map(Happening::Cancel),
        6 => (0..400_000_u32).prop_map(Happening::Time),
        1 => (0..400_000_u32).prop_map(Happening::Back),
        2 => (0..4_u32).prop_map(Happening::Slots),
        3 => Just(Happening::Twice),
    ]
}

fn one_step(key: String, earlier: Vec<String>) -> impl Strategy<Value = StepFixture> {
    let needs = proptest::sample::subsequence(earlier.clone(), 0..=earlier.len());
    (needs, 0..8_u8, 0..10_u8, 1..4_u32, 0..32_u8).prop_map(move |(needs, when, list, attempts, flags)| {
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        let mut fixture = step(&key).needs(&needs).retry(attempts, Millis::from_secs(20));
        fixture = match when {
            0 => fixture.when(status(StatusFn::Always)),
            1 => fixture.when(status(StatusFn::Failure)),
            2 => fixture.when(literal(false)),
            3 => fixture.when(read("steps.nowhere.outcome")),
            _ => fixture,
        };
        fixture = match list {
            0 => fixture.foreach(numbers(0)),
            1 => fixture.foreach(numbers(3)),
            2 => fixture.foreach(numbers(230)).limit(2),
            3 => fixture.foreach(literal(true)),
            _ => fixture,
        };
        if flags & 1 != 0 {
            fixture = fixture.fail_fast();
        }
        if flags & 2 != 0 {
            fixture = fixture.continue_on_fail();
        }
        if flags & 4 != 0 {
            fixture = fixture.not_idempotent();
        }
        if flags & 24 == 24 {
            fixture = fixture.env("X", read("item.nothing"));
        }
        fixture.timeout(Millis::from_secs(60))
    })
}

fn steps(prefix: &'static str, count: usize) -> impl Strategy<Value = Vec<StepFixture>> {
    let keys: Vec<String> = (0..count).map(|at| format!("{prefix}{at}")).collect();
    let strategies: Vec<_> = (0..count).map(|at| one_step(keys[at].clone(), keys[..at].to_vec())).collect();
    strategies
}

fn input_of(happening: &Happening, runs: &[RunId]) -> Option<Input> {
    let pick = |nth: &usize| runs.get(nth % runs.len().max(1)).copied();
    let evidence = String::new();
    match happening {
        Happening::Started(nth) => Some(Input::RunStarted { run: pick(nth)?, process: process() }),
        Happening::Delivered(nth) => {
            let ending = Ending::Delivered { output: output([("n", Value::Int(1))]) };
            Some(Input::RunEnded { run: pick(nth)?, ending, told: None })
        }
        Happening::Failed(nth) => {
            Some(Input::RunEnded { run: pick(nth)?, ending: Ending::Failed(exit(2)), told: None })
        }
        Happening::Lost(nth, claimed) => Some(Input::RunLost { run: pick(nth)?, claimed: *claimed, evidence }),
        Happening::Unknown(number) => {
            let run = RunId::derived(flow_id(9).uuid(), &number.to_string());
            Some(Input::RunLost { run, claimed: true, evidence })
        }
        Happening::Cancel(force) => Some(Input::Cancel { force: *force }),
        Happening::Time(_) | Happening::Back(_) | Happening::Slots(_) | Happening::Twice => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// The scene itself checks, after every decision: equal arguments give equal decisions, rows are the flow, the index
    /// is true, what lives has an alarm, active steps have one live run.
    #[test]
    fn decide_is_total_and_keeps_what_it_promises(
        main in steps("m", 4),
        finally in steps("f", 2),
        happenings in proptest::collection::vec(happening(), 1..60),
    ) {
        let mut scene = Scene::begin_with(pipeline(main, finally), 2);
        let mut runs: Vec<RunId> = scene.flow().runs.keys().copied().collect();
        let mut last = Input::Alarm;
        for happening in &happenings {
            match happening {
                Happening::Time(millis) => scene.now = scene.now + Millis::from_millis(u64::from(*millis)),
                Happening::Back(millis) => scene.now = scene.now - Millis::from_millis(u64::from(*millis)),
                Happening::Slots(slots) => scene.slots = *slots,
                _ => {}
            }
            let repeated = matches!(happening, Happening::Twice);
            let input = if repeated { last.clone() } else { input_of(happening, &runs).unwrap_or(Input::Alarm) };
            let before = scene.flow().clone();
            let decision = scene.hear(input.clone());
            for (old, new) in before.steps.iter().zip(&scene.flow().steps) {
                let finished = matches!(old.state, StepState::Finished { .. });
                prop_assert!(!finished || old == new);
                prop_assert!(new.failures <= 4 && new.losses.in_vain <= orc_engine::MAX_LOSSES);
            }
            prop_assert!(!before.is_finished() || decision.is_empty());
            // What a run says counts once; said again it changes nothing about the run.
            let of_run = !matches!(input, Input::Alarm | Input::Cancel { .. });
            if repeated && of_run {
                let told = decision.events.iter().filter(|event| event.fact.kind() == "CommandRunCompleted").count();
                prop_assert_eq!(told, 0);
            }
            runs.extend(scene.flow().runs.keys().filter(|run| !runs.contains(run)).copied().collect::<Vec<_>>());
            last = input;
        }
    }
}
