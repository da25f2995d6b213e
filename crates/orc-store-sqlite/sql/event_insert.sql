INSERT INTO events (position, flow, workspace, kind, v, at, actor, data)
SELECT
    (SELECT COALESCE(max(position), 0) + 1 FROM events),
    flows.id,
    flows.workspace,
    CAST($2 AS TEXT),
    CAST($3 AS BIGINT),
    CAST($4 AS BIGINT),
    CAST($5 AS TEXT),
    CAST($6 AS TEXT)
FROM flows
WHERE flows.id = $1
