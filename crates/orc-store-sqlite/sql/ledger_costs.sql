-- Whole days from the sums, days at an edge call by call.
SELECT
    CASE WHEN $1 = 1 THEN a.agent END AS agent,
    CASE WHEN $2 = 1 THEN a.model END AS model,
    CASE WHEN $3 = 1 THEN a.pipeline END AS pipeline,
    CASE WHEN $4 = 1 THEN a.ticket END AS ticket,
    CASE WHEN $5 = 1 THEN s.day END AS day,
    CASE WHEN $6 = 1 THEN a.flow END AS flow,
    CASE WHEN $7 = 1 THEN a.run END AS run,
    CASE WHEN $8 = 1 THEN a.provider END AS provider,
    sum(s.calls) AS calls,
    sum(s.input) AS input,
    sum(s.cache_read) AS cache_read,
    sum(s.cache_write) AS cache_write,
    sum(s.cache_write_long) AS cache_write_long,
    sum(s.output) AS output,
    sum(s.reasoning) AS reasoning,
    sum(s.server_tools) AS server_tools,
    sum(s.lost_tokens) AS lost_tokens,
    sum(s.micros) AS micros,
    sum(s.unsure) AS unsure,
    sum(CASE WHEN a.prices IS NULL THEN s.calls ELSE 0 END) AS unpriced,
    sum(s.reserved) AS reserved,
    sum(s.in_flight) AS in_flight
FROM (
    SELECT day, account, calls, input, cache_read, cache_write, cache_write_long, output, reasoning, server_tools,
        lost_tokens, micros, unsure, reserved, in_flight
    FROM ledger_sums WHERE day >= $17 AND day < $18
    UNION ALL
    SELECT f.day, f.account, f.calls, f.input, f.cache_read, f.cache_write, f.cache_write_long, f.output, f.reasoning,
        f.server_tools, f.lost_tokens, f.micros, f.unsure, f.reserved, f.in_flight
    FROM ledger_sums AS d JOIN ledger_folded AS f ON f.account = d.account AND f.day = d.day
    WHERE d.day IN ($19, $20) AND f.at >= $21 AND f.at < $22
) AS s JOIN ledger_accounts AS a ON a.id = s.account
WHERE (CAST($9 AS TEXT) IS NULL OR a.agent = $9)
    AND (CAST($10 AS TEXT) IS NULL OR a.model = $10)
    AND (CAST($11 AS TEXT) IS NULL OR a.pipeline = $11)
    AND (CAST($12 AS TEXT) IS NULL OR a.ticket = $12)
    AND (CAST($13 AS BIGINT) IS NULL OR s.day = $13)
    AND (CAST($14 AS TEXT) IS NULL OR a.flow = $14)
    AND (CAST($15 AS TEXT) IS NULL OR a.run = $15)
    AND (CAST($16 AS TEXT) IS NULL OR a.provider = $16)
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
ORDER BY
    micros DESC, agent NULLS FIRST, model NULLS FIRST, pipeline NULLS FIRST, ticket NULLS FIRST, day NULLS FIRST,
    flow NULLS FIRST, run NULLS FIRST, provider NULLS FIRST
LIMIT $23
