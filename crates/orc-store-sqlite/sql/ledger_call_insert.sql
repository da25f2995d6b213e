INSERT INTO ledger_calls (call, account, day, at, micros, tokens)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (call) DO NOTHING
