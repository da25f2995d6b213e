INSERT INTO instances (id, pid, command, began_at) VALUES ($1, $2, $3, $4)
