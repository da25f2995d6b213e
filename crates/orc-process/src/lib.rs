//! Child processes: spawn, limit, kill, prove dead.
