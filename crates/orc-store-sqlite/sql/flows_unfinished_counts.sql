SELECT count(*) AS live, count(queued_at) AS queued FROM flows WHERE finished_at IS NULL
