SELECT requests.id FROM requests
WHERE requests.resolved_at IS NULL
    AND EXISTS (SELECT 1 FROM flows WHERE flows.id = requests.flow AND flows.finished_at IS NOT NULL)
