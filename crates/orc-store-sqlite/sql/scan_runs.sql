SELECT id, claimed_by, started_at, process, data FROM runs
