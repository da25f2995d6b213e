SELECT id, opened_at, data FROM requests
WHERE resolved_at IS NOT NULL
ORDER BY resolved_at DESC, id DESC LIMIT $1
