INSERT INTO ledger_owners (owner, account) VALUES ($1, $2)
ON CONFLICT (owner, account) DO NOTHING
