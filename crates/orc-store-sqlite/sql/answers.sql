WITH answers AS (
    SELECT
        answered_by,
        answer,
        answer_time,
        row_number() OVER (PARTITION BY answered_by ORDER BY answer_time) AS place,
        count(*) OVER (PARTITION BY answered_by) AS total
    FROM requests
    WHERE answer_time IS NOT NULL
)

SELECT
    answered_by,
    count(CASE WHEN answer = 'approved' THEN 1 END) AS approved,
    count(CASE WHEN answer = 'denied' THEN 1 END) AS denied,
    max(CASE WHEN place = (total + 1) / 2 THEN answer_time END) AS median
FROM answers
GROUP BY answered_by
