SELECT
    answered_by,
    count(CASE WHEN answer = 'approved' THEN 1 END) AS approved,
    count(CASE WHEN answer = 'denied' THEN 1 END) AS denied
FROM requests
WHERE answer_time IS NOT NULL
GROUP BY answered_by
