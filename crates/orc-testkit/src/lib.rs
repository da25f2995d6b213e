//! Model store, scripted effects, simulator, conformance suites.

pub mod conformance;
pub mod fixture;
pub mod model;
pub mod sim;
