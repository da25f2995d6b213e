SELECT id, spec, head FROM flows
WHERE finished_at < $1 AND (finished_at, id) > ($2, $3)
ORDER BY finished_at, id LIMIT $4
