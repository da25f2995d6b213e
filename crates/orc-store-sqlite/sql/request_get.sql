SELECT id, opened_at, data FROM requests WHERE id = $1
