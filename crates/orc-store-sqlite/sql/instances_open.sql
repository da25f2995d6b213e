SELECT id, pid, command, began_at FROM instances WHERE ended_at IS NULL ORDER BY id
