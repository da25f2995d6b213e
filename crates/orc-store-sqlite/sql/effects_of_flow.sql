SELECT id, data FROM effects WHERE flow = $1 ORDER BY position
