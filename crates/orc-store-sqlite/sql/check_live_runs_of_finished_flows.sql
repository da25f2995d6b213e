SELECT runs.id FROM runs
WHERE runs.finished_at IS NULL
    AND EXISTS (SELECT 1 FROM flows WHERE flows.id = runs.flow AND flows.finished_at IS NOT NULL)
