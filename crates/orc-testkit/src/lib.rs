//! Model store, scripted effects, simulator, conformance suites.

pub mod model;
