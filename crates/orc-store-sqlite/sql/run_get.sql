SELECT id, claimed_by, started_at, process, data FROM runs WHERE id = $1
