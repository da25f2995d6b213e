UPDATE counters SET value = value + $2 WHERE name = $1
