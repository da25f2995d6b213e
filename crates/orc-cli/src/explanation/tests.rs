//! Every state that a step can be in, with what is said about it.

use orc_domain::action::AgentAction;
use orc_domain::budget::{Usage, Wall};
use orc_domain::event::{Event, EventBody, Fact};
use orc_domain::expr::Template;
use orc_domain::flow::{Element, FlowHead, FlowSpec, Merging, SkipReason, TakenOver};
use orc_domain::graph::{Condition, Elements, Fan, Retry, RunAction, SpecIndex, Worktree};
use orc_domain::ids::{ContentHash, InstanceId, WorkspaceId};
use orc_domain::principal::Principal;
use orc_domain::run::{ErrorFamily, Failure, Process, Run, StopReason};
use orc_domain::time::Millis;
use orc_domain::value::Value;
use orc_domain::wait::{FanOut, Wait};
use orc_runtime::data_dir::Holder;
use uuid::Uuid;

use super::*;

const NOW: i64 = 1_000_000;

pub(super) fn at(seconds_ago: i64) -> Timestamp {
    Timestamp::from_millis(NOW - seconds_ago * 1000)
}

pub(super) fn spec(key: &str, needs: &[u32]) -> StepSpec {
    StepSpec {
        key: key.to_owned(),
        phase: PhaseKind::Main,
        needs: needs.iter().map(|need| SpecIndex(*need)).collect(),
        condition: Condition { implicit_success: true, expr: None },
        action: Action::Run(RunAction { script: "true".to_owned(), shell: Vec::new(), bindings: Vec::new() }),
        env: BTreeMap::new(),
        within: None,
        fan: None,
        concurrency: None,
        priority: 0,
        budget: None,
        artifacts: BTreeMap::new(),
        retry: Retry { attempts: 3, backoff: Millis::from_secs(1), max_backoff: Millis::from_secs(9) },
        timeout: Millis::from_secs(60),
        continue_on_fail: false,
        idempotent: true,
        worktree: Worktree { from: StartFrom::InPlace, repositories: None },
        rules: orc_domain::confine::BoxRules::default(),
        on_conflict: None,
    }
}

fn mender() -> AgentAction {
    AgentAction {
        agent: "mender".to_owned(),
        prompt: Template { parts: Vec::new() },
        schema: None,
        permissions: orc_domain::permission::Permissions::default(),
    }
}

/// `build`, `test` that needs it and is a fan-out, `report` in `finally`.
pub(super) fn pipeline() -> Pipeline {
    let list = orc_domain::expr::Expr::Literal(Value::List(Vec::new()));
    let elements = Elements::List { list, binding: "item".to_owned() };
    let fan = Fan { elements, limit: Some(2), fail_fast: true };
    Pipeline {
        permissions: orc_domain::permission::Permissions::default(),
        name: "ship".to_owned(),
        description: None,
        inputs: BTreeMap::new(),
        env: BTreeMap::new(),
        steps: vec![
            spec("build", &[]),
            StepSpec {
                fan: Some(fan),
                worktree: Worktree::default(),
                on_conflict: Some(mender()),
                ..spec("test", &[0])
            },
            StepSpec { phase: PhaseKind::Finally, ..spec("report", &[]) },
        ],
        outputs: BTreeMap::new(),
        repositories: Vec::new(),
        concurrency: None,
        budget: None,
        agents: BTreeMap::new(),
    }
}

pub(super) fn step(no: u32, path: &str, spec: u32, state: StepState) -> Step {
    Step {
        no: StepNo(no),
        path: path.parse().unwrap(),
        spec: SpecIndex(spec),
        origin: Origin::Root,
        state,
        since: at(5),
        attempts: 1,
        failures: 1,
        losses: orc_domain::flow::Losses::default(),
        silences: 0,
        upstream: 0,
        places: Vec::new(),
        reminders: 0,
        inbox: Vec::new(),
        heard: std::collections::BTreeSet::new(),
        artifacts: BTreeMap::new(),
        merging: Merging::Plain,
        tips: Vec::new(),
        output: None,
    }
}

pub(super) fn element(no: u32, index: u32, state: StepState) -> Step {
    let element = Element { group: StepNo(1), index, value: Value::Null };
    Step { origin: Origin::Element(element), ..step(no, &format!("test[{index}]"), 1, state) }
}

pub(super) fn flow(steps: Vec<Step>) -> Flow {
    Flow {
        spec: FlowSpec {
            id: FlowId::from_uuid(Uuid::from_u128(1)),
            workspace: WorkspaceId::default_workspace(),
            pipeline: ContentHash::of(b""),
            name: "ship".to_owned(),
            inputs: BTreeMap::new(),
            directory: "repo".to_owned(),
            repositories: Vec::new(),
            from: Vec::new(),
            requested_by: Principal::Os(1),
            created_at: at(60),
            retry_of: None,
            taken_over: BTreeMap::new(),
            carried: BTreeMap::new(),
            parent: None,
            groups_above: std::collections::BTreeSet::new(),
            priority: 0,
            walls_above: Vec::new(),
            above: Vec::new(),
        },
        head: FlowHead {
            state: FlowState::Live { phase: Phase::Main, stop: Stop::None },
            version: 1,
            wake_at: None,
            seen: at(5),
            open_main: 2,
            open_finally: 1,
            main_failed: false,
            finally_failed: false,
            holds: Vec::new(),
            group: None,
            usage: Usage::default(),
            raised: 1,
            time_over: None,
            output: None,
            detail: String::new(),
            tips: Vec::new(),
        },
        steps,
        runs: BTreeMap::new(),
        requests: BTreeMap::new(),
    }
}

/// Three steps, the first one in this state, the others blocked.
pub(super) fn flow_with(state: StepState) -> Flow {
    let blocked = |no, path: &str| step(no, path, no, StepState::Blocked);
    flow(vec![step(0, "build", 0, state), blocked(1, "test"), blocked(2, "report")])
}

fn over(mut flow: Flow, outcome: FlowOutcome) -> Flow {
    flow.head.state = FlowState::Finished { at: at(1), outcome };
    flow
}

pub(super) fn run_id() -> RunId {
    RunId::from_uuid(Uuid::from_u128(7))
}

fn failed(cause: Cause) -> StepOutcome {
    let detail = "no \x1b[31mcheese".to_owned();
    StepOutcome::Failed(Failure { family: ErrorFamily::Unknown, cause, detail })
}

fn finished(outcome: StepOutcome) -> StepState {
    StepState::Finished { outcome }
}

pub(super) fn ready(not_before: Timestamp, held_by: Option<Held>) -> StepState {
    StepState::Ready { not_before, held_by, wake: WakeReason::PipelineStep }
}

/// A flow whose first step is tried by a run in this state.
pub(super) fn flow_with_run(state: RunState) -> Flow {
    let mut flow = flow_with(StepState::Active { run: run_id() });
    let run = Run {
        id: run_id(),
        flow: flow.spec.id,
        no: StepNo(0),
        path: StepPath::root("build"),
        attempt: 2,
        wake: WakeReason::PipelineStep,
        created_at: at(9),
        artifacts: BTreeMap::new(),
        tree: None,
        violations: Vec::new(),
        agent: None,
        state,
    };
    flow.runs.insert(run.id, run);
    flow
}

pub(super) fn running(stop: Option<Stopping>) -> RunState {
    let process = Process { pid: 4711, start_ticks: 1, instance: InstanceId::from_uuid(Uuid::from_u128(3)) };
    RunState::Running { since: at(8), process, deadline: at(-52), stop }
}

pub(super) fn holder(flows: &[FlowId], trouble: Option<&str>) -> Carrier {
    let instance = InstanceId::from_uuid(Uuid::from_u128(3));
    let holder = Holder { pid: 99, instance, command: "run".to_owned(), since: at(100) };
    let says = Says::Carries { flows: flows.iter().copied().collect(), slots: 2, trouble: trouble.map(str::to_owned) };
    Carrier::Process { holder: Some(holder), says }
}

fn explain(flow: &Flow, no: u32, carrier: &Carrier, evidence: Option<RunEvidence>) -> Explanation {
    let pipeline = pipeline();
    let slots =
        [SlotHolder { flow: FlowId::from_uuid(Uuid::from_u128(2)), path: StepPath::root("other"), since: at(3) }];
    let facts = Facts {
        flow,
        pipeline: &pipeline,
        now: at(0),
        carrier,
        runs: evidence.map(|evidence| (run_id(), evidence)).into_iter().collect(),
        slots: &slots,
        others: &BTreeMap::new(),
        past: &past(None),
    };
    explain_step(&facts, &flow.steps[no as usize])
}

/// The run of `build`, and who cancelled.
pub(super) fn past(cancelled_by: Option<&str>) -> Progress {
    let mut past = Progress::default();
    let outcome = orc_domain::run::RunOutcome::Delivered;
    let fact = Fact::CommandRunCompleted { path: StepPath::root("build"), run: run_id(), attempt: 1, outcome };
    past.apply(&Event {
        position: 1,
        flow: FlowId::from_uuid(Uuid::from_u128(1)),
        workspace: WorkspaceId::default_workspace(),
        body: EventBody { at: at(2), actor: Principal::System, fact },
    });
    past.cancel = cancelled_by.map(|by| (by.to_owned(), false));
    past
}

/// State, reason and who can change it, for a flow that is carried on.
#[track_caller]
fn check(flow: &Flow, no: u32, state: &str, reason: &str, unblocked_by: &str) {
    let alive = RunEvidence { process: Seen::Alive, last_output_at: Some(at(4)) };
    let said = explain(flow, no, &holder(&[flow.spec.id], None), Some(alive));
    assert_eq!((said.state, said.reason.as_str()), (state, reason));
    assert!(said.unblocked_by.contains(unblocked_by), "{}", said.unblocked_by);
    assert_eq!(said.alarm, None);
    assert!(said.since <= at(0) && !said.of.is_empty());
}

#[test]
fn blocked_steps_name_what_they_need_and_where_that_stands() {
    let cases = [
        (ready(at(-3), None), "needs `build` (tries again in 3s)"),
        (ready(at(1), Some(Held::Slot)), "needs `build` (waits for a slot)"),
        (ready(at(1), None), "needs `build` (may start)"),
        (StepState::Active { run: run_id() }, "needs `build` (runs for 5s)"),
        (StepState::Blocked, "needs `build` (waits for others)"),
        (finished(StepOutcome::Succeeded), "everything that it needs is over"),
    ];
    for (state, reason) in cases {
        let who = if reason.starts_with("needs") { "the steps that it needs" } else { "next look" };
        check(&flow_with(state), 1, "blocked", reason, who);
    }
    let flow = flow_with(StepState::Blocked);
    check(&flow, 2, "blocked", "`finally` begins when all other steps are over; open: `build`, `test`", "those steps");
}

#[test]
fn ready_steps_say_what_they_wait_for() {
    let mut flow = flow_with(ready(at(-7), None));
    check(
        &flow,
        0,
        "ready",
        "waits 7s before it is tried again: attempt 1 failed",
        "time, at 1970-01-01T00:16:47.000Z",
    );
    let wake = WakeReason::Recovery { lost: run_id() };
    flow.steps[0].state = StepState::Ready { not_before: at(-7), held_by: None, wake };
    check(&flow, 0, "ready", &format!("waits 7s before it is tried again: {} was lost", run_id()), "time");
    let other = FlowId::from_uuid(Uuid::from_u128(2));
    flow.steps[0].state = ready(at(1), Some(Held::Slot));
    check(&flow, 0, "ready", &format!("no slot is free: `other` of {other} for 3s"), "a run that ends, or more slots");
    flow.steps[0].state = ready(at(1), None);
    check(&flow, 0, "ready", "it may start now", "next look");
    flow.steps.push(element(3, 0, StepState::Active { run: run_id() }));
    flow.steps.push(element(4, 1, ready(at(1), Some(Held::Limit))));
    check(&flow, 4, "ready", "`limit: 2` lets no further element run beside `test[0]`", "an element that ends");
}

#[test]
fn active_steps_show_the_evidence() {
    let stop = Stopping { reason: StopReason::Timeout, again_at: at(-10), forced: false };
    let since = at(2);
    let pending = |stop| RunState::Pending { since, deadline: at(-9), stop };
    let asked = "was asked to end, because its timeout is over; asked again, harder, in 10s";
    let cases = [
        (pending(None), "its process is being started, for 2s".to_owned(), "the start"),
        (pending(Some(stop.clone())), asked.to_owned(), "the start"),
        (
            running(None),
            "attempt 2 runs for 8s as process 4711; last output 4s ago; timeout in 52s".to_owned(),
            "the process",
        ),
        (running(Some(stop)), format!("process 4711: {asked}; last output 4s ago"), "the process"),
    ];
    for (state, reason, who) in cases {
        check(&flow_with_run(state), 0, "active", &reason, who);
    }
    let unknown = flow_with(StepState::Active { run: run_id() });
    let reason = format!("{} tries it, and nothing more is known of that run", run_id());
    check(&unknown, 0, "active", &reason, "unknown");
}

#[test]
fn a_process_that_is_gone_or_unknown_is_said() {
    let flow = flow_with_run(running(None));
    let carrier = holder(&[flow.spec.id], None);
    let gone = RunEvidence { process: Seen::Gone, last_output_at: None };
    let said = explain(&flow, 0, &carrier, Some(gone));
    assert_eq!(said.reason, "process 4711 is gone and its end is not written down; no output is known");
    let unknown = RunEvidence { process: Seen::Unknown, ..gone };
    assert!(explain(&flow, 0, &carrier, Some(unknown)).reason.contains("whether it lives is not known"));
    assert!(explain(&flow, 0, &carrier, None).reason.contains("whether it lives is not known"));
}

#[test]
fn a_fan_out_counts_its_elements() {
    let fan = |expanded, cut| Wait::Elements(FanOut { list: Vec::new(), total: 9, expanded, cut });
    let mut flow = flow_with(finished(StepOutcome::Succeeded));
    flow.steps.push(element(3, 0, finished(StepOutcome::Succeeded)));
    flow.steps.push(element(4, 1, StepState::Active { run: run_id() }));
    let cases = [
        (fan(9, false), "waits for its elements: 1 of 9 are over, 1 run"),
        (fan(2, false), "waits for its elements: 1 of 9 are over, 1 run, 7 not yet made"),
        (fan(2, true), "waits for its elements: 1 of 9 are over, 1 run, and no further ones come"),
    ];
    for (fan, reason) in cases {
        flow.steps[1].state = StepState::Waiting(fan);
        check(&flow, 1, "waiting", reason, "its elements");
    }
}

#[test]
fn finished_steps_say_how_and_what_can_be_done() {
    let retry = "orchestrator retry flow_";
    let skipped = SkipReason::Parent { path: StepPath::root("x"), outcome: "failed".to_owned() };
    let cases = [
        (StepOutcome::Succeeded, "succeeded", "nobody: it is done"),
        (StepOutcome::NoChange, "nothing to do", "nobody: it is done"),
        (failed(Cause::Exit(3)), "failed after 1 attempt: exit code 3: no cheese", retry),
        (StepOutcome::Skipped(skipped), "skipped: `x` failed", retry),
        (StepOutcome::Skipped(SkipReason::Condition), "skipped: its `if` is false", "nobody: the pipeline said so"),
        (StepOutcome::Cancelled, "it was no longer wanted; by whom is not known", retry),
    ];
    for (outcome, reason, who) in cases {
        let flow = flow_with(finished(outcome));
        check(&over(flow.clone(), FlowOutcome::Failed), 0, "finished", reason, who);
        check(&flow, 0, "finished", reason, if who == retry { "once the flow is over" } else { who });
    }
}

#[test]
fn what_a_wall_ended_says_which_with_its_figures() {
    let detail = "its budget of `usd` was reached: $0.00 of $0.50 are used";
    let mut flow = flow_with(finished(StepOutcome::Cancelled));
    flow.head.detail = detail.to_owned();
    let wanted = format!("its flow ended at a wall: {detail}");
    check(&over(flow.clone(), FlowOutcome::BudgetExhausted), 0, "finished", &wanted, "orchestrator retry flow_");
    flow.head.state = FlowState::Live {
        phase: Phase::Main,
        stop: Stop::Exhausted { wall: Wall::Usd, at: Timestamp::from_millis(1) },
    };
    check(&flow, 0, "finished", &wanted, "once the flow is over");
}

#[test]
fn what_was_lost_and_must_not_run_twice_waits_for_a_person() {
    let flow = over(flow_with(finished(failed(Cause::LostNotIdempotent))), FlowOutcome::Failed);
    let said = explain(&flow, 0, &Carrier::Nobody, None);
    assert!(said.reason.contains("a person must decide"), "{}", said.reason);
    assert!(said.unblocked_by.starts_with("you: look what it did"), "{}", said.unblocked_by);
    assert_eq!(said.hints, [format!("orchestrator logs {}", run_id())]);
    assert_eq!(said.alarm, None, "a flow that is over needs nobody");
}

#[test]
fn who_cancelled_is_said() {
    let mut flow = flow_with(finished(StepOutcome::Cancelled));
    flow.head.state = FlowState::Live { phase: Phase::Main, stop: Stop::Cancel { by: Principal::Os(5), at: at(1) } };
    check(&flow, 0, "finished", "the flow was cancelled by os:5", "once the flow is over");
    flow.head.state = FlowState::Live { phase: Phase::Main, stop: Stop::None };
    flow.steps.push(element(3, 0, finished(StepOutcome::Cancelled)));
    check(&flow, 3, "finished", "a sibling failed, and the fan-out is `fail_fast`", "once the flow is over");
}

#[test]
fn a_result_of_an_earlier_flow_is_said_to_be_one() {
    let before = FlowId::from_uuid(Uuid::from_u128(9));
    let mut flow = flow_with(finished(StepOutcome::Succeeded));
    flow.spec.retry_of = Some(before);
    let result =
        TakenOver { outcome: StepOutcome::Succeeded, output: None, artifacts: BTreeMap::new(), tips: Vec::new() };
    flow.spec.taken_over.insert(StepPath::root("build"), result);
    check(&flow, 0, "finished", &format!("succeeded: taken over from {before}"), "nobody");
}

#[test]
fn nobody_to_carry_a_flow_on_is_an_alarm() {
    let flow = flow_with(ready(at(1), None));
    let other = FlowId::from_uuid(Uuid::from_u128(2));
    let silent = Carrier::Process { holder: None, says: Says::Nothing("no answer".to_owned()) };
    let cases = [
        (Carrier::Nobody, "nobody carries the flow on", true),
        (holder(&[other], None), "nobody carries the flow on: process 99 (`run`) is busy with others", true),
        (holder(&[flow.spec.id], Some("disk full")), "process 99 (`run`) cannot go on: disk full", false),
        (silent, "whether a process that has just begun carries the flow on is unknown: no answer", false),
    ];
    for (carrier, alarm, needs_you) in cases {
        let said = explain(&flow, 0, &carrier, None);
        assert_eq!(said.alarm.as_deref(), Some(alarm));
        let resume = format!("orchestrator flows resume {}", flow.spec.id);
        assert_eq!(said.hints.contains(&resume), needs_you, "{alarm}");
        assert_eq!(said.unblocked_by == "you", needs_you, "{alarm}");
    }
}

#[test]
fn a_flow_is_explained_by_its_steps_and_its_end() {
    let pipeline = pipeline();
    let explain = |flow: &Flow, cancelled_by: Option<&str>| {
        let facts = Facts {
            flow,
            pipeline: &pipeline,
            now: at(0),
            carrier: &holder(&[flow.spec.id], None),
            runs: BTreeMap::new(),
            slots: &[],
            others: &BTreeMap::new(),
            past: &past(cancelled_by),
        };
        explain_flow(&facts)
    };
    let mut live = flow_with(ready(at(1), None));
    assert_eq!(explain(&live, None).reason, "0 running, 1 ready to start, 2 waiting for other steps");
    live.head.state = FlowState::Live {
        phase: Phase::Finally { deadline: at(-30) },
        stop: Stop::Force { by: Principal::Os(5), at: at(2) },
    };
    assert!(explain(&live, None).reason.starts_with("being ended at once by os:5; `finally`, for 30s more: "));
    let failed = over(flow_with(finished(failed(Cause::Exit(1)))), FlowOutcome::Failed);
    let said = explain(&failed, None);
    assert_eq!((said.state, said.reason.as_str()), ("finished", "failed: `build`"));
    assert_eq!(said.hints, [format!("orchestrator retry {}", failed.spec.id)]);
    let cancelled = over(flow_with(finished(StepOutcome::Cancelled)), FlowOutcome::Cancelled);
    assert_eq!(explain(&cancelled, Some("os:7")).reason, "the flow was cancelled by os:7");
    let done = over(flow_with(finished(StepOutcome::Succeeded)), FlowOutcome::Succeeded);
    assert_eq!(explain(&done, None).hints, [""; 0]);
}

pub(super) fn conflict() -> Cause {
    Cause::Conflict(orc_domain::tree::Conflict {
        repository: ".".to_owned(),
        files: vec!["a.txt".to_owned()],
        count: 1,
        ours: "test[0]".to_owned(),
        theirs: "test[1]".to_owned(),
    })
}

#[test]
fn a_failure_that_another_attempt_would_meet_again_says_who_removes_its_cause() {
    let of_machine = |cause| {
        let family = ErrorFamily::SandboxInfrastructure;
        StepOutcome::Failed(Failure { family, cause, detail: "bubblewrap is not installed".to_owned() })
    };
    let machine = "whoever looks after this machine: `orchestrator doctor`";
    let cases = [
        (
            failed(conflict()),
            "`test[0]` and `test[1]` both changed a.txt",
            "`on_conflict`",
            "orchestrator worktrees show",
        ),
        (of_machine(Cause::Worktree), "private copy cannot be made", machine, "orchestrator doctor"),
        (of_machine(Cause::Start), "bubblewrap is not installed", machine, "orchestrator doctor"),
        (failed(Cause::Worktree), "private copy cannot be made", "you: the repository", "orchestrator logs"),
    ];
    for (outcome, reason, who, hint) in cases {
        let flow = over(flow_with(finished(outcome)), FlowOutcome::Failed);
        let said = explain(&flow, 0, &Carrier::Nobody, None);
        assert!(said.reason.contains(reason), "{}", said.reason);
        assert!(said.unblocked_by.contains(who), "{}", said.unblocked_by);
        assert!(said.unblocked_by.contains("orchestrator retry flow_"), "{}", said.unblocked_by);
        assert!(said.hints[0].starts_with(hint), "{:?}", said.hints);
    }
}

#[test]
fn what_a_box_refused_is_said_with_the_step() {
    let mut past = past(None);
    let violation = |what: &str| orc_domain::confine::Violation {
        kind: orc_domain::confine::ViolationKind::Network,
        what: what.to_owned(),
        count: 2,
    };
    for what in ["evil.example:443", "169.254.169.254:80"] {
        let fact = Fact::SandboxViolation { path: StepPath::root("build"), run: run_id(), violation: violation(what) };
        past.apply(&Event {
            position: 2,
            flow: FlowId::from_uuid(Uuid::from_u128(1)),
            workspace: WorkspaceId::default_workspace(),
            body: EventBody { at: at(2), actor: Principal::System, fact },
        });
    }
    let pipeline = pipeline();
    for flow in [flow_with_run(running(None)), flow_with(finished(failed(Cause::Exit(1))))] {
        let facts = Facts {
            flow: &flow,
            pipeline: &pipeline,
            now: at(0),
            carrier: &holder(&[flow.spec.id], None),
            runs: BTreeMap::new(),
            slots: &[],
            others: &BTreeMap::new(),
            past: &past,
        };
        let said = explain_step(&facts, &flow.steps[0]);
        let wanted = "its box refused 4 times, last the network: 169.254.169.254:80 (2 times)";
        assert!(said.reason.contains(wanted), "{}", said.reason);
    }
}
