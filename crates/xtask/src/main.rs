//! Tidy, allowed arrows, generated docs, simulation driver, benchmarks.

fn main() {}
