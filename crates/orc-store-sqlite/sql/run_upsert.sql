INSERT INTO runs (id, flow, path, attempt, agent, started_at, process, data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET
    started_at = COALESCE(runs.started_at, excluded.started_at),
    process = COALESCE(excluded.process, runs.process),
    data = excluded.data
WHERE runs.finished_at IS NULL AND runs.flow = excluded.flow
