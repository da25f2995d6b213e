INSERT INTO ledger_ends (
    call, kind, at, micros, input, cache_read, cache_write, cache_write_long, output, reasoning, server_tools,
    lost_tokens, status, message
)
SELECT
    call,
    CAST($2 AS TEXT),
    CAST($3 AS BIGINT),
    CAST($4 AS BIGINT),
    CAST($5 AS BIGINT),
    CAST($6 AS BIGINT),
    CAST($7 AS BIGINT),
    CAST($8 AS BIGINT),
    CAST($9 AS BIGINT),
    CAST($10 AS BIGINT),
    CAST($11 AS BIGINT),
    0,
    CAST($12 AS BIGINT),
    CAST($13 AS TEXT)
FROM ledger_open
WHERE call = $1
