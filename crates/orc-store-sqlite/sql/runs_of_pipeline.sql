SELECT runs.id, runs.claimed_by, runs.started_at, runs.process, runs.data
FROM (
    SELECT flows.id FROM flows WHERE flows.name = $1 AND flows.finished_at IS NOT NULL ORDER BY flows.id DESC LIMIT $2
) AS latest
INNER JOIN runs ON runs.flow = latest.id
LIMIT $3
