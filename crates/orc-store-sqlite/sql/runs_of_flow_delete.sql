DELETE FROM runs WHERE flow = $1
