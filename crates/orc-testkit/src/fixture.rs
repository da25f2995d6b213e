//! Pipelines, flows and expressions made in code, without a file.
//!
//! What a builder leaves out has the compiler's defaults, but for the back-off, which is a second so that tests read
//! well. Keys are resolved when the pipeline is made; a need that no step has is a mistake of the test and panics.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::expr::{BinaryOp, Expr, Root, Segment, StatusFn, Template, TemplatePart};
use orc_domain::flow::FlowSpec;
use orc_domain::graph::{
    Action, Condition, DEFAULT_MAX_BACKOFF, DEFAULT_TIMEOUT, Elements, Fan, PhaseKind, Pipeline, Retry, RunAction,
    SpecIndex, StepSpec, WorktreeMode,
};
use orc_domain::ids::{ContentHash, FlowId, InstanceId, WorkspaceId};
use orc_domain::principal::Principal;
use orc_domain::time::{Millis, Timestamp};
use orc_domain::value::Value;
use uuid::Uuid;

/// The moment at which flows of fixtures begin.
pub const BEGIN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A step in the making.
#[derive(Clone, Debug)]
pub struct StepFixture {
    spec: StepSpec,
    needs: Vec<String>,
}

/// A step that runs `true`.
#[must_use]
pub fn step(key: &str) -> StepFixture {
    let action = Action::Run(RunAction {
        script: "true".to_owned(),
        shell: ["sh", "-eu", "-c"].map(str::to_owned).to_vec(),
        bindings: Vec::new(),
    });
    StepFixture {
        needs: Vec::new(),
        spec: StepSpec {
            key: key.to_owned(),
            phase: PhaseKind::Main,
            needs: Vec::new(),
            condition: Condition { implicit_success: true, expr: None },
            action,
            env: BTreeMap::new(),
            within: None,
            fan: None,
            concurrency: None,
            priority: 0,
            budget: None,
            artifacts: BTreeMap::new(),
            retry: Retry { attempts: 1, backoff: Millis::from_secs(1), max_backoff: DEFAULT_MAX_BACKOFF },
            timeout: DEFAULT_TIMEOUT,
            continue_on_fail: false,
            idempotent: true,
            worktree: WorktreeMode::InPlace,
        },
    }
}

impl StepFixture {
    /// `needs:`
    #[must_use]
    pub fn needs(mut self, keys: &[&str]) -> Self {
        self.needs = keys.iter().map(|key| (*key).to_owned()).collect();
        self
    }

    /// `if:`
    #[must_use]
    pub fn when(mut self, expr: Expr) -> Self {
        self.spec.condition = Condition { implicit_success: !expr.uses_status(), expr: Some(expr) };
        self
    }

    /// `foreach:`, with `item` as the element's name.
    #[must_use]
    pub fn foreach(mut self, list: Expr) -> Self {
        let elements = Elements::List { list, binding: "item".to_owned() };
        self.spec.fan = Some(Fan { elements, limit: None, fail_fast: false });
        self
    }

    /// `limit:` of the fan-out.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        if let Some(fan) = &mut self.spec.fan {
            fan.limit = Some(limit);
        }
        self
    }

    /// `fail_fast:` of the fan-out.
    #[must_use]
    pub fn fail_fast(mut self) -> Self {
        if let Some(fan) = &mut self.spec.fan {
            fan.fail_fast = true;
        }
        self
    }

    /// `retry:`
    #[must_use]
    pub fn retry(mut self, attempts: u32, backoff: Millis) -> Self {
        self.spec.retry.attempts = attempts;
        self.spec.retry.backoff = backoff;
        self
    }

    /// `timeout:`
    #[must_use]
    pub fn timeout(mut self, timeout: Millis) -> Self {
        self.spec.timeout = timeout;
        self
    }

    /// `continue_on_fail: true`
    #[must_use]
    pub fn continue_on_fail(mut self) -> Self {
        self.spec.continue_on_fail = true;
        self
    }

    /// `idempotent: false`
    #[must_use]
    pub fn not_idempotent(mut self) -> Self {
        self.spec.idempotent = false;
        self
    }

    /// A variable of `env:`.
    #[must_use]
    pub fn env(mut self, name: &str, expr: Expr) -> Self {
        let template = Template { parts: vec![TemplatePart::Expr(expr)] };
        self.spec.env.insert(name.to_owned(), template);
        self
    }
}

/// A pipeline of these steps.
///
/// # Panics
/// When a step needs one that is not there.
#[must_use]
pub fn pipeline(main: Vec<StepFixture>, finally: Vec<StepFixture>) -> Pipeline {
    let keys: Vec<String> = main.iter().chain(&finally).map(|fixture| fixture.spec.key.clone()).collect();
    let resolve = |phase: PhaseKind| {
        let keys = &keys;
        move |mut fixture: StepFixture| {
            let position = |need: &String| {
                let at = keys.iter().position(|key| key == need);
                spec_index(at.unwrap_or_else(|| missing_need(need)))
            };
            fixture.spec.needs = fixture.needs.iter().map(position).collect();
            fixture.spec.phase = phase;
            fixture.spec
        }
    };
    let main = main.into_iter().map(resolve(PhaseKind::Main));
    let finally = finally.into_iter().map(resolve(PhaseKind::Finally));
    Pipeline {
        name: "fixture".to_owned(),
        description: None,
        inputs: BTreeMap::new(),
        env: BTreeMap::new(),
        steps: main.chain(finally).collect(),
        outputs: BTreeMap::new(),
        concurrency: None,
        budget: None,
        agents: BTreeMap::new(),
    }
}

#[expect(clippy::panic, reason = "a mistake in a test's own pipeline")]
fn missing_need(need: &str) -> usize {
    panic!("no step `{need}` in this fixture")
}

/// A position in a definition.
#[must_use]
pub fn spec_index(at: usize) -> SpecIndex {
    SpecIndex(u32::try_from(at).unwrap_or(u32::MAX))
}

/// The `number`th flow, asked for by user 1000 at [`BEGIN`]. Its definition is named by its content hash.
///
/// # Panics
/// When the pipeline has no JSON form, which no fixture lacks.
#[must_use]
pub fn flow_spec(number: u32, pipeline: &Pipeline) -> FlowSpec {
    FlowSpec {
        id: flow_id(number),
        workspace: WorkspaceId::default_workspace(),
        pipeline: content_hash(pipeline),
        name: pipeline.name.clone(),
        inputs: BTreeMap::new(),
        directory: "/checkout".to_owned(),
        requested_by: Principal::Os(1000),
        created_at: BEGIN,
        retry_of: None,
        taken_over: BTreeMap::new(),
        carried: BTreeMap::new(),
        parent: None,
        groups_above: BTreeSet::new(),
        priority: 0,
    }
}

/// The hash that names a pipeline.
///
/// # Panics
/// As [`flow_spec`].
#[must_use]
#[expect(clippy::expect_used, reason = "values hold finite numbers only, so a pipeline always has a JSON form")]
pub fn content_hash(pipeline: &Pipeline) -> ContentHash {
    pipeline.content_hash().expect("a pipeline has a JSON form")
}

/// The id of the `number`th flow: a UUIDv7 of [`BEGIN`].
#[must_use]
pub fn flow_id(number: u32) -> FlowId {
    FlowId::from_uuid(numbered(0x0f, number))
}

/// The id of the `number`th instance.
#[must_use]
pub fn instance_id(number: u32) -> InstanceId {
    InstanceId::from_uuid(numbered(0x1e, number))
}

fn numbered(kind: u8, number: u32) -> Uuid {
    let mut bytes = [0_u8; 10];
    bytes[2] = kind;
    bytes[6..].copy_from_slice(&number.to_be_bytes());
    uuid::Builder::from_unix_timestamp_millis(BEGIN.as_millis().unsigned_abs(), &bytes).into_uuid()
}

/// `steps.plan.output.parts`; a first name that is no root is the name of an element.
#[must_use]
pub fn read(text: &str) -> Expr {
    let mut names = text.split('.');
    let root = match names.next() {
        Some("steps") => Root::Steps,
        Some("env") => Root::Env,
        Some("flow") => Root::Flow,
        Some("inputs") => Root::Inputs,
        name => Root::Item(name.unwrap_or_default().to_owned()),
    };
    Expr::Ref { root, path: names.map(|name| Segment::Member(name.to_owned())).collect() }
}

/// A constant.
#[must_use]
pub fn literal(value: impl Into<Literal>) -> Expr {
    Expr::Literal(value.into().0)
}

/// What [`literal`] takes.
#[derive(Clone, Debug)]
pub struct Literal(Value);

impl From<bool> for Literal {
    fn from(truth: bool) -> Self {
        Self(Value::Bool(truth))
    }
}

impl From<&str> for Literal {
    fn from(text: &str) -> Self {
        Self(Value::text(text))
    }
}

impl From<Value> for Literal {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

/// The list `[0, 1, ...]` of this length.
#[must_use]
pub fn numbers(length: u32) -> Expr {
    Expr::Literal(Value::List((0..i64::from(length)).map(Value::Int).collect()))
}

/// `always()` and its siblings.
#[must_use]
pub const fn status(function: StatusFn) -> Expr {
    Expr::Status(function)
}

/// `left == right`
#[must_use]
pub fn equal(left: Expr, right: Expr) -> Expr {
    Expr::Binary(BinaryOp::Equal, Box::new(left), Box::new(right))
}

/// A map of outputs.
#[must_use]
pub fn output<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
