SELECT id, spec, head FROM flows WHERE id < $1 ORDER BY id DESC LIMIT $2
