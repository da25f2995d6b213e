SELECT position, flow, workspace, kind, v, at, actor, data FROM events
WHERE position > $1
ORDER BY position LIMIT $2
