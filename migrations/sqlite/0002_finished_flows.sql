-- The last flows of one pipeline, for estimates of the next one.
CREATE INDEX flows_by_name ON flows (name, id) WHERE finished_at IS NOT NULL;
-- What ended longest ago, for removing it.
CREATE INDEX flows_by_end ON flows (finished_at, id) WHERE finished_at IS NOT NULL;
