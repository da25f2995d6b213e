SELECT value FROM counters WHERE name = $1
