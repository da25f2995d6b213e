//! What operators' commands read: lists in pages, counts, ids by their end, beside a writer and alone.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use orc_domain::effect::Change;
use orc_domain::flow::{FlowOutcome, FlowState, SkipReason, StepOutcome, StepState};
use orc_domain::run::{Cause, ErrorFamily, Failure, Process, RunState};
use orc_ports::reader::{AnyId, FlowFilter, Reader as _, StepCounts, Totals};
use orc_ports::store::{Guarded, Store as _};
use orc_store_sqlite::{STATEMENTS, SqliteReader, SqliteStore};
use orc_testkit::conformance::store::scene::{
    at, carry_on, create, delivered, done, finished, flow_id, instance_id, launch, path, pending, pipeline, prepare,
    run_id, slot, spec, start_run, step,
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
        FlowState::Live { .. } => panic!("it is over"),
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
        finished_flows: 1,
        live_runs: 1,
        slots_used: 1,
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
