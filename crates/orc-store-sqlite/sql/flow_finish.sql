UPDATE flows
SET head = $3, version = $4, wake_at = $5, queued_at = NULL, updated_at = $6, finished_at = $7
WHERE id = $1 AND version = $2 AND finished_at IS NULL
