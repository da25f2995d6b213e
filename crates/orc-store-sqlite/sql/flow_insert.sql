INSERT INTO flows (id, workspace, pipeline, name, spec, head, version, wake_at, queued_at, updated_at, finished_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (id) DO NOTHING
