SELECT hash, body FROM pipelines
