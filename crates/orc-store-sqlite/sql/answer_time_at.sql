SELECT answer_time FROM requests
WHERE answered_by = $1 AND answer_time IS NOT NULL
ORDER BY answer_time LIMIT 1 OFFSET $2
