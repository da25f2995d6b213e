SELECT count(*) FROM runs WHERE finished_at IS NULL
