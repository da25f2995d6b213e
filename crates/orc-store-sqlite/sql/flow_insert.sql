INSERT INTO flows (id, workspace, pipeline, name, version, wake_at, queued_at, updated_at, finished_at, spec, head)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (id) DO NOTHING
