SELECT o.call FROM ledger_open AS o JOIN instances AS i ON i.id = o.instance
WHERE i.ended_at IS NOT NULL
