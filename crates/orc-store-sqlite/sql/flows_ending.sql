SELECT id FROM flows WHERE substr(id, 26) = $1 AND id LIKE $2 ORDER BY id DESC LIMIT $3
