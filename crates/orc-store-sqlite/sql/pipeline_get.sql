SELECT body, source FROM pipelines WHERE hash = $1
