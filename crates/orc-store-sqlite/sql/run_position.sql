SELECT position FROM runs WHERE id = $1
