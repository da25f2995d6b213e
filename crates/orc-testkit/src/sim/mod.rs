//! The simulator: production `start`, `decide` and `fork` against the model store, on a simulated machine, with faults
//! before and after every call of the store and every delivery of an effect. Everything follows from a seed.
//!
//! After every commit the [`judge`] compares what was written with what may be, and at the end of each flow the
//! [`oracle`] compares its outcome with a naive reading of the pipeline. [`Rule`] names what is held.
//!
//! It must never pause, read a clock or use an order that differs between machines. The files: `plan` (random pipelines),
//! `world` (processes) with `forge` (commits and merges), `host` (an instance of the orchestrator, as the runtime behaves)
//! with `kin` (what flows do to each other), `people`, `disturb` (faults), `judge` with `watch`, `alarms` and `trees`,
//! `oracle`, `sabotage` (mistakes that must be found), `campaign` (many seeds).

mod alarms;
mod campaign;
mod dice;
mod disturb;
mod forge;
mod host;
mod judge;
mod kin;
mod oracle;
mod people;
mod plan;
mod rule;
mod sabotage;
mod trees;
mod watch;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use orc_domain::effect::Effect;
use orc_domain::flow::FlowSpec;
use orc_domain::ids::{ContentHash, FlowId};
use orc_domain::input::Signed;
use orc_domain::time::Timestamp;
use orc_domain::transition::Transition;

pub use self::campaign::{Bounds, Campaign, Failure, kept_seeds, missing_transitions, run_campaign, shrink};
pub use self::disturb::{Fault, Faults};
pub use self::rule::{Rule, Violation};
pub use self::sabotage::Sabotage;

use self::dice::Dice;
use self::host::Host;
use self::judge::Judge;
use self::plan::Plan;
use self::world::World;
use crate::fixture::{self, BEGIN};
use crate::model::Model;

/// What a simulation may do.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Kinds of faults that happen.
    pub faults: Faults,
    /// A mistake to make, for the proof that it is found.
    pub sabotage: Sabotage,
    /// Whether to write down what happens.
    pub trace: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { faults: Faults::ALL, sabotage: Sabotage::None, trace: false }
    }
}

/// What a simulation came to.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The seed that it follows from.
    pub seed: u64,
    /// Things that happened: inputs, effects, faults, passages of time.
    pub steps: u64,
    /// Decisions that were committed.
    pub commits: u64,
    /// Flows that were begun.
    pub flows: u64,
    /// Faults that took place, by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Transitions that were taken.
    pub taken: BTreeSet<Transition>,
    /// The first broken invariant, if one was.
    pub violation: Option<Violation>,
    /// What happened, line by line; empty unless asked for.
    pub trace: Vec<String>,
}

/// Simulates one seed to its end.
#[must_use]
pub fn simulate(seed: u64, settings: &Settings) -> Simulation {
    Sim::new(seed, settings).run()
}

/// Why a step of the simulation stopped half way.
enum Halt {
    /// The instance died.
    Crash,
    /// An invariant is broken.
    Broken(Violation),
}

impl From<Violation> for Halt {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation)
    }
}

type Moved<T> = Result<T, Halt>;

/// Steps with faults, at most.
const CHAOS: usize = 400;
/// Steps without faults after which a flow that is not over never will be; plus this many for each element.
const CALM: u64 = 4_000;
const CALM_FOR_STEP: u64 = 60;
/// Steps in vain, at most, for each element: two every five seconds while another flow has the only slot.
const VAIN_FOR_STEP: u64 = 2_000;
/// Inputs and effects that may come a second time.
const MEMORY: usize = 16;

/// A simulation in progress.
struct Sim<'a> {
    settings: &'a Settings,
    dice: Dice,
    model: Model,
    world: World,
    judge: Judge,
    host: Host,
    /// Real time; what the instance reads is this plus `skew`.
    now: i64,
    skew: i64,
    capacity: usize,
    calm: bool,
    /// Flows that will be asked for.
    coming: Vec<(i64, FlowSpec)>,
    next_flow: u32,
    next_instance: u32,
    /// What was heard and done lately, to repeat it.
    heard: Vec<(FlowId, Signed)>,
    done: Vec<(FlowId, Effect)>,
    /// How much more often than usual something goes wrong.
    storm: usize,
    /// Steps in which nothing was done: time passed, or an alarm found that its step still waits for a slot.
    vain: u64,
    /// What there is to start, by its hash.
    plans: BTreeMap<ContentHash, Arc<Plan>>,
    next_message: u32,
    /// Flows whose end was dealt with.
    buried: BTreeSet<FlowId>,
    spoiled: bool,
    result: Simulation,
}

impl<'a> Sim<'a> {
    fn new(seed: u64, settings: &'a Settings) -> Self {
        let mut sim = Self {
            settings,
            dice: Dice::of(seed),
            model: Model::default(),
            world: World::default(),
            judge: Judge::default(),
            host: Host::new(fixture::instance_id(0)),
            now: BEGIN.as_millis(),
            skew: 0,
            capacity: 1,
            calm: false,
            coming: Vec::new(),
            next_flow: 0,
            next_instance: 0,
            heard: Vec::new(),
            done: Vec::new(),
            storm: 1,
            vain: 0,
            plans: BTreeMap::new(),
            next_message: 0,
            buried: BTreeSet::new(),
            spoiled: false,
            result: Simulation {
                seed,
                steps: 0,
                commits: 0,
                flows: 0,
                faults: BTreeMap::new(),
                taken: BTreeSet::new(),
                violation: None,
                trace: Vec::new(),
            },
        };
        sim.capacity = 1 + sim.dice.below(4);
        sim.storm = sim.dice.weighted(&[(60, 1), (30, 3), (10, 10)]).unwrap_or(1);
        for _ in 0..=sim.dice.below(3) {
            let plan = Arc::new(Plan::random(&mut sim.dice));
            let number = sim.next_flow_number();
            let repositories = plan.repositories.clone();
            let spec = FlowSpec { repositories, ..fixture::flow_spec(number, &plan.pipeline) };
            let at = sim.now + i64::try_from(sim.dice.millis(0, 20_000)).unwrap_or(0);
            sim.expect(at, spec, plan);
        }
        sim
    }

    fn run(mut self) -> Simulation {
        let chaos = 20 + self.dice.below(CHAOS) as u64;
        let mut halted = self.boot();
        loop {
            halted = match halted {
                Err(Halt::Broken(violation)) => {
                    self.note(|| format!("BROKEN {violation}"));
                    self.result.violation = Some(violation);
                    return self.result;
                }
                Err(Halt::Crash) => self.crash(),
                Ok(()) if self.is_over() => return self.result,
                Ok(()) => {
                    self.calm |= self.result.steps >= chaos;
                    self.result.steps += 1;
                    self.check_bound(chaos).and_then(|()| self.step())
                }
            };
        }
    }

    /// Everything asked for has begun and is over, and nothing is left to deliver.
    fn is_over(&self) -> bool {
        let settled = self.judge.flows.keys().all(|flow| self.buried.contains(flow));
        self.coming.is_empty() && settled && self.judge.all_finished()
    }

    fn check_bound(&self, chaos: u64) -> Moved<()> {
        let steps: usize = self.judge.flows.values().map(|shadow| shadow.steps.len()).sum();
        let bound = chaos + CALM + CALM_FOR_STEP * steps as u64;
        if self.result.steps.saturating_sub(self.vain) <= bound && self.vain <= CALM + VAIN_FOR_STEP * steps as u64 {
            return Ok(());
        }
        let open = self.judge.flows.iter().find(|(_, shadow)| !shadow.is_finished());
        Err(Halt::Broken(Violation {
            rule: Rule::Ends,
            flow: open.map(|(flow, _)| *flow),
            found: format!("not over after {bound} steps, the last {} of them undisturbed", bound - chaos),
        }))
    }

    fn expect(&mut self, at: i64, spec: FlowSpec, plan: Arc<Plan>) {
        for plan in plan.children.iter().chain([&plan]) {
            self.model.pipeline_insert(plan.hash.clone(), Arc::clone(&plan.pipeline), String::new());
            self.plans.insert(plan.hash.clone(), Arc::clone(plan));
        }
        self.judge.expect(spec.clone(), plan);
        self.coming.push((at, spec));
        self.result.flows += 1;
    }

    fn next_flow_number(&mut self) -> u32 {
        self.next_flow += 1;
        self.next_flow
    }

    /// What the instance's clock shows.
    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.now + self.skew)
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.settings.trace {
            let at = self.now - BEGIN.as_millis();
            self.result.trace.push(format!("{:>4} {at:>9}ms {}", self.result.steps, line()));
        }
    }
}

impl fmt::Display for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {} steps, {} commits", self.seed, self.steps, self.commits)?;
        match &self.violation {
            Some(violation) => write!(f, ", BROKEN {violation}"),
            None => Ok(()),
        }
    }
}
