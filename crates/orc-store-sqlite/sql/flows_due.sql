SELECT wake_at, id FROM flows
WHERE finished_at IS NULL AND wake_at <= $1 AND (wake_at, id) > ($2, $3)
ORDER BY wake_at, id LIMIT $4
