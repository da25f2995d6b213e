SELECT id, opened_at, data FROM requests WHERE resolved_at IS NULL ORDER BY opened_at, id LIMIT $1
