SELECT count(*) FROM requests WHERE resolved_at IS NULL
