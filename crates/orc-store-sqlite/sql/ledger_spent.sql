SELECT
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
FROM ledger_owners AS o
JOIN ledger_sums AS s ON s.account = o.account
JOIN ledger_accounts AS a ON a.id = o.account
WHERE o.owner = $1
GROUP BY o.owner
