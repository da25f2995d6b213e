SELECT position, flow, workspace, kind, v, at, actor, data FROM events
WHERE flow = $1 AND position > $2
ORDER BY position LIMIT $3
