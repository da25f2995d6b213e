//! Model store, scripted effects, simulator, conformance suites.
