DELETE FROM places WHERE name = $1 AND flow = $2 AND step = $3
