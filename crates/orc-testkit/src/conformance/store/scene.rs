//! Hand-made flows for the suite: small, numbered, with one step and at most one run each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orc_domain::action::{OnTimeout, WaitEvent};
use orc_domain::agent::{Statistics, Usage};
use orc_domain::claim::{Claim, Holder};
use orc_domain::confine::{BoxRules, Violation, ViolationKind};
use orc_domain::effect::{AgentCall, Change, Command, Decision, Effect, EffectKind};
use orc_domain::event::{EventBody, Fact};
use orc_domain::flow::{
    FlowHead, FlowOutcome, FlowSpec, FlowState, Merging, Origin, Phase, Step, StepNo, StepState, Stop,
};
use orc_domain::graph::{Pipeline, SpecIndex};
use orc_domain::ids::{ContentHash, EffectId, FlowId, InstanceId, RequestId, RunId, WorkspaceId};
use orc_domain::meter::{Limits, Owner};
use orc_domain::path::StepPath;
use orc_domain::permission::Scope;
use orc_domain::principal::Principal;
use orc_domain::profile::{Adapter, DEFAULT_MAX_MESSAGES, DEFAULT_SILENCE, Mode, Profile};
use orc_domain::request::{Answer, Request, RequestKind, RequestState};
use orc_domain::run::{AgentRun, Run, RunOutcome, RunState, WakeReason};
use orc_domain::time::Timestamp;
use orc_domain::tree::{Place, PrivateCopy, Repository, Tip, Tree};
use orc_domain::value::Text;
use orc_domain::wait::Wait;
use orc_ports::store::{Commit, Committed, Store};
use uuid::Uuid;

/// A point in time.
pub const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

/// The flow with this number; numbers and ids have the same order.
pub fn flow_id(number: u32) -> FlowId {
    FlowId::from_uuid(Uuid::from_u128(0x018b_cfe5_6800_7000_8000_0000_0000_0000 + u128::from(number)))
}

/// The instance with this number.
pub fn instance_id(number: u32) -> InstanceId {
    InstanceId::from_uuid(Uuid::from_u128(0x018b_cfe5_6800_7000_9000_0000_0000_0000 + u128::from(number)))
}

/// The run of attempt `attempt` at the step `path` of a flow.
pub fn run_id(flow: FlowId, path: &StepPath, attempt: u32) -> RunId {
    RunId::derived(flow.uuid(), &format!("{path}#{attempt}"))
}

/// The effect of a flow with this label.
pub fn effect_id(flow: FlowId, label: &str) -> EffectId {
    EffectId::derived(flow.uuid(), label)
}

/// The path of the step with this number.
pub fn path(no: u32) -> StepPath {
    StepPath::root("each").element(no)
}

/// A definition.
pub fn pipeline() -> (ContentHash, Arc<Pipeline>) {
    let pipeline = Pipeline {
        permissions: orc_domain::permission::Permissions::default(),
        name: "suite".to_owned(),
        description: Some("for the suite".to_owned()),
        repositories: Vec::new(),
        inputs: BTreeMap::new(),
        env: BTreeMap::new(),
        steps: Vec::new(),
        outputs: BTreeMap::new(),
        concurrency: None,
        budget: None,
        agents: BTreeMap::new(),
    };
    let hash = pipeline.content_hash().expect("a pipeline of text has a JSON form");
    (hash, Arc::new(pipeline))
}

/// What never changes about a flow.
pub fn spec(id: FlowId) -> FlowSpec {
    FlowSpec {
        above: Vec::new(),
        id,
        workspace: WorkspaceId::default_workspace(),
        pipeline: pipeline().0,
        name: "suite".to_owned(),
        inputs: BTreeMap::new(),
        directory: "/repository".to_owned(),
        repositories: repositories(),
        from: vec![tip("before", '2')],
        requested_by: Principal::Person("ada".to_owned()),
        created_at: at(0),
        retry_of: None,
        taken_over: BTreeMap::new(),
        carried: BTreeMap::new(),
        parent: None,
        groups_above: BTreeSet::new(),
        priority: 0,
        walls_above: vec![(Owner::Flow(flow_id(9)), Limits { tokens: Some(5), ..Limits::default() })],
    }
}

/// The head of a live flow.
pub fn live(version: u64) -> FlowHead {
    FlowHead {
        state: FlowState::Live { phase: Phase::Main, stop: Stop::None },
        version,
        wake_at: Some(at(60_000)),
        seen: at(i64::try_from(version).expect("a small number")),
        open_main: 1,
        open_finally: 0,
        main_failed: false,
        finally_failed: false,
        holds: Vec::new(),
        group: None,
        usage: Usage::default(),
        raised: 1,
        time_over: None,
        output: None,
        detail: String::new(),
        tips: vec![tip("build", '3')],
    }
}

/// The head of a flow that waits for the group `deploy`, which nobody was in when it looked.
pub fn queued(version: u64) -> FlowHead {
    FlowHead {
        state: FlowState::Queued { since: at(1), group: "deploy".to_owned(), behind: Vec::new() },
        ..live(version)
    }
}

/// The head of a flow that is over.
pub fn finished(version: u64) -> FlowHead {
    FlowHead {
        state: FlowState::Finished { at: at(9), outcome: FlowOutcome::Succeeded },
        wake_at: None,
        open_main: 0,
        ..live(version)
    }
}

/// A step instance in this state.
pub fn step(no: u32, state: StepState) -> Step {
    Step {
        no: StepNo(no),
        path: path(no),
        spec: SpecIndex(0),
        origin: Origin::Root,
        state,
        since: at(1),
        attempts: 0,
        failures: 0,
        losses: orc_domain::flow::Losses::default(),
        silences: 0,
        upstream: 0,
        places: Vec::new(),
        reminders: 0,
        heard: BTreeSet::new(),
        merging: Merging::Resolved(tree('4')),
        tips: vec![tip("build", '3')],
        inbox: Vec::new(),
        output: None,
        artifacts: BTreeMap::new(),
    }
}

/// What a step waits with for an event of any pipeline.
pub const fn waiting_for(event: WaitEvent) -> StepState {
    StepState::Waiting(Wait::Event { event, pipeline: None, deadline: at(60_000) })
}

/// The first run of a step, not started yet.
pub fn pending(flow: FlowId, no: u32) -> Run {
    Run {
        id: run_id(flow, &path(no), 1),
        flow,
        no: StepNo(no),
        path: path(no),
        attempt: 1,
        wake: WakeReason::PipelineStep,
        created_at: at(1),
        artifacts: BTreeMap::new(),
        tree: Some(tree('3')),
        violations: vec![Violation { kind: ViolationKind::Network, what: "example.com:80".to_owned(), count: 2 }],
        agent: None,
        state: RunState::Pending { since: at(1), deadline: at(1_000), stop: None },
    }
}

/// The same run as one of the agent `reviewer`.
pub fn pending_agent(flow: FlowId, no: u32) -> Run {
    let agent = AgentRun {
        agent: "reviewer".to_owned(),
        profile: ContentHash::of(b"profile"),
        silence: DEFAULT_SILENCE,
        statistics: Statistics::default(),
        usage: Usage::default(),
        messages: Vec::new(),
        answer: None,
        stop: None,
        short: None,
    };
    Run { agent: Some(agent), ..pending(flow, no) }
}

/// The same run, over.
pub fn delivered(flow: FlowId, no: u32) -> Run {
    Run { state: RunState::Finished { at: at(5), outcome: RunOutcome::Delivered }, ..pending(flow, no) }
}

/// A claim of a slot for the first run of a step.
pub fn slot(flow: FlowId, no: u32) -> Claim {
    Claim::Slot { run: run_id(flow, &path(no), 1) }
}

/// A place of a step in the group `deploy` of this many; without a step, one of the flow as a whole.
pub fn place(flow: FlowId, step: Option<u32>, limit: u32) -> Claim {
    Claim::Group { name: "deploy".to_owned(), limit, holder: Holder { flow, step: step.map(StepNo) } }
}

/// The id of the request of a step.
pub fn request_id(flow: FlowId, no: u32) -> RequestId {
    RequestId::derived(flow.uuid(), &format!("request {no}"))
}

/// A request of a step, open since `since`.
pub fn open(flow: FlowId, no: u32, since: i64) -> Request {
    Request {
        id: request_id(flow, no),
        flow,
        step: Some((StepNo(no), path(no))),
        kind: RequestKind::Approval,
        message: "ship it?".to_owned(),
        subject: ContentHash::of(b"subject"),
        asked_by: Principal::Person("ada".to_owned()),
        four_eyes: false,
        by: vec!["lead".to_owned()],
        tiers: Vec::new(),
        remind: None,
        on_timeout: OnTimeout::Deny,
        state: RequestState::Open { since: at(since), deadline: at(since + 60_000), tell_at: None, tier: 0 },
    }
}

/// The same request, answered by the person with this name.
pub fn resolved(flow: FlowId, no: u32, moment: i64, name: &str, answer: Answer) -> Request {
    let by = Principal::Person(name.to_owned());
    let state =
        RequestState::Resolved { at: at(moment), by, answer, scope: Scope::Call, reason: "looks right".to_owned() };
    Request { state, ..open(flow, no, 0) }
}

/// The effect that starts the first run of a step as one of the agent `reviewer`.
pub fn start_agent(flow: FlowId, no: u32) -> Effect {
    let profile = Profile {
        name: "reviewer".to_owned(),
        description: None,
        adapter: Adapter::Command { argv: vec!["agent".to_owned()] },
        role: None,
        mode: Mode::Review,
        silence_timeout: DEFAULT_SILENCE,
        max_concurrent: None,
        max_messages: DEFAULT_MAX_MESSAGES,
        model: Some("claude-opus-5-5".to_owned()),
        env: BTreeMap::new(),
        rules: BoxRules { network: ["example.com".to_owned()].into(), ..BoxRules::default() },
        permissions: orc_domain::permission::Permissions::default(),
        permission_mode: None,
        output: None,
        system_prompt: "Read, and say what you think.\n".to_owned(),
    };
    let call = AgentCall {
        above: Vec::new(),
        profile,
        place: Place::InPlace { directory: "/repository".to_owned() },
        env: BTreeMap::new(),
        path: path(no),
        attempt: 1,
        wake: WakeReason::PipelineStep,
        messages: Vec::new(),
        prompt: vec![Text { text: "$1 'ü'".to_owned(), tainted: true }],
        schema: Some(serde_json::json!({"type": "object"})),
        pipeline: "suite".to_owned(),
        walls: vec![(Owner::Run(run_id(flow, &path(no), 1)), Limits { calls: Some(3), ..Limits::default() })],
        goes_on: true,
        workers: Vec::new(),
    };
    Effect {
        id: effect_id(flow, &format!("start {no}")),
        kind: EffectKind::StartAgent { run: run_id(flow, &path(no), 1), call: Box::new(call) },
    }
}

/// The effect that starts the first run of a step.
pub fn start_run(flow: FlowId, no: u32) -> Effect {
    Effect {
        id: effect_id(flow, &format!("start {no}")),
        kind: EffectKind::StartRun {
            run: run_id(flow, &path(no), 1),
            command: Command {
                argv: vec!["sh".to_owned(), "-c".to_owned(), "echo 'ü' \"$X\"".to_owned()],
                place: boxed(),
                env: BTreeMap::from([("X".to_owned(), "line\nline".to_owned())]),
                path: path(no),
                attempt: 1,
            },
        },
    }
}

/// An event that says which commit of which flow made it.
pub fn mark(version: u64) -> EventBody {
    EventBody {
        at: at(2),
        actor: Principal::System,
        fact: Fact::StepExpanded { path: path(0), total: u32::try_from(version).expect("a small number") },
    }
}

/// A commit that creates a flow with one blocked step.
pub fn create(id: FlowId) -> Commit {
    Commit {
        flow: id,
        create: Some(spec(id)),
        expected: 0,
        decision: Decision {
            changes: vec![Change::Step(step(0, StepState::Blocked)), Change::Head(live(1))],
            events: vec![mark(1)],
            ..Decision::default()
        },
        slots: 4,
    }
}

/// A commit on version `expected` that changes these rows and the head.
pub fn carry_on(id: FlowId, expected: u64, mut changes: Vec<Change>) -> Commit {
    changes.push(Change::Head(live(expected + 1)));
    Commit {
        flow: id,
        create: None,
        expected,
        decision: Decision { changes, events: vec![mark(expected + 1)], ..Decision::default() },
        slots: 4,
    }
}

/// A commit on version `expected` that starts the first run of step `no`: row, slot and effect.
pub fn launch(id: FlowId, expected: u64, no: u32) -> Commit {
    let run = pending(id, no);
    let active = step(no, StepState::Active { run: run.id });
    let mut commit = carry_on(id, expected, vec![Change::Step(active), Change::Run(run)]);
    commit.decision.claims = vec![slot(id, no)];
    commit.decision.effects = vec![start_run(id, no)];
    commit
}

/// Keeps the definition, as every flow needs it.
pub async fn prepare(store: &dyn Store) {
    let (hash, pipeline) = pipeline();
    store.pipeline_insert(hash, pipeline, "name: suite\n".to_owned()).await.expect("the definition is kept");
}

/// Commits what must be accepted.
pub async fn done(store: &dyn Store, commit: Commit) {
    let answer = store.commit(commit.clone()).await;
    assert!(matches!(answer, Ok(Committed::Done)), "{answer:?} for {commit:?}");
}

/// A tree of one repository.
pub fn tree(digit: char) -> Tree {
    let commit = digit.to_string().repeat(40).parse().expect("forty digits are a commit");
    Tree(BTreeMap::from([(".".to_owned(), commit)]))
}

/// What a step hands on.
pub fn tip(by: &str, digit: char) -> Tip {
    Tip { by: by.to_owned(), tree: tree(digit) }
}

/// What a flow pinned.
pub fn repositories() -> Vec<Repository> {
    let commit = "1".repeat(40).parse().expect("forty digits are a commit");
    let (path, source) = (".".to_owned(), "/repository".to_owned());
    vec![Repository { path, source, branch: Some("main".to_owned()), commit }]
}

/// A box with a copy.
pub fn boxed() -> Place {
    let copy = PrivateCopy {
        repositories: repositories(),
        from: vec![tip("before", '2')],
        goes_on: true,
        holds_conflict: false,
    };
    let rules = BoxRules { read: ["~/tools".to_owned()].into(), ..BoxRules::default() };
    Place::Boxed { copy: Some(copy), rules }
}
