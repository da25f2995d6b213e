SELECT DISTINCT flow FROM runs WHERE finished_at IS NULL AND flow > $1 ORDER BY flow LIMIT $2
