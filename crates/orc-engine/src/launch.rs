//! What starts now: ready steps, in order of creation, as far as slots and the `limit` of their fan-out go.
//!
//! Every choice about the command is made here, so that the effect can be delivered without asking anything again.

use std::collections::BTreeMap;

use orc_domain::effect::{Command, EffectKind};
use orc_domain::expr::{EvalError, Scope};
use orc_domain::flow::{Held, StepNo, StepOutcome, StepState};
use orc_domain::graph::{Action, RunAction};
use orc_domain::ids::RunId;
use orc_domain::run::{Cause, ErrorFamily, Failure, Run, RunState, WakeReason};
use orc_domain::time::Millis;
use orc_domain::transition::Transition;
use orc_domain::value::Value;

use crate::draft::Draft;
use crate::scope::StepScope;

/// A run whose process is not known after this time is given up.
const START_DEADLINE: Millis = Millis::from_secs(60);
/// Longest value of an environment variable: Linux allows 128 KiB for name, `=`, value and NUL (`MAX_ARG_STRLEN`).
const MAX_ENV_BYTES: usize = 120 * 1024;

impl Draft<'_> {
    /// Starts what may start and marks what became ready but must wait.
    pub(crate) fn start_due_steps(&mut self) {
        if !self.resident.may_start(self.now) {
            return;
        }
        let groups: Vec<Option<StepNo>> = self.resident.index.due.keys().copied().collect();
        for group in groups {
            while self.slots > 0 && self.resident.has_room(group) {
                let due = self.resident.index.due.get(&group).and_then(|due| due.first().copied());
                let Some(no) = due else { break };
                self.start_step(no);
                if !self.open.is_empty() {
                    // It could not start, and that may end others: first see what follows.
                    return;
                }
            }
        }
        self.mark_held();
    }

    /// Steps that became ready in this decision and did not start say what they wait for.
    fn mark_held(&mut self) {
        for no in std::mem::take(&mut self.fresh) {
            let step = self.step(no);
            let StepState::Ready { not_before, wake, .. } = &step.state else {
                continue;
            };
            if *not_before > self.now {
                continue;
            }
            let (not_before, wake) = (*not_before, wake.clone());
            let group = step.element.as_ref().map(|element| element.group);
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
        let flow = self.resident.flow.spec.id;
        let step = self.step(no);
        let StepState::Ready { wake, .. } = &step.state else {
            return;
        };
        let (path, attempt, wake) = (step.path.clone(), step.attempts + 1, wake.clone());
        let run = RunId::derived(flow.uuid(), &format!("{path}#{attempt}"));
        let command = match self.command(no, run, &wake, attempt) {
            Ok(command) => command,
            Err(detail) => {
                self.take(Transition::StepStartError);
                let failure = Failure { family: ErrorFamily::Unknown, cause: Cause::Expression, detail };
                self.finish(no, StepOutcome::Failed(failure));
                return;
            }
        };
        let (since, deadline) = (self.now, self.now + START_DEADLINE);
        let state = RunState::Pending { since, deadline, stop: None };
        self.take(Transition::StepStarted);
        self.slots -= 1;
        self.claim(run);
        self.add_run(Run { id: run, flow, no, path, attempt, wake, created_at: since, state });
        self.edit(no, |step| step.attempts = attempt);
        self.set_state(no, StepState::Active { run });
        self.effect(run, "start", EffectKind::StartRun { run, command });
    }

    /// Evaluates everything the command needs.
    fn command(&self, no: StepNo, run: RunId, wake: &WakeReason, attempt: u32) -> Result<Command, String> {
        let step = self.step(no);
        let scope = StepScope::of(&self.resident, no).with_env()?;
        let Action::Run(RunAction { script, shell, bindings }) = self.action(no);
        let mut env: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in scope.env() {
            env.insert(name.clone(), text_for_env(name, value)?);
        }
        for (name, expr) in bindings {
            let value =
                orc_domain::expr::eval(expr, &scope as &dyn Scope).map_err(|e: EvalError| format!("run: {e}"))?;
            env.insert(name.clone(), text_for_env(name, &value)?);
        }
        let flow = &self.resident.flow.spec;
        let fixed = [
            ("ORC_WAKE_REASON", wake.word().to_owned()),
            ("ORC_RUN_ID", run.to_string()),
            ("ORC_FLOW_ID", flow.id.to_string()),
            ("ORC_WORKSPACE_ID", flow.workspace.to_string()),
            ("ORC_STEP", step.path.to_string()),
            ("ORC_ATTEMPT", attempt.to_string()),
        ];
        env.extend(fixed.map(|(name, value)| (name.to_owned(), value)));
        let argv = shell.iter().cloned().chain([script.clone()]).collect();
        Ok(Command { argv, directory: flow.directory.clone(), env, path: step.path.clone(), attempt })
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
