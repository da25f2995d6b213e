//! The simulated machine: processes that deliver, fail, hang, ignore TERM or go late. It keeps what really happened, so
//! that what was decided can be compared with it.

use std::collections::BTreeMap;

use orc_domain::agent::{Statistics, Usage};
use orc_domain::budget::Wall;
use orc_domain::confine::{Violation, ViolationKind};
use orc_domain::ids::{ContentHash, FlowId, InstanceId, RunId};
use orc_domain::input::{Ending, Input, Told};
use orc_domain::meter::{Owner, Shortfall};
use orc_domain::path::StepPath;
use orc_domain::permission::{AskedCall, Lasting};
use orc_domain::run::{Cause, ErrorFamily, Failure, Process};
use orc_domain::time::Timestamp;
use orc_domain::tree::{PrivateCopy, Tree};

use super::dice::Dice;
use super::forge::Forge;
use super::plan::delivered;
use crate::fixture;

/// A process that lives.
#[derive(Clone, Debug)]
pub(crate) struct Living {
    pub(crate) flow: FlowId,
    pub(crate) path: StepPath,
    pub(crate) instance: InstanceId,
    /// When it ends by itself or by a signal that it was sent; never when it hangs.
    ends_at: Option<i64>,
    ending: Ending,
    nature: Nature,
    /// Requests to end that had no effect so far.
    ignored: u32,
    /// As an agent: what it does; none: a command, or a merge.
    agent: Option<Script>,
    /// What it leaves in its copy is kept when it delivers.
    has_copy: bool,
    /// Its box refuses something.
    refused: bool,
    /// What a merge, which no signal reaches, came to.
    merged: Option<Tree>,
}

/// How an agent behaves while it lives.
#[derive(Clone, Copy, Debug, Default)]
struct Script {
    /// Says nothing at all.
    silent: bool,
    /// Does the same again and again.
    circles: bool,
    /// Its calls are refused at walls, or its provider takes none.
    limited: bool,
    /// Says now and then that it used less than before.
    lies: bool,
    /// What it has used so far.
    calls: u64,
    /// What it has said so far.
    bytes: u64,
}

/// What it does when it is asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nature {
    /// Ends at TERM.
    Obeys,
    /// Ends at KILL only.
    Ignores,
    /// Ends well some time after TERM: its result arrives although nobody wants it any more.
    Late,
    /// Even KILL shows effect only the second time: a process that waits for a broken disk.
    Stuck,
    /// Nothing reaches it: a merge ends when it is done.
    Deaf,
}

/// A start that takes place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started<'a> {
    pub(crate) flow: FlowId,
    pub(crate) path: &'a StepPath,
    pub(crate) run: RunId,
    pub(crate) instance: InstanceId,
    pub(crate) now: i64,
    pub(crate) is_agent: bool,
    /// The copy that it works in.
    pub(crate) copy: Option<&'a PrivateCopy>,
}

/// All processes there are and were.
#[derive(Debug, Default)]
pub(crate) struct World {
    living: BTreeMap<RunId, Living>,
    /// How each process that ended by itself or by a signal really ended.
    pub(crate) endings: BTreeMap<RunId, Ending>,
    /// How often each run was really started.
    pub(crate) starts: BTreeMap<RunId, u32>,
    /// What each agent that ended by itself or by a signal used at least.
    pub(crate) used: BTreeMap<RunId, u64>,
    /// Its repositories and copies.
    pub(crate) forge: Forge,
    /// How often the own action of a step was really started.
    pub(crate) step_starts: BTreeMap<(FlowId, StepPath), u32>,
    next_pid: i32,
}

impl World {
    /// Starts a process; true when another one of the same step lives.
    pub(crate) fn start(&mut self, started: Started<'_>, dice: &mut Dice) -> bool {
        let Started { flow, path, run, instance, now, is_agent, copy } = started;
        let twin = self.is_under_way(flow, path);
        *self.starts.entry(run).or_default() += 1;
        if copy.is_none_or(|copy| !copy.holds_conflict) {
            *self.step_starts.entry((flow, path.clone())).or_default() += 1;
        }
        self.forge.work(flow, path, dice);
        let duration = |dice: &mut Dice| i64::try_from(dice.millis(1, 60_000)).unwrap_or(1);
        let choices = [(65, Some(true)), (20, Some(false)), (15, None)];
        let (mut ends_at, mut ending) = match dice.weighted(&choices).flatten() {
            Some(true) => (Some(now + duration(dice)), Ending::Delivered { output: delivered() }),
            Some(false) => (Some(now + duration(dice)), failed(Cause::Exit(1))),
            None => (None, failed(Cause::Signal(15))),
        };
        let agent = is_agent.then(|| random_script(dice));
        if let Some(script) = agent {
            ending = random_ending(dice);
            ends_at = (!script.silent && !script.circles).then(|| now + duration(dice));
        }
        let natures = [(60, Nature::Obeys), (20, Nature::Ignores), (12, Nature::Late), (8, Nature::Stuck)];
        let living = Living {
            flow,
            path: path.clone(),
            instance,
            ends_at,
            ending,
            nature: dice.weighted(&natures).unwrap_or(Nature::Obeys),
            ignored: 0,
            agent,
            has_copy: copy.is_some(),
            refused: dice.permille(50),
            merged: None,
        };
        self.living.insert(run, living);
        twin
    }

    fn is_under_way(&self, flow: FlowId, path: &StepPath) -> bool {
        self.living.values().any(|other| other.flow == flow && other.path == *path)
    }

    /// The copy of a run cannot be made: what it starts from contradicts itself.
    pub(crate) fn prepare(&mut self, started: &Started<'_>) -> Option<Ending> {
        let conflict = self.forge.prepare(started.flow, started.path, started.copy?).err()?;
        let ending = failed(Cause::Conflict(*conflict));
        self.endings.insert(started.run, ending.clone());
        Some(ending)
    }

    /// Merges without a process; true when another merge of the same step is under way.
    pub(crate) fn join(&mut self, started: Started<'_>, copy: &PrivateCopy, dice: &mut Dice) -> bool {
        let Started { flow, path, run, instance, now, .. } = started;
        let twin = self.is_under_way(flow, path);
        *self.starts.entry(run).or_default() += 1;
        let (ending, merged) = match self.forge.join(copy) {
            _ if dice.permille(60) => (failed(Cause::Worktree), None),
            Ok(tree) => (Ending::Delivered { output: fixture::output([]) }, Some(tree)),
            Err(conflict) => (failed(Cause::Conflict(*conflict)), None),
        };
        // A large repository takes longer than the start of a process may.
        let most = if dice.permille(50) { 4_000_000 } else { 20_000 };
        let ends_at = Some(now + i64::try_from(dice.millis(1, most)).unwrap_or(1));
        let (path, nature) = (path.clone(), Nature::Deaf);
        let (agent, has_copy) = (None, false);
        let (ignored, refused) = (0, false);
        let living =
            Living { flow, path, instance, ends_at, ending, nature, ignored, agent, has_copy, refused, merged };
        self.living.insert(run, living);
        twin
    }

    /// What is known of a process that was just started.
    pub(crate) fn process(&mut self, instance: InstanceId) -> Process {
        self.next_pid += 1;
        Process { pid: self.next_pid, start_ticks: self.next_pid.unsigned_abs().into(), instance }
    }

    /// TERM, and KILL after `grace`. Unknown runs are no error.
    pub(crate) fn stop(&mut self, run: RunId, grace: u64, now: i64, dice: &mut Dice) {
        let Some(living) = self.living.get_mut(&run) else { return };
        let soon = now + i64::try_from(dice.millis(1, 400)).unwrap_or(1);
        let kill_at = soon + i64::try_from(grace).unwrap_or(i64::MAX / 2);
        let by_kill = failed(Cause::Signal(9));
        let (at, ending) = match living.nature {
            Nature::Deaf => return,
            Nature::Obeys if grace > 0 => (soon, failed(Cause::Signal(15))),
            Nature::Obeys | Nature::Ignores => (kill_at, by_kill),
            Nature::Late if grace > 0 => (soon + 900, Ending::Delivered { output: delivered() }),
            Nature::Late => (kill_at, by_kill),
            Nature::Stuck if living.ignored == 0 => {
                living.ignored = 1;
                return;
            }
            Nature::Stuck => (kill_at, by_kill),
        };
        if living.ends_at.is_none_or(|own| at < own) {
            living.ends_at = Some(at);
            living.ending = ending;
        }
    }

    /// When the next process ends.
    pub(crate) fn next_end(&self) -> Option<i64> {
        self.living.values().filter_map(|living| living.ends_at).min()
    }

    /// Ends the processes whose time has come; what is heard of each, in this order.
    pub(crate) fn end_due(&mut self, now: i64) -> Vec<(FlowId, Vec<Input>)> {
        let due = |living: &Living| living.ends_at.is_some_and(|at| at <= now);
        let runs: Vec<RunId> = self.living.iter().filter(|(_, living)| due(living)).map(|(run, _)| *run).collect();
        runs.into_iter()
            .filter_map(|run| {
                let mut living = self.living.remove(&run)?;
                let mut heard = Vec::new();
                // Some boxes have refused something.
                if living.has_copy && living.refused {
                    let (kind, what) = (ViolationKind::Network, "example.com:80".to_owned());
                    heard.push(Input::RunViolated { run, violations: vec![Violation { kind, what, count: 1 }] });
                }
                if matches!(living.ending, Ending::Delivered { .. }) {
                    let left =
                        if living.has_copy { self.forge.harvest(living.flow, &living.path) } else { living.merged };
                    match left {
                        None if living.has_copy => living.ending = failed(Cause::Worktree),
                        tree => heard.push(Input::RunKept { run, artifacts: BTreeMap::new(), tree }),
                    }
                }
                self.endings.insert(run, living.ending.clone());
                let told = living.agent.map(|script| script.told());
                if let Some(script) = living.agent {
                    self.used.insert(run, script.calls);
                }
                heard.push(Input::RunEnded { run, ending: living.ending, told });
                Some((living.flow, heard))
            })
            .collect()
    }

    /// An agent says something, if one has anything to say.
    pub(crate) fn say(&mut self, wall: i64, dice: &mut Dice) -> Option<(FlowId, Input)> {
        let talks = |living: &Living| living.agent.is_some_and(|script| !script.silent);
        let runs: Vec<RunId> = self.living.iter().filter(|(_, living)| talks(living)).map(|(run, _)| *run).collect();
        let run = dice.pick(&runs)?;
        let living = self.living.get_mut(&run)?;
        let script = living.agent.as_mut()?;
        script.calls += dice.next() % 4;
        script.bytes += 100;
        if script.limited && dice.permille(300) {
            return Some((living.flow, limited(run, living.flow, wall, dice)));
        }
        let told = script.told();
        let mut usage = told.usage;
        if script.lies && dice.permille(500) {
            usage.calls /= 2;
        }
        let at = orc_domain::time::Timestamp::from_millis(wall);
        let statistics = Statistics { last_output_at: Some(at), ..told.statistics };
        let looping = script.circles && dice.permille(500);
        Some((living.flow, Input::RunHeard { run, statistics, usage, looping }))
    }

    /// Ends what dead instances left. Nobody hears how.
    pub(crate) fn reap(&mut self, alive: InstanceId) {
        self.living.retain(|_, living| living.instance == alive);
    }

    /// Whether a process of this run lives.
    pub(crate) fn lives(&self, run: RunId) -> bool {
        self.living.contains_key(&run)
    }
}

/// What the gateway tells of a run whose call cannot go on.
fn limited(run: RunId, flow: FlowId, wall: i64, dice: &mut Dice) -> Input {
    let until = Timestamp::from_millis(wall + i64::try_from(dice.millis(0, 900_000)).unwrap_or(0));
    let refused = |whose| Input::CallRefused { run, whose, wall: Wall::Usd, short: Shortfall::default() };
    let parked = Input::RunParked { run, provider: "one".to_owned(), until, why: "overloaded".to_owned() };
    match dice.below(100) {
        0..40 => parked,
        40..70 => refused(Owner::Run(run)),
        70..95 => refused(Owner::Flow(flow)),
        _ => refused(Owner::Gateway),
    }
}

impl Script {
    fn told(self) -> Told {
        let usage = Usage { calls: self.calls, ..Usage::default() };
        let statistics = Statistics { bytes: self.bytes, ..Statistics::default() };
        Told { answer: Some("Done.".to_owned()), usage, stop: None, statistics }
    }
}

fn random_script(dice: &mut Dice) -> Script {
    let (silent, circles) = (dice.permille(120), dice.permille(100));
    let (circles, lies, limited) = (circles && !silent, dice.permille(200), dice.permille(100));
    Script { silent, circles, limited, lies, calls: dice.next() % 3, bytes: 0 }
}

fn random_ending(dice: &mut Dice) -> Ending {
    let upstream = || {
        let (family, cause) = (ErrorFamily::TransientUpstream, Cause::Reported);
        Ending::Failed(Failure { family, cause, detail: String::new() })
    };
    match dice.below(100) {
        0..50 => Ending::Delivered { output: delivered() },
        50..64 => Ending::NoDeliverable { missing: "a verdict".to_owned() },
        64..72 => Ending::Blocked { why: "which one?".to_owned(), call: None },
        72..78 => {
            let id = format!("call-{}", dice.below(3));
            let subject = ContentHash::of(id.as_bytes());
            let lasting = match dice.below(3) {
                0 => Lasting::Once,
                1 => Lasting::Run,
                _ => Lasting::Rule { agent: "coder".to_owned(), rule: format!("Bash({id})") },
            };
            let call = Some(AskedCall { id, tool: "Bash".to_owned(), subject, lasting });
            Ending::Blocked { why: "may it?".to_owned(), call }
        }
        78..90 => upstream(),
        _ => failed(Cause::Exit(1)),
    }
}

/// A process that could not be started.
pub(crate) fn not_started() -> Ending {
    failed(Cause::Start)
}

fn failed(cause: Cause) -> Ending {
    let family = match cause {
        Cause::Start | Cause::Worktree => ErrorFamily::SandboxInfrastructure,
        _ => ErrorFamily::Unknown,
    };
    Ending::Failed(Failure { family, cause, detail: String::new() })
}
