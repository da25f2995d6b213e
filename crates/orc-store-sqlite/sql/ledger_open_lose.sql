DELETE FROM ledger_open WHERE instance = $1
