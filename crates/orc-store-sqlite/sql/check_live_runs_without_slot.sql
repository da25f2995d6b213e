SELECT runs.id FROM runs
WHERE runs.finished_at IS NULL AND NOT EXISTS (SELECT 1 FROM slots WHERE slots.run = runs.id)
