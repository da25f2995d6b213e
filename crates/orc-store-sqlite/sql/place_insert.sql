INSERT INTO places (name, flow, step)
SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT)
WHERE (SELECT count(*) FROM places WHERE name = $1) < CAST($4 AS BIGINT)
ON CONFLICT (name, flow, step) DO NOTHING
