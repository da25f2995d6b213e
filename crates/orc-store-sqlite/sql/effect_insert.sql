INSERT INTO effects (flow, position, id, data)
SELECT
    CAST($1 AS TEXT),
    (SELECT COALESCE(max(position), 0) + 1 FROM effects WHERE flow = $1),
    CAST($2 AS TEXT),
    CAST($3 AS TEXT)
