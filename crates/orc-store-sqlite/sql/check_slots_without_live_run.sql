SELECT slots.run FROM slots
WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = slots.run AND runs.finished_at IS NULL)
