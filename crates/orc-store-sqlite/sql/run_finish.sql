INSERT INTO runs (id, flow, path, attempt, agent, finished_at, data)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (id) DO UPDATE SET finished_at = excluded.finished_at, data = excluded.data
WHERE runs.finished_at IS NULL AND runs.flow = excluded.flow
