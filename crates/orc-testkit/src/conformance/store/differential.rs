//! Long random sequences, wrong ones among them, against the model: each answer is the same, and so is what is left.

use orc_domain::action::WaitEvent;
use orc_domain::claim::Refusal;
use orc_domain::effect::Change;
use orc_domain::flow::{StepOutcome, StepState};
use orc_domain::ids::FlowId;
use orc_domain::request::Answer;
use orc_domain::run::RunState;
use orc_ports::store::{Commit, Committed, Guarded, Store, StoreError};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::Place;
use super::scene::{
    at, carry_on, create, delivered, effect_id, finished, flow_id, instance_id, launch, open, path, pending, pipeline,
    place, prepare, queued, resolved, run_id, slot, start_run, step, waiting_for,
};
use crate::model::Model;

const FLOWS: u32 = 3;
const STEPS: u32 = 4;
const CALLS: u32 = 1_000;

/// An answer without what may differ: the words of an error.
#[derive(Debug, PartialEq)]
enum Said {
    Committed(Committed),
    Guarded(Vec<Guarded>),
    Contract,
}

fn said(answer: Result<Committed, StoreError>) -> Said {
    match answer {
        Ok(Committed::Refused(Refusal::Group { name, mut holders })) => {
            holders.sort_unstable();
            Said::Committed(Committed::Refused(Refusal::Group { name, holders }))
        }
        Ok(committed) => Said::Committed(committed),
        Err(StoreError::Contract { .. }) => Said::Contract,
        Err(other) => panic!("no failure is expected here: {other:?}"),
    }
}

/// The store answers as the model does, call by call, and holds the same afterwards.
pub async fn agrees_with_the_model(place: &dyn Place) {
    let store = place.open().await;
    let store = store.as_ref();
    prepare(store).await;
    let mut model = Model::default();
    let (hash, definition) = pipeline();
    model.pipeline_insert(hash, definition, "name: suite\n".to_owned());
    let mut dice = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut roll = move |sides: u32| dice.next_u32() % sides;
    let mut answers = Vec::new();
    for call in 0..CALLS {
        let id = flow_id(roll(FLOWS));
        let no = roll(STEPS);
        let run = run_id(id, &path(no), 1);
        let (wanted, got) = match roll(12) {
            0 => {
                let instance = instance_id(roll(2));
                let other = roll(STEPS);
                let starts = [(run, start_run(id, no).id), (run_id(id, &path(other), 1), start_run(id, other).id)];
                let got = store.runs_claim(starts.to_vec(), instance).await.expect("an answer");
                let wanted = starts.map(|(run, effect)| model.run_claim(run, effect, instance));
                (Said::Guarded(wanted.to_vec()), Said::Guarded(got))
            }
            1 => {
                let effect = start_run(id, no).id;
                model.effect_delivered(effect);
                store.effect_delivered(effect).await.expect("an answer");
                continue;
            }
            2 => {
                let (from, to) = (u64::from(roll(3)), u64::from(roll(3)));
                let got = store.consumer_advance("one", from, to).await.expect("an answer");
                (Said::Guarded(vec![model.consumer_advance("one", from, to)]), Said::Guarded(vec![got]))
            }
            _ => {
                let commit = random_commit(&model, id, no, &mut roll);
                let wanted = said(model.commit(&commit));
                (wanted, said(store.commit(commit).await))
            }
        };
        assert_eq!(got, wanted, "call {call}");
        compare(store, &model, id).await;
        answers.push(wanted);
    }
    let refused = Committed::Refused(Refusal::Slot);
    let committed = [Committed::Done, Committed::Stale, refused].map(Said::Committed);
    let is_full = |said: &Said| matches!(said, Said::Committed(Committed::Refused(Refusal::Group { .. })));
    assert!(answers.iter().any(is_full), "the sequence reached a group that is full");
    for kind in committed.into_iter().chain([Said::Contract]) {
        assert!(answers.contains(&kind), "the sequence reached {kind:?}");
    }
    for kind in [Guarded::Updated, Guarded::Stale, Guarded::Missing] {
        let reached = |said: &Said| matches!(said, Said::Guarded(each) if each.contains(&kind));
        assert!(answers.iter().any(reached), "the sequence reached {kind:?}");
    }
    let events = store.events_after(0, 10_000).await.expect("events");
    assert_eq!(events, model.events());
}

/// A commit that is often right and often not.
fn random_commit(model: &Model, id: FlowId, no: u32, roll: &mut impl FnMut(u32) -> u32) -> Commit {
    let Some(flow) = model.flow(id) else {
        let mut commit = create(id);
        // A second creation has no gap in its steps either.
        commit.decision.changes.truncate(2);
        return if roll(4) == 0 { launch(id, 0, 0) } else { commit };
    };
    let version = flow.head.version;
    let known = u32::try_from(flow.steps.len()).expect("a small number");
    // Steps are appended without gaps: the engine's own promise, which no store checks.
    let no = no.min(known);
    let expected = if roll(6) == 0 { version.saturating_sub(1) } else { version };
    let mut commit = match roll(9) {
        0 => create(id),
        1 | 2 => launch(id, expected, no),
        3 => {
            let over = step(no, StepState::Finished { outcome: StepOutcome::Succeeded });
            let mut commit = carry_on(id, expected, vec![Change::Step(over), Change::Run(delivered(id, no))]);
            commit.decision.releases = vec![slot(id, no)];
            commit
        }
        4 => {
            let mut commit = carry_on(id, expected, vec![Change::Run(pending(id, no))]);
            commit.decision.effects.push(start_run(id, roll(STEPS)));
            commit
        }
        5 => {
            let event = if roll(2) == 0 { WaitEvent::FlowFinished } else { WaitEvent::AgentRunCompleted };
            carry_on(id, expected, vec![Change::Step(step(no, waiting_for(event)))])
        }
        6 => {
            let answer = [Answer::Approved, Answer::Denied, Answer::Withdrawn][roll(3) as usize];
            let request = if roll(2) == 0 { resolved(id, no, 50, "bob", answer) } else { open(id, no, 40) };
            carry_on(id, expected, vec![Change::Request(request)])
        }
        7 => {
            let mut commit = carry_on(id, expected, Vec::new());
            commit.decision.releases = vec![place(id, Some(no), 1)];
            commit
        }
        _ => carry_on(id, expected, Vec::new()),
    };
    if roll(4) == 0 {
        commit.decision.claims.push(place(id, if roll(3) == 0 { None } else { Some(no) }, 1 + roll(3)));
    }
    if roll(5) == 0 {
        commit.decision.claims.push(slot(id, roll(STEPS)));
    }
    if roll(40) == 0 && commit.create.is_none() {
        commit.decision.changes.pop();
        commit.decision.changes.push(Change::Head(finished(expected + 1)));
    } else if roll(3) == 0
        && let Some(Change::Head(head)) = commit.decision.changes.last_mut()
    {
        head.wake_at = Some(at(i64::from(roll(9))));
        if roll(3) == 0 {
            head.state = queued(1).state;
        }
    }
    if roll(8) == 0 {
        let mut other = start_run(id, no);
        other.id = effect_id(id, "again");
        commit.decision.effects.push(other);
    }
    commit.slots = 3;
    commit
}

async fn compare(store: &dyn Store, model: &Model, id: FlowId) {
    assert_eq!(store.flow_load(id).await.expect("read"), model.flow_load(id));
    assert_eq!(store.effects_pending(id).await.expect("read"), model.effects_pending(id));
    assert_eq!(store.flows_unfinished(None, 9).await.expect("read"), model.flows_unfinished(None, 9));
    assert_eq!(store.flows_due(at(4), None, 9).await.expect("read"), model.flows_due(at(4), None, 9));
    assert_eq!(store.flows_with_live_runs(None, 2).await.expect("read"), model.flows_with_live_runs(None, 2));
    assert_eq!(store.flows_with_effects(None, 2).await.expect("read"), model.flows_with_effects(None, 2));
    for event in WaitEvent::ALL {
        assert_eq!(store.flows_waiting_for(*event).await.expect("read"), model.flows_waiting_for(*event));
    }
    assert_eq!(store.consumer_cursor("one").await.expect("read"), model.consumer_cursor("one"));
    for kept in model.runs() {
        assert!(!matches!(kept.run.state, RunState::Running { .. }), "the sequence makes no such run");
    }
}
