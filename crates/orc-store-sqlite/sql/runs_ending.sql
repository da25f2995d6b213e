SELECT id FROM runs WHERE substr(id, 25) = $1 AND id LIKE $2 ORDER BY id DESC LIMIT $3
