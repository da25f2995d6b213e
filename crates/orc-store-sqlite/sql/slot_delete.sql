DELETE FROM slots WHERE run = $1
