SELECT id, opened_at, data FROM requests WHERE flow = $1 AND resolved_at IS NULL
