DELETE FROM ledger_open WHERE call = $1
