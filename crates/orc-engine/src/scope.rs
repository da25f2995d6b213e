//! Where the expressions of a step get their values: inputs, earlier steps, environment, the flow, the element.

use std::collections::BTreeMap;

use orc_domain::expr::{EvalError, Root, Scope, StatusFn, missing_hint};
use orc_domain::flow::{FlowState, Origin, Step, StepNo, StepOutcome, StepState, Stop};
use orc_domain::graph::{Action, Elements, PhaseKind};
use orc_domain::value::Value;
use orc_domain::wait::Wait;

use crate::resident::{Body, Resident, spec_index};
use crate::settle::accepts;

/// The scope of one step instance.
pub(crate) struct StepScope<'a> {
    resident: &'a Resident,
    no: StepNo,
    /// The body whose steps it reads first.
    body: Body,
    env: BTreeMap<String, Value>,
}

impl<'a> StepScope<'a> {
    pub(crate) fn of(resident: &'a Resident, no: StepNo) -> Self {
        Self { resident, no, body: resident.body_of(no), env: BTreeMap::new() }
    }

    /// What a step that repeats sees of the round whose first step is `first`.
    pub(crate) fn of_round(resident: &'a Resident, no: StepNo, first: StepNo) -> Self {
        Self { resident, no, body: resident.repeat_body(no, first), env: BTreeMap::new() }
    }

    /// Evaluates the environment, the pipeline's first, so that the step's may use it. A fan-out itself, which only ever
    /// brings together what its elements made, has no element that the step's own could read, and so has none of them.
    pub(crate) fn with_env(mut self) -> Result<Self, String> {
        for (name, template) in &self.resident.pipeline.env {
            let value = template.render(&self).map_err(|error| format!("env.{name}: {error}"))?;
            self.env.insert(name.clone(), value);
        }
        let mut own = BTreeMap::new();
        let spec = self.resident.spec_of(self.step());
        let has_own = spec.fan.is_none() || self.step().origin.element().is_some();
        for (name, template) in spec.env.iter().filter(|_| has_own) {
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

    /// `steps.KEY`: outcome, output, error, and the results of a fan-out; of the own round first, then of what is around it.
    fn earlier(&self, key: &str) -> Result<Value, EvalError> {
        let mut known: Vec<&str> = Vec::new();
        let mut around = Some((self.body, self.no));
        while let Some((body, no)) = around {
            let specs = &self.resident.pipeline.steps[body.specs()];
            if let Some(at) = specs.iter().position(|spec| spec.key == key) {
                let instance = StepNo(body.first.0 + u32::try_from(at).unwrap_or(u32::MAX));
                return Ok(Value::Map(results_of(self.resident, instance)));
            }
            known.extend(specs.iter().map(|spec| spec.key.as_str()));
            let repeat = if body == self.resident.body_of(no) { self.resident.repeat_above(no) } else { Some(no) };
            around = repeat.map(|repeat| (self.resident.body_of(repeat), repeat));
        }
        Err(missing("steps", key, known))
    }

    /// `previous`: the round before, of the nearest step that repeats. In the first round nothing has an outcome.
    fn previous(&self) -> Option<Value> {
        let own = self.body != self.resident.body_of(self.no);
        let repeat = if own { self.no } else { self.resident.repeat_above(self.no)? };
        let StepState::Waiting(Wait::Round(round)) = &self.resident.flow.step(repeat)?.state else { return None };
        if round.number > 1 {
            return Some(Value::Map(round.previous.clone()));
        }
        let specs = &self.resident.pipeline.steps[self.resident.repeat_body(repeat, round.first).specs()];
        let nothing = || {
            let fields = [("outcome", Value::Null), ("output", Value::Map(BTreeMap::new())), ("error", Value::Null)];
            Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        };
        Some(Value::Map(specs.iter().map(|spec| (spec.key.clone(), nothing())).collect()))
    }

    /// The element under a name, of the nearest fan-out that gives one.
    fn item(&self, name: &str) -> Option<Value> {
        self.elements().find_map(|(element, fan)| match &fan.elements {
            Elements::List { binding, .. } if binding == name => Some(element.value.clone()),
            Elements::List { .. } | Elements::Matrix(_) => None,
        })
    }

    fn matrix(&self) -> Option<Value> {
        self.elements().find_map(|(element, fan)| match &fan.elements {
            Elements::Matrix(_) => Some(element.value.clone()),
            Elements::List { .. } => None,
        })
    }

    /// The elements that a step is, or is below of, innermost first.
    fn elements(&self) -> impl Iterator<Item = (&'a orc_domain::flow::Element, &'a orc_domain::graph::Fan)> {
        let resident = self.resident;
        resident
            .ancestry(self.no)
            .filter_map(move |step| step.origin.element().zip(resident.spec_of(step).fan.as_ref()))
    }

    /// How the direct parents ended, with their `continue_on_fail`.
    fn parents(&self) -> impl Iterator<Item = (&'a StepOutcome, bool)> {
        let resident = self.resident;
        let body = resident.body_of(self.no);
        resident.spec_of(self.step()).needs.iter().filter_map(move |need| {
            let step = &resident.flow.steps[body.instance(*need).0 as usize];
            match &step.state {
                StepState::Finished { outcome } => Some((outcome, resident.spec_of(step).continue_on_fail)),
                _ => None,
            }
        })
    }
}

impl Scope for StepScope<'_> {
    fn resolve(&self, root: &Root, member: Option<&str>) -> Result<Value, EvalError> {
        let whole = match root {
            Root::Steps => return self.earlier(member.unwrap_or_default()),
            Root::Env => return pick("env", &self.env, member),
            Root::Item(name) => self.item(name).ok_or_else(|| missing("this step", name, Vec::new()))?,
            Root::Matrix => self.matrix().ok_or_else(|| missing("this step", "matrix", Vec::new()))?,
            Root::Previous => self.previous().ok_or_else(|| missing("this step", "previous", Vec::new()))?,
            Root::Inputs | Root::Flow | Root::Ticket | Root::Event => {
                return resolve_flow(self.resident, root, member);
            }
        };
        member_of(root, whole, member)
    }

    fn status(&self, function: StatusFn) -> bool {
        let step = self.step();
        if self.resident.spec_of(step).phase == PhaseKind::Finally && !matches!(step.origin, Origin::Round { .. }) {
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

/// What `outputs:` of a pipeline reads: its steps, inputs and the flow.
pub(crate) struct FlowScope<'a>(pub(crate) &'a Resident);

impl Scope for FlowScope<'_> {
    fn resolve(&self, root: &Root, member: Option<&str>) -> Result<Value, EvalError> {
        if *root != Root::Steps {
            return resolve_flow(self.0, root, member);
        }
        let key = member.unwrap_or_default();
        let specs = &self.0.pipeline.steps[self.0.root_body().specs()];
        let Some(at) = specs.iter().position(|spec| spec.key == key) else {
            return Err(missing("steps", key, specs.iter().map(|spec| spec.key.as_str()).collect()));
        };
        Ok(Value::Map(results_of(self.0, StepNo(spec_index(at).0))))
    }

    fn status(&self, function: StatusFn) -> bool {
        matches!(function, StatusFn::Always | StatusFn::Success)
    }
}

/// What is the same for all steps of a flow: its inputs, and itself.
pub(crate) fn resolve_flow(resident: &Resident, root: &Root, member: Option<&str>) -> Result<Value, EvalError> {
    match root {
        Root::Inputs => pick("inputs", &resident.flow.spec.inputs, member),
        Root::Flow => member_of(root, flow_fields(resident), member),
        _ => Err(missing("this flow", root_name(root), Vec::new())),
    }
}

fn member_of(root: &Root, whole: Value, member: Option<&str>) -> Result<Value, EvalError> {
    match (member, whole) {
        (None, whole) => Ok(whole),
        (Some(_), Value::Map(fields)) => pick(root_name(root), &fields, member),
        (Some(name), other) => {
            let what = format!("`{}.{name}`", root_name(root));
            Err(EvalError::Type { what, wanted: "a map", found: other.type_name() })
        }
    }
}

fn flow_fields(resident: &Resident) -> Value {
    let flow = &resident.flow;
    let outcome = match &flow.head.state {
        FlowState::Live { stop: Stop::Exhausted { .. }, .. } => "budget_exhausted",
        FlowState::Live { stop, .. } if *stop != Stop::None => "cancelled",
        FlowState::Live { .. } if flow.head.main_failed => "failed",
        FlowState::Live { .. } | FlowState::Queued { .. } => "succeeded",
        FlowState::Finished { outcome, .. } => outcome.word(),
    };
    let fields = [
        ("id", Value::text(flow.spec.id.to_string())),
        ("pipeline", Value::text(flow.spec.name.clone())),
        ("outcome", Value::text(outcome)),
        ("summary", Value::text(summary(resident))),
    ];
    Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// One line per main step that is finished: `build: succeeded`.
fn summary(resident: &Resident) -> String {
    let specs = resident.pipeline.steps[resident.root_body().specs()].iter().zip(&resident.flow.steps);
    let lines = specs.filter(|(spec, _)| spec.phase == PhaseKind::Main).filter_map(|(_, step)| match &step.state {
        StepState::Finished { outcome: StepOutcome::Failed(failure) } => {
            Some(format!("{}: failed: {failure}", step.path))
        }
        StepState::Finished { outcome: StepOutcome::Skipped(why) } => Some(format!("{}: skipped: {why}", step.path)),
        StepState::Finished { outcome } => Some(format!("{}: {}", step.path, outcome.word())),
        _ => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The result of a step, with those of its elements or the number of its rounds.
fn results_of(resident: &Resident, no: StepNo) -> BTreeMap<String, Value> {
    let step = &resident.flow.steps[no.0 as usize];
    let mut fields = result_of(step);
    let spec = resident.spec_of(step);
    if spec.fan.is_some() {
        let results = resident.below(no).map(|step| Value::Map(result_of(step)));
        fields.insert("results".to_owned(), Value::List(results.collect()));
    } else if !spec.artifacts.is_empty() {
        let files = step.artifacts.iter().map(|(name, artifact)| (name.clone(), Value::text(artifact.file.clone())));
        fields.insert("artifacts".to_owned(), Value::Map(files.collect()));
    } else if matches!(spec.action, Action::Repeat(_)) {
        fields.insert("rounds".to_owned(), Value::Int(i64::from(step.attempts)));
    }
    fields
}

/// `outcome`, `output` and `error` of a step; of one that is not finished, `outcome` is null.
pub(crate) fn result_of(step: &Step) -> BTreeMap<String, Value> {
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
