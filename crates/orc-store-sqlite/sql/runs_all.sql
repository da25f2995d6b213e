SELECT id, claimed_by, started_at, process, data FROM runs
WHERE position < $1
ORDER BY position DESC LIMIT $2
