//! What operators' commands read: lists in pages, counts, ids by their end, beside a writer and alone.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use orc_domain::action::WaitEvent;
use orc_domain::effect::Change;
use orc_domain::flow::{FlowOutcome, FlowState, SkipReason, StepNo, StepOutcome, StepState};
use orc_domain::principal::Principal;
use orc_domain::request::Answer;
use orc_domain::run::{Cause, ErrorFamily, Failure, Process, RunState};
use orc_domain::time::Millis;
use orc_domain::wait::{FanOut, Round, Wait};
use orc_ports::reader::{AnswerCounts, AnyId, FlowFilter, Reader as _, RequestFilter, StepCounts, Totals};
use orc_ports::store::{Guarded, Store as _};
use orc_store_sqlite::{STATEMENTS, SqliteReader, SqliteStore};
use orc_testkit::conformance::store::scene::{
    at, carry_on, create, delivered, done, finished, flow_id, instance_id, launch, open, path, pending, pending_agent,
    pipeline, prepare, queued, request_id, resolved, run_id, slot, spec, start_run, step, waiting_for,
};
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

/// Flow 1 is over, flow 2 has run a step and runs another, flow 3 has just begun.
async fn filled(store: &SqliteStore) {
    prepare(store).await;
    for number in 1..=3 {
        done(store, create(flow_id(number))).await;
    }
    let mut end = carry_on(flow_id(1), 1, Vec::new());
    end.decision.changes = vec![Change::Head(finished(2))];
    done(store, end).await;

    let id = flow_id(2);
    done(store, launch(id, 1, 0)).await;
    let run = run_id(id, &path(0), 1);
    let claim = store.runs_claim(vec![(run, start_run(id, 0).id)], instance_id(1)).await.unwrap();
    assert_eq!(claim, [Guarded::Updated]);
    let mut running = pending(id, 0);
    running.state = RunState::Running { since: at(3), process: process(), deadline: at(9), stop: None };
    done(store, carry_on(id, 2, vec![Change::Run(running)])).await;
    let mut next = launch(id, 3, 1);
    next.decision.changes.insert(0, Change::Run(delivered(id, 0)));
    next.decision.releases = vec![slot(id, 0)];
    let failure = Failure { family: ErrorFamily::Unknown, cause: Cause::Exit(1), detail: String::new() };
    let states = [
        (0, StepState::Finished { outcome: StepOutcome::NoChange }),
        (2, StepState::Finished { outcome: StepOutcome::Failed(failure) }),
        (3, StepState::Finished { outcome: StepOutcome::Skipped(SkipReason::Condition) }),
        (4, StepState::Finished { outcome: StepOutcome::Cancelled }),
        (5, StepState::Blocked),
        (6, StepState::Blocked),
    ];
    for (no, state) in states {
        next.decision.changes.insert(0, Change::Step(step(no, state)));
    }
    done(store, next).await;
}

fn process() -> Process {
    Process { pid: 4711, start_ticks: u64::MAX, instance: instance_id(1) }
}

#[tokio::test]
async fn flows_are_listed_newest_first_in_pages_with_their_counts() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    filled(&store).await;
    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    let ids = async |filter, before, limit| -> Vec<_> {
        let lines = reader.flows(filter, before, limit).await.unwrap();
        lines.into_iter().map(|line| line.spec.id).collect()
    };
    assert_eq!(ids(FlowFilter::All, None, 2).await, [flow_id(3), flow_id(2)]);
    assert_eq!(ids(FlowFilter::All, Some(flow_id(2)), 2).await, [flow_id(1)]);
    assert_eq!(ids(FlowFilter::Live, None, 9).await, [flow_id(3), flow_id(2)]);
    assert_eq!(ids(FlowFilter::Finished, None, 9).await, [flow_id(1)]);
    let lines = reader.flows(FlowFilter::Live, Some(flow_id(3)), 1).await.unwrap();
    assert_eq!(lines[0].spec, spec(flow_id(2)));
    assert_eq!((lines[0].updated_at, lines[0].wake_at), (at(4), Some(at(60_000))));
    let wanted = StepCounts {
        blocked: 2,
        active: 1,
        succeeded: 1,
        failed: 1,
        skipped: 1,
        cancelled: 1,
        ..StepCounts::default()
    };
    assert_eq!(lines[0].steps, wanted);
}

#[tokio::test]
async fn runs_are_listed_newest_first_and_keep_their_process() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    filled(&store).await;
    done(&store, launch(flow_id(3), 1, 0)).await;
    store.close().await.unwrap();
    // Nobody else has the file open now.
    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    let (first, second) = (run_id(flow_id(2), &path(0), 1), run_id(flow_id(2), &path(1), 1));
    let other = run_id(flow_id(3), &path(0), 1);
    let ids = async |flow, before, limit| -> Vec<_> {
        let runs = reader.runs(flow, before, limit).await.unwrap();
        runs.into_iter().map(|record| record.run.id).collect()
    };
    assert_eq!(ids(None, None, 2).await, [other, second]);
    assert_eq!(ids(None, Some(second), 2).await, [first]);
    assert_eq!(ids(Some(flow_id(2)), None, 9).await, [second, first]);
    assert_eq!(ids(Some(flow_id(2)), Some(second), 9).await, [first]);
    assert_eq!(ids(None, Some(run_id(flow_id(9), &path(9), 9)), 9).await, []);
    let record = reader.run(first).await.unwrap().unwrap();
    assert_eq!(record.run, delivered(flow_id(2), 0));
    assert_eq!(record.claimed_by, Some(instance_id(1)));
    assert_eq!(record.started_at, Some(at(3)));
    assert_eq!(record.process, Some(process()));
    let unclaimed = reader.run(second).await.unwrap().unwrap();
    assert_eq!((unclaimed.claimed_by, unclaimed.started_at, unclaimed.process), (None, None, None));
    assert_eq!(reader.run(run_id(flow_id(9), &path(9), 9)).await.unwrap(), None);
}

/// How SQLite carries out a statement with that many arguments, which decide nothing about it.
async fn query_plan(path: &std::path::Path, name: &str, arguments: usize) -> String {
    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap();
    let statement = STATEMENTS.iter().find(|statement| statement.name == name).unwrap();
    let mut query = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", statement.text)));
    for _ in 0..arguments {
        query = query.bind(9);
    }
    let plan = query.fetch_all(&mut connection).await.unwrap();
    plan.iter().map(|row| row.try_get::<String, _>("detail").unwrap() + "\n").collect()
}

#[tokio::test]
async fn finished_flows_are_read_from_the_one_that_ended_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orc.db");
    let store = SqliteStore::open(&path).await.unwrap();
    prepare(&store).await;
    for number in 1..=4 {
        done(&store, create(flow_id(number))).await;
    }
    // They end in another order than they began; the last one does not end.
    for (number, end) in [(3, 200), (1, 500), (2, 500)] {
        let mut head = finished(2);
        head.state = FlowState::Finished { at: at(end), outcome: FlowOutcome::Succeeded };
        let mut end = carry_on(flow_id(number), 1, Vec::new());
        end.decision.changes = vec![Change::Head(head)];
        done(&store, end).await;
    }
    let reader = SqliteReader::open(&path).await.unwrap();
    let page = async |before, after, limit| -> Vec<_> {
        let flows = reader.flows_finished(before, after, limit).await.unwrap();
        flows.into_iter().map(|(spec, head)| (spec.id, head.state)).collect()
    };
    let all = page(at(i64::MAX / 2), None, 9).await;
    let ids: Vec<_> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [flow_id(3), flow_id(1), flow_id(2)]);
    let ends = all.iter().map(|(id, state)| match state {
        FlowState::Finished { at, .. } => (*at, *id),
        FlowState::Queued { .. } | FlowState::Live { .. } => panic!("it is over"),
    });
    let ends: Vec<_> = ends.collect();
    assert_eq!(page(at(i64::MAX / 2), None, 1).await, all[..1]);
    assert_eq!(page(at(i64::MAX / 2), Some(ends[0]), 9).await, all[1..]);
    assert_eq!(page(at(i64::MAX / 2), Some(ends[1]), 9).await, all[2..]);
    assert_eq!(page(ends[1].0, None, 9).await, all[..1], "what ended then did not end before");
    let plan = query_plan(&path, "flows_finished_before", 4).await;
    assert!(plan.contains("flows_by_end") && !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}");
}

#[tokio::test]
async fn runs_of_a_pipeline_are_those_of_its_last_finished_flows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orc.db");
    let store = SqliteStore::open(&path).await.unwrap();
    filled(&store).await;
    let name = spec(flow_id(2)).name;
    let reader = SqliteReader::open(&path).await.unwrap();
    let flows = async |name: &str, flows, limit| -> Vec<_> {
        let runs = reader.runs_of_pipeline(name.to_owned(), flows, limit).await.unwrap();
        runs.into_iter().map(|record| record.run.flow).collect()
    };
    assert_eq!(flows(&name, 9, 9).await, [], "flow 1 is over and had no run, flow 2 is live");
    let mut end = carry_on(flow_id(2), 4, Vec::new());
    end.decision.changes = vec![Change::Run(delivered(flow_id(2), 1)), Change::Head(finished(5))];
    end.decision.releases = vec![slot(flow_id(2), 1)];
    done(&store, end).await;
    assert_eq!(flows(&name, 9, 9).await, [flow_id(2), flow_id(2)]);
    assert_eq!(flows(&name, 1, 1).await, [flow_id(2)]);
    assert_eq!(flows("another", 9, 9).await, []);
    // The index is what makes it short.
    let plan = query_plan(&path, "runs_of_pipeline", 3).await;
    assert!(plan.contains("flows_by_name (name=?)"), "{plan}");
    assert!(!plan.contains("SCAN runs") && !plan.contains("SCAN flows"), "{plan}");
}

#[tokio::test]
async fn totals_follow_a_writer_without_being_told() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    assert_eq!(Totals { bytes: 0, ..reader.totals().await.unwrap() }, Totals::default());
    filled(&store).await;
    let totals = reader.totals().await.unwrap();
    assert!(totals.bytes > 100_000, "{totals:?}");
    let wanted = Totals {
        live_flows: 2,
        queued_flows: 0,
        waiting_flows: 1,
        finished_flows: 1,
        live_runs: 1,
        slots_used: 1,
        open_requests: 0,
        pending_effects: 1,
        last_event: 7,
        bytes: totals.bytes,
    };
    assert_eq!(totals, wanted);
}

#[tokio::test]
async fn ids_are_found_by_their_end() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    filled(&store).await;
    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    let (flow, run) = (flow_id(2), run_id(flow_id(2), &path(0), 1));
    let ending = async |text: &str| reader.ids_ending(text.to_owned(), 9).await.unwrap();
    let tail = |id: String| id[id.len() - 8..].to_owned();
    assert_eq!(ending(&tail(flow.to_string())).await, [AnyId::Flow(flow)]);
    assert_eq!(ending(&tail(run.to_string())).await, [AnyId::Run(run)]);
    assert_eq!(ending(&run.to_string()).await, [AnyId::Run(run)]);
    done(&store, carry_on(flow, 4, vec![Change::Request(open(flow, 0, 3))])).await;
    let request = request_id(flow, 0);
    assert_eq!(ending(&tail(request.to_string())).await, [AnyId::Request(request)]);
    assert_eq!(ending(&request.to_string()[24..]).await, [AnyId::Request(request)]);
    // `_` and `%` are no patterns, and a short end is no name.
    for text in ["00000_", "%00002", "%", "002", "zzzzzz", &tail(flow.to_string()).to_uppercase().replace('2', "Q")] {
        assert_eq!(ending(text).await, [], "{text}");
    }
}

#[tokio::test]
async fn a_flow_its_events_and_its_definition_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    filled(&store).await;
    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    let flow = reader.flow(flow_id(2)).await.unwrap().unwrap();
    assert_eq!(flow, store.flow_load(flow_id(2)).await.unwrap().unwrap().flow);
    assert_eq!(flow.steps.len(), 7);
    let positions = async |flow, after, limit| -> Vec<_> {
        let events = reader.events(flow, after, limit).await.unwrap();
        events.into_iter().map(|event| event.position).collect()
    };
    assert_eq!(positions(Some(flow_id(2)), 0, 9).await, [2, 5, 6, 7]);
    assert_eq!(positions(Some(flow_id(2)), 5, 1).await, [6]);
    assert_eq!(positions(None, 5, 9).await, [6, 7]);
    let (hash, kept) = pipeline();
    assert_eq!(reader.pipeline(hash).await.unwrap(), Some((kept.as_ref().clone(), "name: suite\n".to_owned())));
    assert_eq!(reader.instances_open().await.unwrap(), []);
}

#[tokio::test]
async fn what_waits_is_counted_and_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    filled(&store).await;
    let mut begun = create(flow_id(4));
    *begun.decision.changes.last_mut().unwrap() = Change::Head(queued(1));
    done(&store, begun).await;
    let fan_out = FanOut { list: Vec::new(), total: 2, expanded: 2, cut: false };
    let round = Round { number: 1, first: StepNo(3), previous: [].into() };
    let waits = [
        Wait::Elements(fan_out),
        Wait::Round(round),
        Wait::Flow { flow: flow_id(9), look_at: at(5), stop: None },
        Wait::Request { request: request_id(flow_id(3), 3) },
        Wait::Until { at: at(5) },
    ];
    let mut changes: Vec<Change> =
        (0..).zip(waits).map(|(no, wait)| Change::Step(step(no, StepState::Waiting(wait)))).collect();
    changes.push(Change::Step(step(5, waiting_for(WaitEvent::FlowFinished))));
    changes.push(Change::Request(open(flow_id(3), 3, 4)));
    done(&store, carry_on(flow_id(3), 1, changes)).await;

    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    let lines = reader.flows(FlowFilter::Live, None, 9).await.unwrap();
    let ids: Vec<_> = lines.iter().map(|line| line.spec.id).collect();
    assert_eq!(ids, [4, 3, 2].map(flow_id));
    assert!(matches!(lines[0].state, FlowState::Queued { .. }), "{:?}", lines[0]);
    assert_eq!(lines[1].steps, StepCounts { waiting: 6, waiting_outside: 4, ..StepCounts::default() });
    assert_eq!(lines.iter().map(orc_ports::reader::FlowLine::is_waiting).collect::<Vec<_>>(), [false, true, false]);
    let totals = reader.totals().await.unwrap();
    assert_eq!((totals.live_flows, totals.queued_flows, totals.waiting_flows), (3, 1, 1), "flow 2 has a run");
    assert_eq!(totals.open_requests, 1);
    // A flow that leaves its queue, and one that is cancelled in it.
    done(&store, carry_on(flow_id(4), 1, Vec::new())).await;
    let totals = reader.totals().await.unwrap();
    assert_eq!((totals.live_flows, totals.queued_flows, totals.waiting_flows), (3, 0, 2));
}

#[tokio::test]
async fn requests_are_listed_by_what_is_to_be_done_about_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    filled(&store).await;
    let (two, three) = (flow_id(2), flow_id(3));
    let of_two = [open(two, 0, 30), open(two, 1, 10), open(two, 2, 10)].map(Change::Request).to_vec();
    done(&store, carry_on(two, 4, of_two)).await;
    done(&store, carry_on(three, 1, vec![Change::Request(open(three, 0, 20))])).await;
    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    let listed = async |filter, limit| -> Vec<_> {
        let records = reader.requests(filter, limit).await.unwrap();
        records.into_iter().map(|record| (record.request.id, record.opened_at)).collect()
    };
    let mut oldest = [request_id(two, 1), request_id(two, 2)];
    oldest.sort_unstable();
    let wanted =
        [(oldest[0], at(10)), (oldest[1], at(10)), (request_id(three, 0), at(20)), (request_id(two, 0), at(30))];
    assert_eq!(listed(RequestFilter::Open, 9).await, wanted);
    assert_eq!(listed(RequestFilter::Open, 2).await, wanted[..2]);
    assert_eq!(listed(RequestFilter::Resolved, 9).await, []);

    let answered = resolved(two, 1, 40, "ada", Answer::Approved);
    done(&store, carry_on(two, 5, vec![Change::Request(answered.clone())])).await;
    done(&store, carry_on(three, 2, vec![Change::Request(resolved(three, 0, 50, "bob", Answer::Withdrawn))])).await;
    let resolved_first = [(request_id(three, 0), at(20)), (request_id(two, 1), at(10))];
    assert_eq!(listed(RequestFilter::Resolved, 9).await, resolved_first, "the newest answer first");
    assert_eq!(listed(RequestFilter::Resolved, 1).await, resolved_first[..1]);
    assert_eq!(listed(RequestFilter::Open, 9).await.len(), 2);
    let record = reader.request(request_id(two, 1)).await.unwrap().unwrap();
    assert_eq!((record.request, record.opened_at), (answered, at(10)));
    assert_eq!(reader.request(request_id(two, 9)).await.unwrap(), None);
}

#[tokio::test]
async fn answers_are_counted_by_who_gave_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    filled(&store).await;
    let id = flow_id(3);
    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    assert_eq!(reader.answers().await.unwrap(), []);
    let asked = (0..7).map(|no| Change::Request(open(id, no, 100))).collect();
    done(&store, carry_on(id, 1, asked)).await;
    assert_eq!(reader.answers().await.unwrap(), []);
    let mut late = resolved(id, 5, 60_100, "?", Answer::Denied);
    if let orc_domain::request::RequestState::Resolved { by, .. } = &mut late.state {
        *by = Principal::System;
    }
    let answers = [
        resolved(id, 0, 101, "ada", Answer::Approved),
        resolved(id, 1, 150, "ada", Answer::Denied),
        resolved(id, 2, 900, "ada", Answer::Approved),
        resolved(id, 3, 200, "bob", Answer::Denied),
        resolved(id, 4, 300, "bob", Answer::Withdrawn),
        late,
    ];
    done(&store, carry_on(id, 2, answers.map(Change::Request).to_vec())).await;
    let mut counts = reader.answers().await.unwrap();
    counts.sort_by(|one, two| one.by.cmp(&two.by));
    let count =
        |by, approved, denied, median| AnswerCounts { by, approved, denied, median: Millis::from_millis(median) };
    let person = |name: &str| Principal::Person(name.to_owned());
    let wanted =
        [count(person("ada"), 2, 1, 50), count(person("bob"), 0, 1, 100), count(Principal::System, 0, 1, 60_000)];
    assert_eq!(counts, wanted);
}

#[tokio::test]
async fn runs_of_an_agent_are_listed_alone() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("orc.db")).await.unwrap();
    filled(&store).await;
    let id = flow_id(3);
    let mut other = pending_agent(id, 2);
    if let Some(agent) = &mut other.agent {
        agent.agent = "writer".to_owned();
    }
    let runs = [pending_agent(id, 0), pending(id, 1), other, pending_agent(id, 3)].map(Change::Run).to_vec();
    done(&store, carry_on(id, 1, runs)).await;
    let over = orc_domain::run::Run { state: delivered(id, 0).state, ..pending_agent(id, 0) };
    done(&store, carry_on(id, 2, vec![Change::Run(over.clone())])).await;
    let reader = SqliteReader::open(&directory.path().join("orc.db")).await.unwrap();
    let runs = async |agent: &str, before, limit| -> Vec<_> {
        let records = reader.runs_by_agent(agent.to_owned(), before, limit).await.unwrap();
        records.into_iter().map(|record| record.run).collect()
    };
    assert_eq!(runs("reviewer", None, 9).await, [pending_agent(id, 3), over.clone()]);
    assert_eq!(runs("reviewer", None, 1).await, [pending_agent(id, 3)]);
    assert_eq!(runs("reviewer", Some(run_id(id, &path(3), 1)), 9).await, [over]);
    assert_eq!(runs("writer", None, 9).await.len(), 1);
    assert_eq!(runs("nobody", None, 9).await, []);
}
