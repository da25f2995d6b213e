-- The last flows of one pipeline, for estimates of the next one.
CREATE INDEX flows_by_name ON flows (name, id) WHERE finished_at IS NOT NULL;
