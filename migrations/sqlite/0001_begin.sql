-- Ids are their printed text, times are milliseconds since 1970, structured values are JSON in TEXT.
-- Columns beside a JSON column repeat what keys, guards and orders need; the JSON is what is read back.

-- Definitions that flows pinned; never changed.
CREATE TABLE pipelines (
    hash TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    source TEXT NOT NULL
) STRICT;

CREATE TABLE flows (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    pipeline TEXT NOT NULL REFERENCES pipelines (hash),
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    head TEXT NOT NULL,
    version INTEGER NOT NULL,
    wake_at INTEGER,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER
) STRICT;
CREATE INDEX flows_live ON flows (id) WHERE finished_at IS NULL;
CREATE INDEX flows_finished ON flows (id) WHERE finished_at IS NOT NULL;

CREATE TABLE steps (
    flow TEXT NOT NULL REFERENCES flows (id),
    no INTEGER NOT NULL,
    path TEXT NOT NULL,
    status TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (flow, no),
    UNIQUE (flow, path)
) STRICT;

-- `position` is the order of creation; ids of one flow have no order in time.
CREATE TABLE runs (
    position INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    flow TEXT NOT NULL REFERENCES flows (id),
    path TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    claimed_by TEXT,
    process TEXT,
    data TEXT NOT NULL,
    UNIQUE (flow, path, attempt)
) STRICT;
CREATE INDEX runs_live ON runs (flow) WHERE finished_at IS NULL;

-- Runs that hold one of the instance's counted slots.
CREATE TABLE slots (
    run TEXT PRIMARY KEY REFERENCES runs (id)
) STRICT, WITHOUT ROWID;

-- Positions have no gap; only the newest rows are appended, only the oldest may ever be removed.
CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    flow TEXT NOT NULL,
    workspace TEXT NOT NULL,
    kind TEXT NOT NULL,
    v INTEGER NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX events_flow ON events (flow, position);

-- The outbox: what is here is not delivered.
CREATE TABLE effects (
    flow TEXT NOT NULL REFERENCES flows (id),
    position INTEGER NOT NULL,
    id TEXT NOT NULL UNIQUE,
    data TEXT NOT NULL,
    PRIMARY KEY (flow, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE instances (
    id TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    command TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX instances_open ON instances (id) WHERE ended_at IS NULL;

CREATE TABLE consumers (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT;

-- Counts that would take too long to count.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;
INSERT INTO counters (name, value) VALUES ('flows_finished', 0);
