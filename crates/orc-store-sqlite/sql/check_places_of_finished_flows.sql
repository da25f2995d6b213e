SELECT places.flow FROM places
WHERE EXISTS (SELECT 1 FROM flows WHERE flows.id = places.flow AND flows.finished_at IS NOT NULL)
