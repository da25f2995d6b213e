SELECT id, claimed_by, started_at, process, data FROM runs
WHERE flow = $1 AND finished_at IS NULL
ORDER BY id
