DELETE FROM effects WHERE id = $1
