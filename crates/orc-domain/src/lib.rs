//! The vocabulary of the orchestrator: everything the rest of the code talks about, and nothing that acts.
//!
//! Ring 0. Types here never see a clock, a random source, a file, the environment or the network; whatever they need of
//! those arrives as an argument. A status is an enum that carries exactly the data valid in that state.
//!
//! Where to read: [`input`] is all the orchestrator can hear, [`effect`] all it can do, [`flow`] what it remembers in
//! between, [`graph`] what it was asked to do. [`event`] is what others may know of it afterwards.

pub mod action;
pub mod agent;
pub mod budget;
pub mod claim;
pub mod confine;
pub mod effect;
pub mod event;
pub mod expr;
pub mod flow;
pub mod graph;
pub mod hold;
pub mod identity;
pub mod ids;
pub mod input;
pub mod json_schema;
pub mod ledger;
pub mod liveness;
pub mod meter;
pub mod model;
pub mod money;
pub mod outputs;
pub mod path;
pub mod permission;
pub mod price;
pub mod principal;
pub mod profile;
pub mod request;
pub mod run;
pub mod script;
pub mod suggest;
pub mod time;
pub mod transition;
pub mod tree;
pub mod value;
pub mod wait;
