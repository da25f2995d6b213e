//! Flows and steps.
