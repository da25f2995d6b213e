SELECT count(*) FROM slots
