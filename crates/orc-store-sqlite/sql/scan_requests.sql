SELECT id, opened_at, data FROM requests
