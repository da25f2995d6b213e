INSERT INTO effects (id, flow, data) VALUES ($1, $2, $3)
