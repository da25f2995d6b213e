SELECT id, claimed_by, started_at, process, data FROM runs
WHERE agent = $1 AND position < $2
ORDER BY position DESC LIMIT $3
