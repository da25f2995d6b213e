//! Random pipelines. A [`Plan`] says in words of its own what each step was meant to do, so that the oracle can tell
//! what must come out without evaluating an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use orc_domain::action::WaitEvent;
use orc_domain::budget::{Budget, OnExhausted};
use orc_domain::expr::{Expr, StatusFn};
use orc_domain::graph::{MAX_ELEMENTS, OnLimit, Pipeline, RepositorySpec, StartFrom};
use orc_domain::ids::ContentHash;
use orc_domain::profile::{Adapter, BuiltIn};
use orc_domain::time::Millis;
use orc_domain::tree::Repository;

use super::dice::Dice;
use crate::fixture::{self, StepFixture, content_hash, literal, numbers, pipeline, read, status, step};

/// A pipeline and what it was meant to do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) hash: ContentHash,
    /// One for each step of the pipeline, in its order.
    pub(crate) steps: Vec<StepPlan>,
    /// What a flow of it pins.
    pub(crate) repositories: Vec<Repository>,
    /// Pipelines of its child flows.
    pub(crate) children: Vec<Arc<Plan>>,
    /// An output that has no value.
    pub(crate) broken_output: bool,
    /// The name of its concurrency group has no value.
    pub(crate) broken_group: bool,
}

/// Paths of repositories.
const REPOSITORIES: [&str; 2] = [".", "../docs"];

/// What a step was meant to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepPlan {
    pub(crate) kind: Kind,
    pub(crate) when: When,
    pub(crate) fan: Option<Fan>,
    /// Its environment reads a step that does not exist.
    pub(crate) broken_env: bool,
}

/// What kind of step it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Run,
    Agent,
    /// So many rounds at most.
    Repeat(u32, Until),
    Child,
    Approval,
    Pause,
    Event,
}

/// What ends the rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Until {
    /// Nothing is written: all rounds are made.
    All,
    Yes,
    No,
    /// Text, which is a mistake.
    Broken,
}

/// Concurrency groups and how many may be in each. Whoever is in one waits only for those further down, so that no two
/// wait for each other: flows, then child flows, then steps.
pub(crate) const GROUPS: [(&str, u32); 6] =
    [("flows", 1), ("more-flows", 2), ("children", 1), ("steps", 1), ("more-steps", 2), ("agent:coder", 2)];
/// People who may answer a request are called so.
pub(crate) const LEAD: &str = "lead";
/// How often an agent is told what it owes.
pub(crate) const REMINDERS: usize = 2;

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
    /// So many combinations.
    Matrix(u32),
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
        let repositories = dice.weighted(&[(35, 0), (45, 1), (20, 2)]).unwrap_or(0);
        Self::drawn(dice, (6, repositories), true)
    }

    fn drawn(dice: &mut Dice, (most, repositories): (usize, usize), is_root: bool) -> Self {
        let main = 1 + dice.below(most);
        let finally = if dice.permille(400) { 1 + dice.below(2) } else { 0 };
        let wide = is_root && dice.permille(15);
        let mut draw = Draw { dice, plans: BTreeMap::new(), children: Vec::new(), is_root, repositories };
        let main = draw.steps("s", main, (0, wide));
        let finally = draw.steps("f", finally, (0, false));
        let Draw { plans, children, .. } = draw;
        let mut drawn = pipeline(main, finally);
        let paths = &REPOSITORIES[..repositories];
        // A child flow may have fewer than its parent.
        let named = if !is_root && dice.permille(300) { &paths[..1.min(repositories)] } else { paths };
        drawn.repositories = named.iter().map(|path| RepositorySpec { path: (*path).to_owned(), base: None }).collect();
        let group: &[&str] = if is_root { &["flows", "more-flows"] } else { &["children"] };
        let broken_group = dice.permille(10);
        if broken_group {
            drawn.concurrency = Some(fixture::group("", 1, OnLimit::Queue));
        } else if dice.permille(200) {
            let on_limit = [(6, OnLimit::Queue), (2, OnLimit::Skip), (2, OnLimit::CancelRunning)];
            drawn.concurrency = random_group(group, dice.weighted(&on_limit).unwrap_or(OnLimit::Queue), dice);
        }
        drawn.budget = dice.permille(120).then(|| random_budget(dice));
        let broken_output = dice.permille(60);
        if broken_output {
            drawn.outputs.insert("x".to_owned(), read("steps.nowhere.output"));
        } else if dice.permille(300) {
            drawn.outputs.insert("x".to_owned(), read("steps.s0.outcome"));
        }
        for profile in drawn.agents.values_mut() {
            profile.silence_timeout = Millis::from_secs(120);
            profile.max_concurrent = (profile.name == "coder").then_some(2);
            if profile.name == "critic" {
                profile.adapter = Adapter::BuiltIn(BuiltIn::default());
            }
        }
        let repositories = paths.iter().map(|path| fixture::repository(path)).collect();
        Self { children, broken_output, broken_group, repositories, ..Self::of(drawn, plans) }
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
        let plan = |fan| StepPlan { kind: Kind::Run, when: When::Default, fan, broken_env: false };
        let plans = fans.into_iter().enumerate().map(|(at, fan)| (format!("s{at}"), plan(fan)));
        Self::of(pipeline(main, vec![]), plans.collect())
    }

    fn of(pipeline: Pipeline, plans: BTreeMap<String, StepPlan>) -> Self {
        let steps = pipeline.steps.iter().filter_map(|step| plans.get(&step.key).copied()).collect();
        let (children, broken_output, broken_group) = (Vec::new(), false, false);
        Self {
            hash: content_hash(&pipeline),
            pipeline: Arc::new(pipeline),
            steps,
            repositories: Vec::new(),
            children,
            broken_output,
            broken_group,
        }
    }

    /// How many elements a fan-out must have; `None` when its list is refused.
    pub(crate) fn elements(fan: Fan) -> Option<u32> {
        match fan {
            Fan::Numbers(count) | Fan::Matrix(count) => Some(count),
            Fan::Parent => Some(PARTS),
            Fan::NotAList | Fan::TooMany => None,
        }
    }
}

/// A pipeline being drawn. Keys are unique, also in bodies.
struct Draw<'a> {
    dice: &'a mut Dice,
    plans: BTreeMap<String, StepPlan>,
    children: Vec<Arc<Plan>>,
    is_root: bool,
    /// How many repositories there are.
    repositories: usize,
}

impl Draw<'_> {
    fn steps(&mut self, prefix: &str, count: usize, (depth, wide): (u32, bool)) -> Vec<StepFixture> {
        (0..count).map(|at| self.step(prefix, at, (depth, wide))).collect()
    }

    fn step(&mut self, prefix: &str, at: usize, (depth, wide): (u32, bool)) -> StepFixture {
        let key = format!("{prefix}{at}");
        let needs: Vec<String> =
            (0..at).filter(|_| self.dice.permille(400)).map(|need| format!("{prefix}{need}")).collect();
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        let when = random_when(self.dice);
        let fan = random_fan(self.dice, wide, &needs);
        let is_wide = matches!(fan, Some(Fan::Numbers(count)) if count > 10);
        let kind = if is_wide { Kind::Run } else { self.kind(depth) };
        let mut fixture = self.act(&key, kind, depth).needs(&needs);
        if let Some(expr) = when_expr(when) {
            fixture = fixture.when(expr);
        }
        if let Some(fan) = fan {
            fixture = match fan {
                Fan::Matrix(count) => fixture.matrix("os", &["linux", "mac", "bsd", "dos"][..count as usize]),
                _ => fixture.foreach(fan_expr(fan, &needs)),
            };
            if self.dice.permille(400) {
                fixture = fixture.limit(1 + u32::from(self.dice.permille(500)));
            }
            if self.dice.permille(300) {
                fixture = fixture.fail_fast();
            }
        }
        let broken_env = self.dice.permille(30);
        if broken_env {
            fixture = fixture.env("BROKEN", read("steps.nowhere.output"));
        }
        self.plans.insert(key, StepPlan { kind, when, fan, broken_env });
        self.modify(fixture, (kind, is_wide))
    }

    fn kind(&mut self, depth: u32) -> Kind {
        let until = [(4, Until::All), (3, Until::Yes), (3, Until::No), (1, Until::Broken)];
        let until = self.dice.weighted(&until).unwrap_or(Until::All);
        let rounds = 1 + u32::from(self.dice.permille(600)) + u32::from(self.dice.permille(300));
        let nests = usize::from(depth < 2);
        let choices = [
            (50, Kind::Run),
            (22, Kind::Agent),
            (9 * nests, Kind::Repeat(rounds, until)),
            (8 * usize::from(self.is_root && depth == 0), Kind::Child),
            (6, Kind::Approval),
            (3, Kind::Pause),
            (4, Kind::Event),
        ];
        self.dice.weighted(&choices).unwrap_or(Kind::Run)
    }

    fn act(&mut self, key: &str, kind: Kind, depth: u32) -> StepFixture {
        match kind {
            Kind::Run => step(key),
            Kind::Agent => fixture::agent(key, if self.dice.permille(600) { "coder" } else { "critic" }),
            Kind::Repeat(rounds, until) => {
                let count = 1 + self.dice.below(3);
                let body = self.steps(&format!("{key}b"), count, (depth + 1, false));
                fixture::repeat(key, rounds, until_expr(until), body)
            }
            Kind::Child => {
                let plan = Arc::new(Plan::drawn(self.dice, (3, self.repositories), false));
                self.children.push(Arc::clone(&plan));
                fixture::child(key, &plan.pipeline)
            }
            Kind::Approval => {
                let (remind, eyes) = (self.dice.permille(300), self.dice.permille(200));
                let approves = self.dice.permille(300);
                let asked = fixture::approval(key, &[LEAD]).asking(|approval| {
                    approval.remind = remind.then_some(Millis::from_secs(600));
                    approval.four_eyes = eyes;
                    if approves {
                        approval.on_timeout = orc_domain::action::OnTimeout::Approve;
                    }
                });
                if self.dice.permille(300) { asked.tier(Millis::from_secs(900), "boss") } else { asked }
            }
            Kind::Pause => fixture::pause(key, ["0s", "20s", "10m"][self.dice.below(3)]),
            Kind::Event => {
                let kind = self.dice.pick(WaitEvent::ALL).unwrap_or(WaitEvent::FlowFinished);
                let of = self.dice.permille(200).then_some("other");
                fixture::event(key, kind, of, Millis::from_secs(900))
            }
        }
    }

    /// Where a step works; what is no run hands on what it is handed.
    fn place(&mut self, mut fixture: StepFixture, (kind, is_wide): (Kind, bool)) -> StepFixture {
        let dice = &mut *self.dice;
        // Hundreds of elements contradict each other a hundred times.
        let none = if is_wide { 400 } else { 8 };
        let choices =
            [(75, StartFrom::Parents), (8, StartFrom::Fresh), (none, StartFrom::None), (9, StartFrom::InPlace)];
        let runs = matches!(kind, Kind::Run | Kind::Agent);
        let from = dice.weighted(&choices).filter(|_| runs).unwrap_or(StartFrom::Parents);
        fixture = fixture.starting(from);
        if runs && self.repositories > 1 && dice.permille(250) {
            fixture = fixture.only(&[REPOSITORIES[dice.below(2)]]);
        }
        if dice.permille(650) { fixture.on_conflict("mender") } else { fixture }
    }

    fn modify(&mut self, mut fixture: StepFixture, (kind, is_wide): (Kind, bool)) -> StepFixture {
        let dice = &mut *self.dice;
        if dice.permille(200) {
            fixture = fixture.continue_on_fail();
        }
        // The compiler refuses `idempotent: false` together with `retry:`.
        if kind == Kind::Run && dice.permille(200) {
            fixture = fixture.not_idempotent();
        } else if matches!(kind, Kind::Run | Kind::Agent | Kind::Child) && dice.permille(400) {
            let backoff = Millis::from_millis(dice.millis(1, 40_000));
            fixture = fixture.retry(2 + u32::from(dice.permille(300)), backoff);
        }
        if !matches!(kind, Kind::Repeat(..) | Kind::Child) && dice.permille(120) {
            let on_limit = if dice.permille(250) { OnLimit::Skip } else { OnLimit::Queue };
            if let Some(group) = random_group(&["steps", "more-steps"], on_limit, dice) {
                fixture = fixture.concurrency(group);
            }
        }
        if dice.permille(200) {
            fixture = fixture.priority([-2, 1, 3][dice.below(3)]);
        }
        if kind == Kind::Agent && dice.permille(150) {
            fixture = fixture.budget(random_budget(dice));
        }
        if self.repositories > 0 {
            fixture = self.place(fixture, (kind, is_wide));
        }
        let dice = &mut *self.dice;
        // Some outlast the deadline of `finally`.
        let timeout = if dice.permille(100) { 3_600_000 } else { dice.millis(5_000, 300_000) };
        fixture.timeout(Millis::from_millis(timeout))
    }
}

fn random_group(names: &[&str], on_limit: OnLimit, dice: &mut Dice) -> Option<orc_domain::graph::Concurrency> {
    let name = dice.pick(names)?;
    let limit = GROUPS.iter().find(|(other, _)| *other == name)?.1;
    Some(fixture::group(name, limit, on_limit))
}

fn random_budget(dice: &mut Dice) -> Budget {
    let patience = Millis::from_millis(dice.millis(20_000, 2_000_000));
    let on_exhausted = if dice.permille(500) { OnExhausted::Wait(patience) } else { OnExhausted::Fail };
    if dice.permille(300) {
        let time = Some(Millis::from_millis(dice.millis(5_000, 600_000)));
        return Budget { time, on_exhausted, ..Budget::default() };
    }
    Budget { model_calls: Some(dice.millis(1, 12)), on_exhausted, ..Budget::default() }
}

fn until_expr(until: Until) -> Option<Expr> {
    match until {
        Until::All => None,
        Until::Yes => Some(literal(true)),
        Until::No => Some(literal(false)),
        Until::Broken => Some(literal("text")),
    }
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
    let matrix = Fan::Matrix(1 + u32::try_from(dice.below(3)).unwrap_or(0));
    let choices =
        [(55, small), (15, parent), (12, matrix), (8, Fan::Numbers(0)), (5, Fan::NotAList), (2, Fan::TooMany)];
    dice.weighted(&choices)
}

fn fan_expr(fan: Fan, needs: &[&str]) -> Expr {
    match fan {
        Fan::Numbers(count) | Fan::Matrix(count) => numbers(count),
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
