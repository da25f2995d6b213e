//! Where the expressions of a step get their values: inputs, earlier steps, environment, the flow, the element.

use std::collections::BTreeMap;

use orc_domain::expr::{EvalError, Root, Scope, StatusFn, missing_hint};
use orc_domain::flow::{FlowState, Step, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::PhaseKind;
use orc_domain::value::Value;

use crate::resident::{Resident, spec_index};
use crate::settle::accepts;

/// The scope of one step instance.
pub(crate) struct StepScope<'a> {
    resident: &'a Resident,
    no: StepNo,
    env: BTreeMap<String, Value>,
}

impl<'a> StepScope<'a> {
    pub(crate) fn of(resident: &'a Resident, no: StepNo) -> Self {
        Self { resident, no, env: BTreeMap::new() }
    }

    /// Evaluates the environment, the pipeline's first, so that the step's may use it.
    pub(crate) fn with_env(mut self) -> Result<Self, String> {
        for (name, template) in &self.resident.pipeline.env {
            let value = template.render(&self).map_err(|error| format!("env.{name}: {error}"))?;
            self.env.insert(name.clone(), value);
        }
        let mut own = BTreeMap::new();
        for (name, template) in &self.resident.spec_of(self.step()).env {
            let value = template.render(&self).map_err(|error| format!("env.{name}: {error}"))?;
            own.insert(name.clone(), value);
        }
        self.env.append(&mut own);
        Ok(self)
    }

    pub(crate) fn env(&self) -> &BTreeMap<String, Value> {
        &self.env
    }

    fn step(&self) -> &'a Step {
        &self.resident.flow.steps[self.no.0 as usize]
    }

    /// `steps.KEY`: outcome, output, error, and the results of a fan-out.
    fn earlier(&self, key: &str) -> Result<Value, EvalError> {
        let specs = &self.resident.pipeline.steps;
        let Some(at) = specs.iter().position(|spec| spec.key == key) else {
            let keys = specs.iter().map(|spec| spec.key.as_str());
            return Err(missing("steps", key, keys.collect()));
        };
        let step = &self.resident.flow.steps[at];
        let mut fields = result_of(step);
        if specs[at].foreach.is_some() {
            let results = self.resident.elements(StepNo(spec_index(at).0)).map(|step| Value::Map(result_of(step)));
            fields.insert("results".to_owned(), Value::List(results.collect()));
        }
        Ok(Value::Map(fields))
    }

    fn flow_fields(&self) -> Value {
        let flow = &self.resident.flow;
        let outcome = match &flow.head.state {
            FlowState::Live { stop, .. } if *stop != Stop::None => "cancelled",
            FlowState::Live { .. } if flow.head.main_failed => "failed",
            FlowState::Live { .. } => "succeeded",
            FlowState::Finished { outcome, .. } => outcome.word(),
        };
        let fields = [
            ("id", Value::text(flow.spec.id.to_string())),
            ("pipeline", Value::text(flow.spec.name.clone())),
            ("outcome", Value::text(outcome)),
            ("summary", Value::text(self.summary())),
        ];
        Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// One line per main step that is finished: `build: succeeded`.
    fn summary(&self) -> String {
        let specs = self.resident.pipeline.steps.iter().zip(&self.resident.flow.steps);
        let lines = specs.filter(|(spec, _)| spec.phase == PhaseKind::Main).filter_map(|(_, step)| match &step.state {
            StepState::Finished { outcome: StepOutcome::Failed(failure) } => {
                Some(format!("{}: failed: {failure}", step.path))
            }
            StepState::Finished { outcome: StepOutcome::Skipped(why) } => {
                Some(format!("{}: skipped: {why}", step.path))
            }
            StepState::Finished { outcome } => Some(format!("{}: {}", step.path, outcome.word())),
            _ => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// How the direct parents ended, with their `continue_on_fail`.
    fn parents(&self) -> impl Iterator<Item = (&'a StepOutcome, bool)> {
        let steps = &self.resident.flow.steps;
        let pipeline = &self.resident.pipeline;
        self.resident.spec_of(self.step()).needs.iter().filter_map(move |need| {
            let at = need.0 as usize;
            match &steps[at].state {
                StepState::Finished { outcome } => Some((outcome, pipeline.steps[at].continue_on_fail)),
                _ => None,
            }
        })
    }
}

impl Scope for StepScope<'_> {
    fn resolve(&self, root: &Root, member: Option<&str>) -> Result<Value, EvalError> {
        let whole = match root {
            Root::Steps => {
                let keys = || self.resident.pipeline.steps.iter().map(|spec| spec.key.as_str()).collect();
                return member.map_or_else(|| Err(missing("steps", "", keys())), |key| self.earlier(key));
            }
            Root::Inputs => return pick("inputs", &self.resident.flow.spec.inputs, member),
            Root::Env => return pick("env", &self.env, member),
            Root::Flow => self.flow_fields(),
            Root::Item(name) => match &self.step().element {
                Some(element) => element.value.clone(),
                None => return Err(missing("this step", name, Vec::new())),
            },
            Root::Ticket | Root::Event | Root::Previous | Root::Matrix => {
                return Err(missing("this flow", root_name(root), Vec::new()));
            }
        };
        match (member, whole) {
            (None, whole) => Ok(whole),
            (Some(_), Value::Map(fields)) => pick(root_name(root), &fields, member),
            (Some(name), other) => {
                let what = format!("`{}.{name}`", root_name(root));
                Err(EvalError::Type { what, wanted: "a map", found: other.type_name() })
            }
        }
    }

    fn status(&self, function: StatusFn) -> bool {
        if self.resident.spec_of(self.step()).phase == PhaseKind::Finally {
            let head = &self.resident.flow.head;
            let stopped = matches!(&head.state, FlowState::Live { stop, .. } if *stop != Stop::None);
            return match function {
                StatusFn::Success => !head.main_failed && !stopped,
                StatusFn::Failure => head.main_failed,
                StatusFn::Always => true,
                StatusFn::Cancelled => stopped,
                StatusFn::Skipped => false,
            };
        }
        match function {
            StatusFn::Success => self.parents().all(|(outcome, goes_on)| accepts(outcome, goes_on)),
            StatusFn::Failure => self.parents().any(|(outcome, _)| matches!(outcome, StepOutcome::Failed(_))),
            StatusFn::Always => true,
            StatusFn::Cancelled => self.parents().any(|(outcome, _)| matches!(outcome, StepOutcome::Cancelled)),
            StatusFn::Skipped => self.parents().any(|(outcome, _)| matches!(outcome, StepOutcome::Skipped(_))),
        }
    }
}

/// `outcome`, `output` and `error` of a step; of one that is not finished, `outcome` is null.
fn result_of(step: &Step) -> BTreeMap<String, Value> {
    let (outcome, error) = match &step.state {
        StepState::Finished { outcome } => {
            let error = match outcome {
                StepOutcome::Failed(failure) => Value::text(failure.to_string()),
                _ => Value::Null,
            };
            (Value::text(outcome.word()), error)
        }
        _ => (Value::Null, Value::Null),
    };
    let output = step.output.clone().unwrap_or_else(|| Value::Map(BTreeMap::new()));
    [("outcome", outcome), ("output", output), ("error", error)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn pick(what: &str, fields: &BTreeMap<String, Value>, member: Option<&str>) -> Result<Value, EvalError> {
    match member {
        None => Ok(Value::Map(fields.clone())),
        Some(name) => {
            let keys = || fields.keys().map(String::as_str).collect();
            fields.get(name).cloned().ok_or_else(|| missing(what, name, keys()))
        }
    }
}

fn missing(what: &str, member: &str, existing: Vec<&str>) -> EvalError {
    let hint = missing_hint(member, existing);
    EvalError::Missing { what: what.to_owned(), member: member.to_owned(), hint }
}

fn root_name(root: &Root) -> &str {
    match root {
        Root::Inputs => "inputs",
        Root::Ticket => "ticket",
        Root::Event => "event",
        Root::Steps => "steps",
        Root::Previous => "previous",
        Root::Env => "env",
        Root::Flow => "flow",
        Root::Matrix => "matrix",
        Root::Item(name) => name,
    }
}
