SELECT count(*) FROM flows WHERE finished_at IS NULL
