INSERT INTO requests (id, flow, opened_at, resolved_at, answer, answered_by, answer_time, data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET
    resolved_at = excluded.resolved_at,
    answer = excluded.answer,
    answered_by = excluded.answered_by,
    answer_time = excluded.answer_time + excluded.resolved_at - requests.opened_at,
    data = excluded.data
WHERE requests.resolved_at IS NULL AND requests.flow = excluded.flow
