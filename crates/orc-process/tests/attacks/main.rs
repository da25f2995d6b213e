//! Programs that try to get out of their box. Each attempt is a row of [`files`], [`machine`], [`network`] or [`limits`]; the
//! runner below makes a box for each, proves that what it tried was refused, and that nothing outside changed.
//!
//! All of it is done twice: started by root, when who is inside is a user without anything, and by an ordinary user, who is
//! the same inside and outside, so that nothing but the box keeps the program away. What needs no box to be refused would
//! prove nothing about boxes: attempts that say so must succeed without one.
#![expect(clippy::disallowed_methods, reason = "tests start programs as other users")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attempt;
mod files;
mod identity;
mod limits;
mod machine;
mod network;
mod runner;
mod world;

use attempt::Attempt;

/// At least so many must be tried (issue of the box); a table that lost its rows must not pass.
const LEAST: usize = 60;

fn attempts() -> impl Iterator<Item = &'static Attempt> {
    [files::ATTEMPTS, machine::ATTEMPTS, network::ATTEMPTS, limits::ATTEMPTS].into_iter().flatten()
}

#[test]
fn every_attempt_has_a_name_of_its_own_and_there_are_enough() {
    let names: std::collections::BTreeSet<&str> = attempts().map(|attempt| attempt.name).collect();
    assert_eq!(names.len(), attempts().count());
    assert!(names.len() >= LEAST, "{}", names.len());
}

#[test]
fn an_ordinary_user_who_starts_boxes_is_nobody_in_them() {
    runner::check_as_ordinary_user("an_ordinary_user_who_starts_boxes_is_nobody_in_them", identity::prove);
}

#[test]
fn root_who_starts_boxes_is_nobody_in_them() {
    runner::check_as_root(identity::prove);
}

#[test]
fn what_a_box_refuses_an_ordinary_user_may_do_without_one() {
    runner::check_as_ordinary_user("what_a_box_refuses_an_ordinary_user_may_do_without_one", async |runner| {
        for attempt in attempts().filter(|attempt| attempt.works_outside) {
            runner.try_outside(attempt).await;
        }
    });
}

#[test]
fn every_attempt_is_refused_when_an_ordinary_user_starts_it() {
    runner::check_as_ordinary_user("every_attempt_is_refused_when_an_ordinary_user_starts_it", try_all);
}

#[test]
fn every_attempt_is_refused_when_root_starts_it() {
    runner::check_as_root(try_all);
}

async fn try_all(runner: &mut runner::Runner) {
    for attempt in attempts() {
        runner.try_inside(attempt).await;
    }
}
