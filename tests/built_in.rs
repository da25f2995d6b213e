//! The built-in agent through the binary: what it does, what it is told when something goes wrong, how it ends, and what is
//! left when everything dies. Models are scripts, or a provider of the test's own; tools, boxes and git are real.
//!
//! Every question that a model was asked is looked at: a history that a provider would refuse fails the test, whatever it is
//! about.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "built_in/again.rs"]
mod again;
#[path = "built_in/asked.rs"]
mod asked;
#[path = "built_in/deaths.rs"]
mod deaths;
#[path = "built_in/ends.rs"]
mod ends;
#[path = "built_in/faults.rs"]
mod faults;
#[path = "built_in/lasting.rs"]
mod lasting;
#[path = "built_in/models.rs"]
mod models;
#[path = "built_in/plain.rs"]
mod plain;
#[path = "built_in/provider.rs"]
mod provider;
#[path = "built_in/scene.rs"]
mod scene;
mod support;
#[path = "built_in/wide.rs"]
mod wide;
