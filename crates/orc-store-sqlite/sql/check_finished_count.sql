SELECT 'flows_finished' FROM counters
WHERE name = 'flows_finished' AND value <> (SELECT count(*) FROM flows WHERE finished_at IS NOT NULL)
