INSERT INTO ledger_open (call, instance)
SELECT CAST($1 AS TEXT), id FROM instances
WHERE id = $2 AND ended_at IS NULL
