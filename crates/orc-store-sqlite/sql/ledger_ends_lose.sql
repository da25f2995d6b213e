INSERT INTO ledger_ends (
    call, kind, at, micros, input, cache_read, cache_write, cache_write_long, output, reasoning, server_tools,
    lost_tokens, status, message
)
SELECT c.call, 'lost', CAST($2 AS BIGINT), c.micros, 0, 0, 0, 0, 0, 0, 0, c.tokens, 0, NULL
FROM ledger_open AS o JOIN ledger_calls AS c ON c.call = o.call
WHERE o.instance = $1
