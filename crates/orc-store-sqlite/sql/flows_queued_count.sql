SELECT count(*) FROM flows WHERE queued_at IS NOT NULL
