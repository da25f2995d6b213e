DELETE FROM flows WHERE id = $1 AND finished_at < $2
