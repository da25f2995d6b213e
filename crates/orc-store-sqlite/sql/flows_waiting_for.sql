SELECT DISTINCT flow FROM steps WHERE waits_for = $1 ORDER BY flow
