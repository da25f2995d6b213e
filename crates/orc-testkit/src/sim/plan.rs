//! Random pipelines. A [`Plan`] says in words of its own what each step was meant to do, so that the oracle can tell
//! what must come out without evaluating an expression.

use std::sync::Arc;

use orc_domain::expr::{Expr, StatusFn};
use orc_domain::graph::{MAX_ELEMENTS, PhaseKind, Pipeline};
use orc_domain::ids::ContentHash;
use orc_domain::time::Millis;

use super::dice::Dice;
use crate::fixture::{self, StepFixture, content_hash, literal, numbers, pipeline, read, status, step};

/// A pipeline and what it was meant to do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) hash: ContentHash,
    /// One for each step of the pipeline, in its order.
    pub(crate) steps: Vec<StepPlan>,
}

/// What a step was meant to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepPlan {
    pub(crate) when: When,
    pub(crate) fan: Option<Fan>,
    /// Its environment reads a step that does not exist.
    pub(crate) broken_env: bool,
}

/// The condition of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    /// None is written.
    Default,
    /// Written without a status function: `true`, `false`, or text, which is a mistake.
    True,
    False,
    Broken,
    /// A status function.
    Status(StatusFn),
}

/// The list of a fan-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fan {
    /// So many numbers.
    Numbers(u32),
    /// The list that the first parent puts out, see [`PARTS`].
    Parent,
    /// Something that is no list.
    NotAList,
    /// One element more than is allowed.
    TooMany,
}

/// The length of the list `parts` that every process of a simulated world puts out.
pub(crate) const PARTS: u32 = 3;

impl Plan {
    /// A pipeline as small as a mistake needs to show itself; a few have a fan-out over several pages.
    pub(crate) fn random(dice: &mut Dice) -> Self {
        if dice.permille(6) {
            return Self::racing();
        }
        let main = 1 + dice.below(6);
        let finally = if dice.permille(500) { 1 + dice.below(2) } else { 0 };
        let wide = dice.permille(15);
        let mut plans = Vec::new();
        let mut make = |phase: PhaseKind, count: usize, dice: &mut Dice| -> Vec<StepFixture> {
            let prefix = if phase == PhaseKind::Main { "s" } else { "f" };
            (0..count)
                .map(|at| {
                    let (fixture, plan) = random_step(prefix, at, wide && phase == PhaseKind::Main, dice);
                    plans.push(plan);
                    fixture
                })
                .collect()
        };
        let main = make(PhaseKind::Main, main, dice);
        let finally = make(PhaseKind::Finally, finally, dice);
        Self::of(pipeline(main, finally), plans)
    }

    /// A small fan-out that may begin while a wide one is still being written.
    fn racing() -> Self {
        let timeout = Millis::from_secs(60);
        let main = vec![
            step("s0").continue_on_fail().timeout(timeout),
            step("s1").needs(&["s0"]).foreach(numbers(3)).timeout(timeout),
            step("s2").foreach(numbers(410)).fail_fast().timeout(timeout),
        ];
        let fans = [None, Some(Fan::Numbers(3)), Some(Fan::Numbers(410))];
        let plans = fans.map(|fan| StepPlan { when: When::Default, fan, broken_env: false });
        Self::of(pipeline(main, vec![]), plans.to_vec())
    }

    fn of(pipeline: Pipeline, steps: Vec<StepPlan>) -> Self {
        Self { hash: content_hash(&pipeline), pipeline: Arc::new(pipeline), steps }
    }

    /// How many elements a fan-out must have; `None` when its list is refused.
    pub(crate) fn elements(fan: Fan) -> Option<u32> {
        match fan {
            Fan::Numbers(count) => Some(count),
            Fan::Parent => Some(PARTS),
            Fan::NotAList | Fan::TooMany => None,
        }
    }
}

fn random_step(prefix: &str, at: usize, wide: bool, dice: &mut Dice) -> (StepFixture, StepPlan) {
    let mut fixture = step(&format!("{prefix}{at}"));
    let needs: Vec<String> = (0..at).filter(|_| dice.permille(400)).map(|need| format!("{prefix}{need}")).collect();
    let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
    fixture = fixture.needs(&needs);
    let when = random_when(dice);
    if let Some(expr) = when_expr(when) {
        fixture = fixture.when(expr);
    }
    let fan = random_fan(dice, wide, &needs);
    if let Some(fan) = fan {
        fixture = fixture.foreach(fan_expr(fan, &needs));
        if dice.permille(400) {
            fixture = fixture.limit(1 + u32::from(dice.permille(500)));
        }
        if dice.permille(300) {
            fixture = fixture.fail_fast();
        }
    }
    let broken_env = dice.permille(30);
    if broken_env {
        fixture = fixture.env("BROKEN", read("steps.nowhere.output"));
    }
    if dice.permille(200) {
        fixture = fixture.continue_on_fail();
    }
    // The compiler refuses `idempotent: false` together with `retry:`.
    if dice.permille(200) {
        fixture = fixture.not_idempotent();
    } else if dice.permille(400) {
        let backoff = Millis::from_millis(dice.millis(1, 40_000));
        fixture = fixture.retry(2 + u32::from(dice.permille(300)), backoff);
    }
    // Some outlast the deadline of `finally`.
    let timeout = if dice.permille(100) { 3_600_000 } else { dice.millis(5_000, 300_000) };
    let plan = StepPlan { when, fan, broken_env };
    (fixture.timeout(Millis::from_millis(timeout)), plan)
}

fn random_when(dice: &mut Dice) -> When {
    let choices = [
        (60, When::Default),
        (4, When::True),
        (5, When::False),
        (3, When::Broken),
        (8, When::Status(StatusFn::Always)),
        (6, When::Status(StatusFn::Failure)),
        (4, When::Status(StatusFn::Success)),
        (4, When::Status(StatusFn::Cancelled)),
        (4, When::Status(StatusFn::Skipped)),
    ];
    dice.weighted(&choices).unwrap_or(When::Default)
}

fn when_expr(when: When) -> Option<Expr> {
    match when {
        When::Default => None,
        When::True => Some(literal(true)),
        When::False => Some(literal(false)),
        When::Broken => Some(literal("text")),
        When::Status(function) => Some(status(function)),
    }
}

fn random_fan(dice: &mut Dice, wide: bool, needs: &[&str]) -> Option<Fan> {
    if wide && dice.permille(400) {
        return Some(Fan::Numbers(150 + u32::from(dice.permille(700)) * 260));
    }
    if !dice.permille(250) {
        return None;
    }
    let small = Fan::Numbers(1 + u32::try_from(dice.below(4)).unwrap_or(0));
    let parent = if needs.is_empty() { small } else { Fan::Parent };
    let choices = [(60, small), (15, parent), (8, Fan::Numbers(0)), (5, Fan::NotAList), (2, Fan::TooMany)];
    dice.weighted(&choices)
}

fn fan_expr(fan: Fan, needs: &[&str]) -> Expr {
    match fan {
        Fan::Numbers(count) => numbers(count),
        Fan::Parent => read(&format!("steps.{}.output.parts", needs.first().unwrap_or(&"nowhere"))),
        Fan::NotAList => literal("text"),
        Fan::TooMany => numbers(u32::try_from(MAX_ELEMENTS).unwrap_or(u32::MAX).saturating_add(1)),
    }
}

/// What every process puts out when it delivers.
pub(crate) fn delivered() -> orc_domain::value::Value {
    let parts = (0..PARTS).map(|part| orc_domain::value::Value::Int(i64::from(part)));
    fixture::output([("parts", orc_domain::value::Value::List(parts.collect()))])
}
