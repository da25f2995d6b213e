SELECT position, flow, workspace, kind, v, at, actor, data FROM events
