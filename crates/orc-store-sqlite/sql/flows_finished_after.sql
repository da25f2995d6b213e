SELECT id, spec, head FROM flows WHERE finished_at IS NOT NULL AND id > $1 ORDER BY id LIMIT $2
