SELECT c.call FROM ledger_calls AS c
LEFT JOIN ledger_ends AS e ON e.call = c.call
LEFT JOIN ledger_open AS o ON o.call = c.call
WHERE (e.call IS NULL) = (o.call IS NULL)
