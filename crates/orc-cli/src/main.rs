//! The binary `orchestrator`.

fn main() {}
