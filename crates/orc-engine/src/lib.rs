//! decide: flows, steps, runs and recovery, as pure functions.
