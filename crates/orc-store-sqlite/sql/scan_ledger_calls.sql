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
