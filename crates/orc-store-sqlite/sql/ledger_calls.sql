SELECT
    c.call,
    c.at,
    c.micros,
    c.tokens,
    a.data,
    e.kind,
    e.at AS ended_at,
    e.micros AS used_micros,
    e.input,
    e.cache_read,
    e.cache_write,
    e.cache_write_long,
    e.output,
    e.reasoning,
    e.server_tools,
    e.status,
    e.message
FROM ledger_calls AS c
JOIN ledger_accounts AS a ON a.id = c.account
LEFT JOIN ledger_ends AS e ON e.call = c.call
WHERE c.call < $9
    AND c.at >= $10
    AND c.at < $11
    AND (CAST($1 AS TEXT) IS NULL OR a.agent = $1)
    AND (CAST($2 AS TEXT) IS NULL OR a.model = $2)
    AND (CAST($3 AS TEXT) IS NULL OR a.pipeline = $3)
    AND (CAST($4 AS TEXT) IS NULL OR a.ticket = $4)
    AND (CAST($5 AS BIGINT) IS NULL OR c.day = $5)
    AND (CAST($6 AS TEXT) IS NULL OR a.flow = $6)
    AND (CAST($7 AS TEXT) IS NULL OR a.run = $7)
    AND (CAST($8 AS TEXT) IS NULL OR a.provider = $8)
ORDER BY c.call DESC LIMIT $12
