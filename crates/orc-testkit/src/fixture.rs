//! Pipelines, flows and expressions made in code, without a file.
//!
//! What a builder leaves out has the compiler's defaults, but for the back-off, which is a second so that tests read
//! well. Keys are resolved when the pipeline is made; a need that no step has is a mistake of the test and panics.

use std::collections::{BTreeMap, BTreeSet};

use orc_domain::action::{OnTimeout, Tier, WaitEvent};
use orc_domain::budget::Budget;
use orc_domain::expr::{BinaryOp, Expr, Root, Segment, StatusFn, Template, TemplatePart};
use orc_domain::flow::FlowSpec;
use orc_domain::graph::{
    Action, AgentAction, ApprovalAction, Concurrency, Condition, DEFAULT_MAX_BACKOFF, DEFAULT_TIMEOUT, Elements, Fan,
    OnLimit, PhaseKind, Pipeline, PipelineAction, RepeatAction, Retry, RunAction, SpecIndex, StartFrom, StepSpec,
    WaitAction, Worktree,
};
use orc_domain::ids::{ContentHash, FlowId, InstanceId, MessageId, WorkspaceId};
use orc_domain::principal::Principal;
use orc_domain::profile::{Adapter, Mode, Profile};
use orc_domain::time::{Millis, Timestamp};
use orc_domain::tree::{CommitId, Repository, Tree};
use orc_domain::value::Value;
use uuid::Uuid;

/// The moment at which flows of fixtures begin.
pub const BEGIN: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A step in the making.
#[derive(Clone, Debug)]
pub struct StepFixture {
    spec: StepSpec,
    needs: Vec<String>,
    /// The steps that a `repeat` repeats.
    body: Vec<StepFixture>,
}

/// A step that runs `true`.
#[must_use]
pub fn step(key: &str) -> StepFixture {
    let action = Action::Run(RunAction {
        script: "true".to_owned(),
        shell: ["sh", "-eu", "-c"].map(str::to_owned).to_vec(),
        bindings: Vec::new(),
    });
    acting(key, action)
}

fn acting(key: &str, action: Action) -> StepFixture {
    StepFixture {
        needs: Vec::new(),
        body: Vec::new(),
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
            worktree: Worktree { from: StartFrom::InPlace, repositories: None },
            rules: orc_domain::confine::BoxRules::default(),
            on_conflict: None,
        },
    }
}

/// The `number`th commit. The base of flows of fixtures is 0.
#[must_use]
#[expect(clippy::expect_used, reason = "forty digits are a commit")]
pub fn commit(number: u64) -> CommitId {
    format!("{number:040x}").parse().expect("forty digits are a commit")
}

/// A tree with these commits, by the path of their repository.
#[must_use]
pub fn tree<const N: usize>(commits: [(&str, u64); N]) -> Tree {
    Tree(commits.into_iter().map(|(path, number)| (path.to_owned(), commit(number))).collect())
}

/// A repository that was pinned at commit 0.
#[must_use]
pub fn repository(path: &str) -> Repository {
    Repository {
        path: path.to_owned(),
        source: format!("/checkout/{path}"),
        branch: Some("main".to_owned()),
        commit: commit(0),
    }
}

/// A step that repeats this body, `max` rounds at most, until the expression holds.
#[must_use]
pub fn repeat(key: &str, max: u32, until: Option<Expr>, body: Vec<StepFixture>) -> StepFixture {
    let count = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let action = Action::Repeat(RepeatAction { first: SpecIndex(0), count, max, until });
    StepFixture { body, ..acting(key, action) }
}

/// A step that starts this pipeline as a child flow.
#[must_use]
pub fn child(key: &str, of: &Pipeline) -> StepFixture {
    let pipeline = content_hash(of);
    acting(key, Action::Pipeline(PipelineAction { name: of.name.clone(), pipeline, with: BTreeMap::new() }))
}

/// A step that asks these people, for an hour, and takes silence for a no.
#[must_use]
pub fn approval(key: &str, by: &[&str]) -> StepFixture {
    let approval = ApprovalAction {
        by: by.iter().map(|name| (*name).to_owned()).collect(),
        message: None,
        timeout: Millis::from_secs(3600),
        on_timeout: OnTimeout::Deny,
        remind: None,
        tiers: Vec::new(),
        four_eyes: false,
    };
    acting(key, Action::Approval(approval))
}

/// A step that waits this long.
#[must_use]
pub fn pause(key: &str, length: &str) -> StepFixture {
    acting(key, Action::Wait(WaitAction::For(text(length))))
}

/// A step that waits until a point in time, which is written so.
#[must_use]
pub fn until(key: &str, time: &str) -> StepFixture {
    acting(key, Action::Wait(WaitAction::Until(text(time))))
}

/// A step that waits for an event, of this pipeline or of any.
#[must_use]
pub fn event(key: &str, event: WaitEvent, pipeline: Option<&str>, timeout: Millis) -> StepFixture {
    acting(key, Action::Wait(WaitAction::Event { event, pipeline: pipeline.map(text), timeout }))
}

/// A step of the agent of this name; [`pipeline`] gives it the profile [`profile`] unless it has one.
#[must_use]
pub fn agent(key: &str, name: &str) -> StepFixture {
    acting(
        key,
        Action::Agent(AgentAction {
            agent: name.to_owned(),
            prompt: text("Do it."),
            schema: None,
            permissions: orc_domain::permission::Permissions::default(),
        }),
    )
}

/// A profile: silent for ten minutes at most, told twice what it owes.
#[must_use]
pub fn profile(name: &str) -> Profile {
    Profile {
        name: name.to_owned(),
        description: None,
        adapter: Adapter::Command { argv: vec!["agent".to_owned()] },
        role: None,
        mode: Mode::Work,
        silence_timeout: Millis::from_secs(600),
        max_concurrent: None,
        max_messages: 2,
        model: None,
        env: BTreeMap::new(),
        rules: orc_domain::confine::BoxRules::default(),
        permissions: orc_domain::permission::Permissions::default(),
        permission_mode: None,
        output: None,
        system_prompt: String::new(),
    }
}

/// A template that is this text.
#[must_use]
pub fn text(text: &str) -> Template {
    Template { parts: vec![TemplatePart::Literal(text.to_owned())] }
}

/// A concurrency group.
#[must_use]
pub fn group(name: &str, limit: u32, on_limit: OnLimit) -> Concurrency {
    Concurrency { group: text(name), limit, on_limit }
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

    /// `matrix:` over one axis.
    #[must_use]
    pub fn matrix(mut self, axis: &str, values: &[&str]) -> Self {
        let cell = |value: &&str| BTreeMap::from([(axis.to_owned(), Value::text(*value))]);
        let elements = Elements::Matrix(values.iter().map(cell).collect());
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

    /// `concurrency:`
    #[must_use]
    pub fn concurrency(mut self, concurrency: Concurrency) -> Self {
        self.spec.concurrency = Some(concurrency);
        self
    }

    /// `priority:`
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.spec.priority = priority;
        self
    }

    /// `budget:`
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.spec.budget = Some(budget);
        self
    }

    /// `with:` of a child flow.
    #[must_use]
    pub fn with(mut self, name: &str, expr: Expr) -> Self {
        if let Action::Pipeline(action) = &mut self.spec.action {
            action.with.insert(name.to_owned(), Template { parts: vec![TemplatePart::Expr(expr)] });
        }
        self
    }

    /// Changes what an approval asks.
    #[must_use]
    pub fn asking(mut self, change: impl FnOnce(&mut ApprovalAction)) -> Self {
        if let Action::Approval(approval) = &mut self.spec.action {
            change(approval);
        }
        self
    }

    /// Further people who may answer an approval after a while.
    #[must_use]
    pub fn tier(self, after: Millis, by: &str) -> Self {
        self.asking(|approval| approval.tiers.push(Tier { after, by: vec![by.to_owned()] }))
    }

    /// `worktree: parents`: it works in a private copy of what its parents made.
    #[must_use]
    pub fn parents(self) -> Self {
        self.starting(StartFrom::Parents)
    }

    /// `worktree: fresh`: it works in a private copy of the flow's base.
    #[must_use]
    pub fn fresh(self) -> Self {
        self.starting(StartFrom::Fresh)
    }

    /// `worktree:`
    #[must_use]
    pub fn starting(mut self, from: StartFrom) -> Self {
        self.spec.worktree.from = from;
        self
    }

    /// `worktree: { repositories }`
    #[must_use]
    pub fn only(mut self, paths: &[&str]) -> Self {
        self.spec.worktree.repositories = Some(paths.iter().map(|path| (*path).to_owned()).collect());
        self
    }

    /// `on_conflict:`
    #[must_use]
    pub fn on_conflict(mut self, agent: &str) -> Self {
        let (agent, prompt) = (agent.to_owned(), text("Bring it together."));
        self.spec.on_conflict = Some(AgentAction {
            agent,
            prompt,
            schema: None,
            permissions: orc_domain::permission::Permissions::default(),
        });
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

/// A pipeline of these steps. Agents have the profile of [`profile`].
///
/// # Panics
/// When a step needs one that is not there.
#[must_use]
pub fn pipeline(main: Vec<StepFixture>, finally: Vec<StepFixture>) -> Pipeline {
    let mut layout = Layout::default();
    let roots = main.into_iter().map(|step| (step, PhaseKind::Main));
    layout.write(roots.chain(finally.into_iter().map(|step| (step, PhaseKind::Finally))).collect(), None);
    let own = |step: &StepSpec| match &step.action {
        Action::Agent(agent) => Some(agent.agent.clone()),
        _ => None,
    };
    let resolver = |step: &StepSpec| step.on_conflict.as_ref().map(|agent| agent.agent.clone());
    let named = layout.steps.iter().flat_map(|step| own(step).into_iter().chain(resolver(step)));
    Pipeline {
        permissions: orc_domain::permission::Permissions::default(),
        repositories: Vec::new(),
        name: "fixture".to_owned(),
        description: None,
        inputs: BTreeMap::new(),
        env: BTreeMap::new(),
        agents: named.map(|name| (name.clone(), profile(&name))).collect(),
        steps: layout.steps,
        outputs: BTreeMap::new(),
        concurrency: None,
        budget: None,
    }
}

/// The steps of a pipeline in the making: bodies lie behind what repeats them, each without gaps.
#[derive(Default)]
struct Layout {
    steps: Vec<StepSpec>,
}

impl Layout {
    /// Writes steps that know each other, then the bodies that they repeat; gives the position of the first.
    fn write(&mut self, fixtures: Vec<(StepFixture, PhaseKind)>, within: Option<SpecIndex>) -> SpecIndex {
        let first = self.steps.len();
        let keys: Vec<String> = fixtures.iter().map(|(fixture, _)| fixture.spec.key.clone()).collect();
        let position = |need: &String| {
            let at = keys.iter().position(|key| key == need);
            spec_index(first + at.unwrap_or_else(|| missing_need(need)))
        };
        let mut bodies = Vec::new();
        for (at, (mut fixture, phase)) in fixtures.into_iter().enumerate() {
            fixture.spec.needs = fixture.needs.iter().map(position).collect();
            (fixture.spec.phase, fixture.spec.within) = (phase, within);
            self.steps.push(fixture.spec);
            if !fixture.body.is_empty() {
                bodies.push((first + at, phase, fixture.body));
            }
        }
        for (at, phase, body) in bodies {
            let begins = self.write(body.into_iter().map(|step| (step, phase)).collect(), Some(spec_index(at)));
            if let Action::Repeat(action) = &mut self.steps[at].action {
                action.first = begins;
            }
        }
        spec_index(first)
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

/// The `number`th flow, asked for by user 1000 at [`BEGIN`]. Its definition is named by its content hash. It has the
/// repositories that its pipeline names, or one if any of its steps works in a copy.
///
/// # Panics
/// When the pipeline has no JSON form, which no fixture lacks.
#[must_use]
pub fn flow_spec(number: u32, pipeline: &Pipeline) -> FlowSpec {
    let named: Vec<Repository> = pipeline.repositories.iter().map(|one| repository(&one.path)).collect();
    let copied = |step: &StepSpec| matches!(step.worktree.from, StartFrom::Parents | StartFrom::Fresh);
    let only = pipeline.steps.iter().any(copied).then(|| repository("."));
    FlowSpec {
        repositories: if named.is_empty() { only.into_iter().collect() } else { named },
        from: Vec::new(),
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
        walls_above: Vec::new(),
        above: Vec::new(),
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

/// The id of the `number`th message.
#[must_use]
pub fn message_id(number: u32) -> MessageId {
    MessageId::from_uuid(numbered(0x3a, number))
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
        Some("previous") => Root::Previous,
        Some("matrix") => Root::Matrix,
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
