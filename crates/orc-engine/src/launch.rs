//! What starts now: ready steps by rank, as far as slots, the `limit` of their fan-out and their groups go.
//!
//! Every choice about the process is made here, so that the effect can be delivered without asking anything again.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::confine::BoxRules;
use orc_domain::effect::{AgentCall, Command, EffectKind};
use orc_domain::expr::{EvalError, Scope};
use orc_domain::flow::{Held, Merging, StepNo, StepOutcome, StepState};
use orc_domain::graph::{Action, AgentAction, RunAction, StartFrom};
use orc_domain::ids::RunId;
use orc_domain::principal::Principal;
use orc_domain::profile::Profile;
use orc_domain::run::{AgentRun, Cause, ErrorFamily, Failure, Run, RunState, WakeReason};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;
use orc_domain::value::Value;

use crate::draft::Draft;
use crate::group::Entry;
use crate::index::Lane;
use crate::scope::StepScope;

/// A run whose process is not known after this time is given up.
const START_DEADLINE: Millis = Millis::from_secs(60);
/// The same where a copy of a repository must be made first, perhaps the first one of a large repository.
const COPY_DEADLINE: Millis = Millis::from_secs(30 * 60);
/// Longest value of an environment variable: Linux allows 128 KiB for name, `=`, value and NUL (`MAX_ARG_STRLEN`).
const MAX_ENV_BYTES: usize = 120 * 1024;

impl Draft<'_> {
    /// Starts what may start and marks what became ready but must wait.
    pub(crate) fn start_due_steps(&mut self) {
        if !self.resident.may_start(self.now) {
            return;
        }
        let mut passed = BTreeSet::new();
        while let Some(no) = self.next_due(&passed) {
            match self.enter_places(no) {
                Ok(Entry::In) => self.start_step(no),
                Ok(Entry::Out) => {
                    passed.insert(no);
                    self.fresh.remove(&no);
                }
                Err(detail) => self.start_failed(no, detail),
            }
            if !self.open.is_empty() {
                // It did not start, and that may end others: first see what follows.
                return;
            }
        }
        self.mark_held();
        self.wait_for_slot_again();
    }

    /// The first by rank of the steps that may start.
    fn next_due(&self, passed: &BTreeSet<StepNo>) -> Option<StepNo> {
        let may = |lane: &Lane| (!lane.slot || self.slots > 0) && self.resident.has_room(lane.group);
        let lanes = self.resident.index.due.iter().filter(|(lane, _)| may(lane));
        let firsts = lanes.filter_map(|(_, due)| {
            due.iter().find(|(_, no)| !passed.contains(no) && self.resident.hold_on(*no).is_none())
        });
        firsts.min().map(|(_, no)| *no)
    }

    /// Steps that became ready in this decision and did not start say what they wait for.
    fn mark_held(&mut self) {
        for no in std::mem::take(&mut self.fresh) {
            let step = self.step(no);
            let StepState::Ready { not_before, wake, .. } = &step.state else {
                continue;
            };
            if *not_before > self.now || self.resident.hold_on(no).is_some() {
                continue;
            }
            let (not_before, wake) = (*not_before, wake.clone());
            let group = step.origin.element().map(|element| element.group);
            let (held, transition) = if self.resident.has_room(group) {
                (Held::Slot, Transition::StepHeldSlot)
            } else {
                (Held::Limit, Transition::StepHeldLimit)
            };
            self.take(transition);
            self.edit(no, |step| step.state = StepState::Ready { not_before, held_by: Some(held), wake });
        }
    }

    fn start_step(&mut self, no: StepNo) {
        self.fresh.remove(&no);
        let begun = match self.spec(no).action.clone() {
            _ if self.step(no).merging.is_contradicting() => self.start_resolving(no),
            _ if self.joins(no) => self.start_join(no),
            Action::Run(action) => self.start_command(no, &action),
            Action::Agent(action) => self.start_agent(no, &action),
            Action::Repeat(_) => {
                self.begin_rounds(no);
                Ok(())
            }
            Action::Pipeline(action) => self.begin_child(no, &action),
            Action::Approval(action) => self.begin_approval(no, &action),
            Action::Wait(action) => self.begin_wait(no, &action),
        };
        if let Err(detail) = begun {
            self.start_failed(no, detail);
        }
    }

    fn start_failed(&mut self, no: StepNo, detail: String) {
        self.take(Transition::StepStartError);
        let failure = Failure { family: ErrorFamily::Unknown, cause: Cause::Expression, detail };
        self.finish(no, StepOutcome::Failed(failure));
    }

    fn start_command(&mut self, no: StepNo, action: &RunAction) -> Result<(), String> {
        let (run, attempt, wake) = self.next_run(no);
        let command = self.command(no, action, (run, attempt, &wake))?;
        let artifacts = self.artifacts_of(no)?;
        self.begin_run(no, (run, attempt, wake), None, artifacts);
        self.effect(run.uuid(), "start", EffectKind::StartRun { run, command });
        Ok(())
    }

    pub(crate) fn start_agent(&mut self, no: StepNo, action: &AgentAction) -> Result<(), String> {
        let (run, attempt, wake) = self.next_run(no);
        let call = self.agent_call(no, action, (run, attempt, &wake))?;
        let agent = AgentRun {
            agent: action.agent.clone(),
            profile: call.profile.content_hash().map_err(|error| format!("agent: {error}"))?,
            silence: call.profile.silence_timeout,
            statistics: orc_domain::agent::Statistics::default(),
            usage: orc_domain::budget::Usage::default(),
            messages: call.messages.clone(),
            answer: None,
            stop: None,
            short: None,
        };
        let artifacts = self.artifacts_of(no)?;
        self.begin_run(no, (run, attempt, wake), Some(agent), artifacts);
        self.edit(no, |step| step.inbox.clear());
        self.effect(run.uuid(), "start", EffectKind::StartAgent { run, call: Box::new(call) });
        Ok(())
    }

    pub(crate) fn next_run(&self, no: StepNo) -> (RunId, u32, WakeReason) {
        let step = self.step(no);
        let attempt = step.attempts + 1;
        let run = RunId::derived(self.flow_id().uuid(), &format!("{}#{attempt}", step.path));
        let wake = match &step.state {
            StepState::Ready { wake, .. } => wake.clone(),
            _ => WakeReason::PipelineStep,
        };
        (run, attempt, wake)
    }

    pub(crate) fn begin_run(
        &mut self,
        no: StepNo,
        (id, attempt, wake): (RunId, u32, WakeReason),
        agent: Option<AgentRun>,
        artifacts: BTreeMap<String, String>,
    ) {
        let (since, deadline) = (self.now, self.now + self.start_deadline(no));
        let state = RunState::Pending { since, deadline, stop: None };
        let (flow, path) = (self.flow_id(), self.step(no).path.clone());
        self.take(Transition::StepStarted);
        self.slots -= 1;
        self.claim(id);
        self.add_run(Run {
            id,
            flow,
            no,
            path,
            attempt,
            wake,
            created_at: since,
            artifacts,
            agent,
            state,
            tree: None,
            violations: Vec::new(),
        });
        self.edit(no, |step| step.attempts = attempt);
        self.set_state(no, StepState::Active { run: id });
    }

    fn start_deadline(&self, no: StepNo) -> Millis {
        let merges = self.joins(no) || self.step(no).merging.is_contradicting();
        match self.spec(no).worktree.from {
            _ if merges => COPY_DEADLINE,
            StartFrom::Fresh | StartFrom::Parents => COPY_DEADLINE,
            StartFrom::None | StartFrom::InPlace => START_DEADLINE,
        }
    }

    /// Evaluates everything the command needs.
    fn command(&self, no: StepNo, action: &RunAction, run: (RunId, u32, &WakeReason)) -> Result<Command, String> {
        let scope = StepScope::of(&self.resident, no).with_env()?;
        let mut env = self.env_of(no, &scope, run)?;
        for (name, expr) in &action.bindings {
            let value =
                orc_domain::expr::eval(expr, &scope as &dyn Scope).map_err(|e: EvalError| format!("run: {e}"))?;
            env.insert(name.clone(), text_for_env(name, &value)?);
        }
        let argv = action.shell.iter().cloned().chain([action.script.clone()]).collect();
        let place = self.place_of(no, &BoxRules::default(), false);
        Ok(Command { argv, place, env, path: self.step(no).path.clone(), attempt: run.1 })
    }

    /// Evaluates everything the agent needs.
    fn agent_call(
        &self,
        no: StepNo,
        action: &AgentAction,
        run: (RunId, u32, &WakeReason),
    ) -> Result<AgentCall, String> {
        let profile = self.profile(no).ok_or_else(|| format!("agent: there is no profile `{}`", action.agent))?;
        let scope = StepScope::of(&self.resident, no).with_env()?;
        let mut env = profile.env.clone();
        env.extend(self.env_of(no, &scope, run)?);
        env.insert("ORC_AGENT_ID".to_owned(), action.agent.clone());
        let prompt = action.prompt.render_parts(&scope).map_err(|error| format!("prompt: {error}"))?;
        let reminded = self.step(no).inbox.iter().any(|message| message.from == Principal::System);
        let goes_on = reminded || matches!(run.2, WakeReason::Recovery { .. } | WakeReason::UserMessage { .. });
        let (place, schema) = match self.step(no).merging {
            // Whoever resolves a conflict owes the merge and nothing else.
            Merging::Contradicting(_) => (self.conflict_place(no, &profile.rules, goes_on), action.schema.clone()),
            Merging::Plain | Merging::Resolved(_) => {
                let schema = action.schema.clone().or_else(|| profile.output.clone());
                (self.place_of(no, &profile.rules, goes_on), schema)
            }
        };
        Ok(AgentCall {
            profile: profile.clone(),
            place,
            env,
            path: self.step(no).path.clone(),
            attempt: run.1,
            wake: run.2.clone(),
            messages: self.step(no).inbox.clone(),
            prompt,
            schema,
            pipeline: self.resident.flow.spec.name.clone(),
            walls: self.walls_of(no, run.0),
            goes_on,
            workers: workers_of(profile, &self.resident.pipeline.agents),
            above: self.resident.above(Some(action)),
        })
    }

    /// Files that are to be kept, by name: paths that stay below where the step works.
    fn artifacts_of(&self, no: StepNo) -> Result<BTreeMap<String, String>, String> {
        let templates = &self.spec(no).artifacts;
        // Whoever resolves a conflict owes the merge and nothing else.
        if templates.is_empty() || self.step(no).merging.is_contradicting() {
            return Ok(BTreeMap::new());
        }
        let scope = StepScope::of(&self.resident, no).with_env()?;
        let paths = templates.iter().map(|(name, template)| {
            let path = template.render(&scope).map_err(|error| format!("artifacts.{name}: {error}"))?.to_text().text;
            let stays = !path.starts_with('/') && path.split('/').all(|part| part != "..") && !path.contains('\0');
            if stays && !path.is_empty() {
                Ok((name.clone(), path))
            } else {
                Err(format!("artifacts.{name}: `{path}` is no path below the place where the step works"))
            }
        });
        paths.collect()
    }

    /// Declared variables, and what every run is told of itself.
    fn env_of(
        &self,
        no: StepNo,
        scope: &StepScope<'_>,
        (run, attempt, wake): (RunId, u32, &WakeReason),
    ) -> Result<BTreeMap<String, String>, String> {
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in scope.env() {
            env.insert(name.clone(), text_for_env(name, value)?);
        }
        let flow = &self.resident.flow.spec;
        let fixed = [
            ("ORC_WAKE_REASON", wake.word().to_owned()),
            ("ORC_RUN_ID", run.to_string()),
            ("ORC_FLOW_ID", flow.id.to_string()),
            ("ORC_WORKSPACE_ID", flow.workspace.to_string()),
            ("ORC_STEP", self.step(no).path.to_string()),
            ("ORC_ATTEMPT", attempt.to_string()),
        ];
        env.extend(fixed.map(|(name, value)| (name.to_owned(), value)));
        Ok(env)
    }
}

/// A value as an environment variable can carry it.
fn text_for_env(name: &str, value: &Value) -> Result<String, String> {
    let text = value.to_text().text;
    if text.contains('\0') {
        return Err(format!("the value of `{name}` contains a NUL byte, which no environment variable can carry"));
    }
    if text.len() > MAX_ENV_BYTES {
        let size = text.len();
        return Err(format!("the value of `{name}` has {size} bytes, an environment variable takes {MAX_ENV_BYTES}"));
    }
    Ok(text)
}

/// Those that an agent may start, and those that they may start, by name.
fn workers_of(profile: &Profile, known: &BTreeMap<String, Profile>) -> Vec<Profile> {
    let mut found: BTreeMap<&str, &Profile> = BTreeMap::new();
    let mut names: Vec<&String> = profile.adapter.workers().iter().collect();
    while let Some(name) = names.pop() {
        let Some(worker) = known.get(name).filter(|_| !found.contains_key(name.as_str())) else { continue };
        found.insert(name, worker);
        names.extend(worker.adapter.workers());
    }
    found.into_values().cloned().collect()
}
