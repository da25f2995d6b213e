//! `run --dry-run`: what would run, in which order, with which rights, and how long it may take.
//!
//! Nothing is started and nothing is made, not even a database. How long a step takes is what it took in past flows of the
//! same pipeline, and where there are none that is said: an estimate is never made up.

mod models;
mod rights;

use std::collections::BTreeMap;

use orc_domain::graph::{Action, Elements, PhaseKind, Pipeline, StartFrom, StepSpec};
use orc_domain::ids::FlowId;
use orc_domain::path::StepPath;
use orc_domain::run::{Run, RunOutcome, RunState};
use orc_domain::time::{Millis, Timestamp};
use orc_ports::reader::{Reader as _, RunRecord};
use orc_runtime::Shape;
use orc_spec::settings::Sandbox;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::LimitArgs;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::CommandResult;
use crate::host::GIVEN;
use crate::output::{self, Form, say};
use crate::view::columns::{Columns, clean_line};

/// Past flows that are looked at.
const FLOWS: u32 = 20;
/// Runs of those that are looked at.
const RUNS: u32 = 20_000;
/// Characters of a condition or a list.
const EXPRESSION: usize = 60;

/// Prints what a run of the pipeline would be.
pub(crate) async fn print(context: &Context, pipeline: &Pipeline, shape: &Shape, form: Form) -> CommandResult {
    let history = History::read(context, &pipeline.name).await;
    let plan = Plan::new(pipeline, shape.slots, &history);
    let around = Around {
        directory: context.root.display().to_string(),
        sandbox: context.settings(&LimitArgs::default())?.sandbox.value,
        host: shape.host_env.keys().map(String::as_str).collect(),
    };
    match form {
        Form::Table => output::text(&plan.text(&around))?,
        form => output::document(form, &plan.document(&around), Some("steps"))?,
    }
    Ok(Exit::Success)
}

/// How long each step took in past flows in which it succeeded, from its first start to its last end.
#[derive(Debug, Default)]
struct History {
    took: BTreeMap<String, Vec<Millis>>,
}

impl History {
    /// Empty when there is no database, or none that can be read.
    async fn read(context: &Context, pipeline: &str) -> Self {
        if !context.data.database().is_file() {
            return Self::default();
        }
        let read = async {
            let reader = context.reader().await?;
            let runs = reader.runs_of_pipeline(pipeline.to_owned(), FLOWS, RUNS).await;
            runs.map_err(crate::hold::of_store)
        };
        match read.await {
            Ok(runs) => Self::of(&runs),
            Err(failure) => {
                say(&format!("no estimate, because past flows cannot be read:\n{failure}"));
                Self::default()
            }
        }
    }

    fn of(runs: &[RunRecord]) -> Self {
        let mut flows: BTreeMap<(FlowId, &str), Tried<'_>> = BTreeMap::new();
        for record in runs {
            let key = root_of(&record.run.path);
            flows.entry((record.run.flow, key)).or_default().add(record);
        }
        let mut took: BTreeMap<String, Vec<Millis>> = BTreeMap::new();
        for ((_, key), tried) in flows {
            took.entry(key.to_owned()).or_default().extend(tried.took());
        }
        took.values_mut().for_each(|took| took.sort_unstable());
        Self { took }
    }

    fn estimate(&self, key: &str) -> Option<Estimate> {
        let took = self.took.get(key).filter(|took| !took.is_empty())?;
        // Nearest rank.
        let quantile = |percent: usize| took[(took.len() * percent).div_ceil(100).max(1) - 1];
        Some(Estimate { p25: quantile(25), p75: quantile(75), flows: took.len() })
    }
}

/// The step of the pipeline that a run belongs to.
fn root_of(path: &StepPath) -> &str {
    path.as_str().split(['[', '~', '{', '/']).next().unwrap_or_default()
}

/// The runs of a step in one flow.
#[derive(Default)]
struct Tried<'a> {
    began: Option<Timestamp>,
    ended: Option<Timestamp>,
    last: BTreeMap<&'a StepPath, &'a Run>,
}

impl<'a> Tried<'a> {
    fn add(&mut self, record: &'a RunRecord) {
        // Of a run that was over when its start was to be written down, only the decision before is known.
        let began = record.started_at.unwrap_or(record.run.created_at);
        self.began = Some(self.began.map_or(began, |known| known.min(began)));
        if let RunState::Finished { at, .. } = record.run.state {
            self.ended = self.ended.max(Some(at));
        }
        let last = self.last.entry(&record.run.path).or_insert(&record.run);
        if last.attempt < record.run.attempt {
            *last = &record.run;
        }
    }

    /// Nothing unless all of it succeeded in the end.
    fn took(&self) -> Option<Millis> {
        let delivered = |run: &&Run| matches!(run.state, RunState::Finished { outcome: RunOutcome::Delivered, .. });
        let all = self.last.values().all(delivered);
        self.ended.zip(self.began).filter(|_| all).map(|(ended, began)| ended.since(began))
    }
}

/// Half of the past flows lie between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Estimate {
    #[serde(rename = "p25_ms")]
    p25: Millis,
    #[serde(rename = "p75_ms")]
    p75: Millis,
    /// How many past flows it is taken from.
    flows: usize,
}

/// Where it would be done.
struct Around<'a> {
    directory: String,
    sandbox: Sandbox,
    /// Variables of the host that steps see which work in place.
    host: Vec<&'a str>,
}

/// What would be done.
struct Plan<'a> {
    pipeline: &'a Pipeline,
    slots: u32,
    /// The position of each step, in the order in which they may start, with its turn.
    order: Vec<(usize, usize)>,
    estimates: Vec<Option<Estimate>>,
}

impl<'a> Plan<'a> {
    fn new(pipeline: &'a Pipeline, slots: u32, history: &History) -> Self {
        let turns = turns(pipeline);
        let mut order: Vec<(usize, usize)> = turns.into_iter().enumerate().map(|(at, turn)| (turn, at)).collect();
        order.sort_unstable();
        let estimates = pipeline.steps.iter().map(|step| history.estimate(&step.key)).collect();
        Self { pipeline, slots, order, estimates }
    }

    /// How long all of it takes: the longest way through its steps, and no less than all slots need for all of it. The
    /// second value counts steps whose time nobody knows.
    fn total(&self) -> (Option<(Millis, Millis)>, usize) {
        let unknown = self.estimates.iter().filter(|estimate| estimate.is_none()).count();
        if unknown == self.estimates.len() {
            return (None, unknown);
        }
        let least = |quantile: fn(&Estimate) -> Millis| {
            let took = |at: usize| self.estimates[at].as_ref().map_or(0, |estimate| quantile(estimate).as_millis());
            let mut ends = vec![0_u64; self.estimates.len()];
            let (mut main, mut all) = (0, 0);
            for (_, at) in &self.order {
                let step = &self.pipeline.steps[*at];
                let after = step.needs.iter().filter_map(|need| ends.get(need.0 as usize)).max().copied().unwrap_or(0);
                let begins = if step.phase == PhaseKind::Main { after } else { after.max(main) };
                ends[*at] = begins + took(*at);
                all = all.max(ends[*at]);
                if step.phase == PhaseKind::Main {
                    main = all;
                }
            }
            let sum: u64 = (0..self.estimates.len()).map(took).sum();
            Millis::from_millis(all.max(sum / u64::from(self.slots.max(1))))
        };
        (Some((least(|estimate| estimate.p25), least(|estimate| estimate.p75))), unknown)
    }

    fn text(&self, around: &Around<'_>) -> String {
        let count = self.pipeline.steps.len();
        let mut text = format!(
            "{} would run {count} step{}; nothing was started\n\n",
            self.pipeline.name,
            if count == 1 { "" } else { "s" }
        );
        let mut steps = Columns::titled(&["TURN", "STEP", "AFTER", "BY", "TIMEOUT", "ATTEMPTS", "TAKES", "REMARKS"]);
        for (turn, at) in &self.order {
            let step = &self.pipeline.steps[*at];
            let after = match (step.phase, self.needs(step)) {
                (PhaseKind::Finally, needs) if needs.is_empty() => "all others".to_owned(),
                (_, needs) if needs.is_empty() => "-".to_owned(),
                (_, needs) => needs.join(", "),
            };
            let takes = self.estimates[*at].map_or_else(|| "no history".to_owned(), |estimate| estimate.words());
            steps.row([
                &turn.to_string(),
                &step.key,
                &after,
                &program(&step.action),
                &step.timeout.to_string(),
                &step.retry.attempts.to_string(),
                &takes,
                &remarks(step).join("; "),
            ]);
        }
        text.push_str(&steps.text("  "));
        text.push_str(&format!(
            "\nSteps of one turn may run at the same time, at most {} of them (slots).\n\nrights\n",
            self.slots
        ));
        text.push_str(&self.rights(around).text("  "));
        text.push_str(&format!("\ntakes {}\n", self.total_words()));
        text
    }

    fn rights(&self, around: &Around<'_>) -> Columns {
        let mut rights = Columns::new();
        for group in rights::groups(self.pipeline, &around.directory) {
            rights.row([group.steps.join(", "), format!("works in {}", group.place)]);
            rights.row([String::new(), group.reach]);
        }
        for (steps, text) in models::rows(self.pipeline) {
            rights.row([steps, text]);
        }
        let names = |names: Vec<&str>| if names.is_empty() { "nothing".to_owned() } else { names.join(" ") };
        if self.pipeline.steps.iter().any(|step| step.action.is_run() && step.worktree.from == StartFrom::InPlace) {
            rights.row(["seen of the host in place", &names(around.host.clone())]);
        }
        rights.row(["is given", &names(GIVEN.iter().map(|(name, _)| *name).collect())]);
        rights.row(["env of all", &names(self.pipeline.env.keys().map(String::as_str).collect())]);
        for step in self.pipeline.steps.iter().filter(|step| !step.env.is_empty()) {
            rights.row([&format!("env of {}", step.key), &names(step.env.keys().map(String::as_str).collect())]);
        }
        rights
    }

    fn total_words(&self) -> String {
        match self.total() {
            (None, _) => format!("nobody knows how long: there is no finished flow of `{}`", self.pipeline.name),
            (Some(range), 0) => between(range),
            (Some(range), unknown) => {
                format!("{} without {unknown} step(s) that have no history", between(range))
            }
        }
    }

    fn document(&self, around: &Around<'_>) -> Value {
        let step = |(turn, at): &(usize, usize)| {
            let step = &self.pipeline.steps[*at];
            json!({
                "turn": turn,
                "step": step.key,
                "phase": step.phase,
                "needs": self.needs(step),
                "program": program(&step.action),
                "timeout_ms": step.timeout,
                "attempts": step.retry.attempts,
                "condition": condition(step),
                "foreach": list_of(step),
                "continue_on_fail": step.continue_on_fail,
                "idempotent": step.idempotent,
                "rights": rights::document(self.pipeline, step),
                "models": models::document(self.pipeline, step),
                "env": step.env.keys().collect::<Vec<_>>(),
                "takes": self.estimates[*at],
            })
        };
        let (total, unknown) = self.total();
        json!({
            "schema": "orc/plan/1",
            "pipeline": self.pipeline.name,
            "directory": around.directory,
            "sandbox": around.sandbox.word(),
            "slots": self.slots,
            "host_env": around.host,
            "env": self.pipeline.env.keys().collect::<Vec<_>>(),
            "steps": self.order.iter().map(step).collect::<Vec<_>>(),
            "takes": total.map(|(p25, p75)| json!({ "p25_ms": p25, "p75_ms": p75 })),
            "steps_without_history": unknown,
        })
    }

    fn needs(&self, step: &StepSpec) -> Vec<&str> {
        step.needs
            .iter()
            .filter_map(|need| self.pipeline.steps.get(need.0 as usize))
            .map(|need| need.key.as_str())
            .collect()
    }
}

impl Estimate {
    fn words(self) -> String {
        let flows = if self.flows == 1 { "1 flow".to_owned() } else { format!("{} flows", self.flows) };
        format!("{} ({flows})", between((self.p25, self.p75)))
    }
}

fn between((low, high): (Millis, Millis)) -> String {
    let (low, high) = (low.to_string(), high.to_string());
    if low == high { format!("about {low}") } else { format!("{low} to {high}") }
}

/// The turn of each step, from 1: after everything that it needs, and those of `finally` after all others.
fn turns(pipeline: &Pipeline) -> Vec<usize> {
    let mut turns = vec![1; pipeline.steps.len()];
    // Without circles, every pass settles one more step of the longest way.
    let mut settle = |phase: PhaseKind, first: usize| loop {
        let mut changed = false;
        for (at, step) in pipeline.steps.iter().enumerate().filter(|(_, step)| step.phase == phase) {
            let after =
                step.needs.iter().filter_map(|need| turns.get(need.0 as usize)).max().map_or(first, |turn| turn + 1);
            changed |= turns[at] != after.max(first);
            turns[at] = after.max(first);
        }
        if !changed {
            let of_phase = pipeline.steps.iter().zip(&turns).filter(|(step, _)| step.phase == phase);
            return of_phase.map(|(_, turn)| turn + 1).max().unwrap_or(first);
        }
    };
    let after_main = settle(PhaseKind::Main, 1);
    settle(PhaseKind::Finally, after_main);
    turns
}

/// What carries a step out.
fn program(action: &Action) -> String {
    match action {
        Action::Run(run) => clean_line(&run.shell.join(" "), EXPRESSION),
        Action::Agent(agent) => format!("agent {}", agent.agent),
        Action::Repeat(repeat) => format!("up to {} rounds of {} steps", repeat.max, repeat.count),
        Action::Pipeline(pipeline) => format!("the pipeline {}", pipeline.name),
        Action::Approval(approval) => format!("asks people, for {} at most", approval.timeout),
        Action::Wait(_) => "waits".to_owned(),
    }
}

/// What a step fans out over.
fn list_of(step: &StepSpec) -> Option<String> {
    step.fan.as_ref().map(|fan| match &fan.elements {
        Elements::List { list, .. } => list.to_string(),
        Elements::Matrix(cells) => format!("{} combinations", cells.len()),
    })
}

fn condition(step: &StepSpec) -> Option<String> {
    step.condition.expr.as_ref().map(ToString::to_string)
}

/// What a person should know about a step before it runs.
fn remarks(step: &StepSpec) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(condition) = condition(step) {
        remarks.push(format!("only if {}", clean_line(&condition, EXPRESSION)));
    }
    if let Some(list) = list_of(step) {
        remarks.push(format!("once for each of {}", clean_line(&list, EXPRESSION)));
    }
    if step.continue_on_fail {
        remarks.push("may fail".to_owned());
    }
    if !step.idempotent {
        remarks.push("never twice without you".to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(key: &str, took: &[u64]) -> History {
        let took = took.iter().map(|took| Millis::from_millis(*took)).collect();
        History { took: BTreeMap::from([(key.to_owned(), took)]) }
    }

    #[test]
    fn quartiles_are_values_that_were_measured() {
        let of = |took: &[u64]| {
            let estimate = history("a", took).estimate("a");
            estimate.map(|estimate| (estimate.p25.as_millis(), estimate.p75.as_millis()))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some((7, 7)));
        assert_eq!(of(&[1, 2, 3, 4]), Some((1, 3)));
        assert_eq!(of(&[1, 2, 3, 4, 5]), Some((2, 4)));
    }

    #[test]
    fn the_total_is_the_longest_way_or_what_the_slots_need() {
        let source = orc_spec::SourceFile::new(
            "p.yaml",
            "worktree: in_place\nsteps:\n  c: { run: x, needs: b }\n  a: { run: x }\n  b: { run: x }\nfinally:\n  d: { run: x }\n",
        );
        let pipeline = orc_spec::compile(&source, &orc_spec::Library::empty()).pipeline.unwrap();
        assert_eq!(turns(&pipeline), [2, 1, 1, 3]);
        let took = |key: &str, millis: u64| (key.to_owned(), vec![Millis::from_millis(millis)]);
        let history = History { took: BTreeMap::from([took("a", 500), took("b", 100), took("c", 100), took("d", 30)]) };
        let total = |slots: u32, history: &History| {
            let (total, unknown) = Plan::new(&pipeline, slots, history).total();
            (total.map(|(low, _)| low.as_millis()), unknown)
        };
        assert_eq!(total(9, &history), (Some(530), 0));
        assert_eq!(total(1, &history), (Some(730), 0));
        assert_eq!(total(1, &super::tests::history("a", &[5])), (Some(5), 3));
        assert_eq!(total(1, &History::default()), (None, 4));
    }
}
