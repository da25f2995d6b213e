SELECT id FROM flows WHERE finished_at IS NULL AND id > $1 ORDER BY id LIMIT $2
