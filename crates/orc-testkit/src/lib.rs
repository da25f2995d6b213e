//! Model store, scripted effects, simulator, conformance suites.

pub mod conformance;
pub mod model;
