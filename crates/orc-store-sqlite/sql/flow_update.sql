UPDATE flows
SET head = $3, version = $4, wake_at = $5, updated_at = $6, queued_at = $7
WHERE id = $1 AND version = $2 AND finished_at IS NULL
