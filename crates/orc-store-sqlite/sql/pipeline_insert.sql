INSERT INTO pipelines (hash, name, body, source) VALUES ($1, $2, $3, $4)
ON CONFLICT (hash) DO NOTHING
