SELECT call FROM ledger_calls WHERE call = $1
