INSERT INTO steps (flow, no, path, status, waits_for, data) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (flow, no) DO UPDATE SET status = excluded.status, waits_for = excluded.waits_for, data = excluded.data
WHERE steps.path = excluded.path
