INSERT INTO steps (flow, no, path, status, data) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (flow, no) DO UPDATE SET status = excluded.status, data = excluded.data
WHERE steps.path = excluded.path
