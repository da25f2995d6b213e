DELETE FROM effects WHERE flow = $1
