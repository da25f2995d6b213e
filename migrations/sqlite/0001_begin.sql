-- Ids are their printed text, times are milliseconds since 1970, structured values are JSON in TEXT.
-- Columns beside a JSON column repeat what keys, guards and orders need; the JSON is what is read back. It stands last, so
-- that what only counts or orders rows need not read over it.

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
    version INTEGER NOT NULL,
    wake_at INTEGER,
    queued_at INTEGER,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER,
    spec TEXT NOT NULL,
    head TEXT NOT NULL
) STRICT;
CREATE INDEX flows_live ON flows (id) WHERE finished_at IS NULL;
CREATE INDEX flows_finished ON flows (id) WHERE finished_at IS NOT NULL;
CREATE INDEX flows_due ON flows (wake_at, id) WHERE finished_at IS NULL;
CREATE INDEX flows_queued ON flows (id) WHERE queued_at IS NOT NULL;
-- Ids are told apart by their last six characters; people name them by their end.
CREATE INDEX flows_ending ON flows (substr(id, 26));

CREATE TABLE steps (
    flow TEXT NOT NULL REFERENCES flows (id),
    no INTEGER NOT NULL,
    path TEXT NOT NULL,
    status TEXT NOT NULL,
    waits_for TEXT,
    data TEXT NOT NULL,
    PRIMARY KEY (flow, no),
    UNIQUE (flow, path)
) STRICT;
CREATE INDEX steps_waiting ON steps (waits_for, flow) WHERE waits_for IS NOT NULL;

-- `position` is the order of creation; ids of one flow have no order in time.
CREATE TABLE runs (
    position INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    flow TEXT NOT NULL REFERENCES flows (id),
    path TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    agent TEXT,
    started_at INTEGER,
    finished_at INTEGER,
    claimed_by TEXT,
    process TEXT,
    data TEXT NOT NULL,
    UNIQUE (flow, path, attempt)
) STRICT;
CREATE INDEX runs_live ON runs (flow) WHERE finished_at IS NULL;
CREATE INDEX runs_of_agent ON runs (agent, position) WHERE agent IS NOT NULL;
CREATE INDEX runs_ending ON runs (substr(id, 25));

-- What waits for an answer, and what was answered. `answer_time` is that of an answer, in milliseconds.
CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    flow TEXT NOT NULL REFERENCES flows (id),
    opened_at INTEGER NOT NULL,
    resolved_at INTEGER,
    answer TEXT,
    answered_by TEXT,
    answer_time INTEGER,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX requests_open ON requests (opened_at, id) WHERE resolved_at IS NULL;
CREATE INDEX requests_of_flow ON requests (flow);
CREATE INDEX requests_resolved ON requests (resolved_at, id) WHERE resolved_at IS NOT NULL;
CREATE INDEX requests_answers ON requests (answered_by, answer_time, answer) WHERE answer_time IS NOT NULL;
CREATE INDEX requests_ending ON requests (substr(id, 25));

-- Runs that hold one of the instance's counted slots.
CREATE TABLE slots (
    run TEXT PRIMARY KEY REFERENCES runs (id)
) STRICT, WITHOUT ROWID;

-- Places in concurrency groups that are taken; `step` is -1 where the flow as a whole has one.
CREATE TABLE places (
    name TEXT NOT NULL,
    flow TEXT NOT NULL REFERENCES flows (id),
    step INTEGER NOT NULL,
    PRIMARY KEY (name, flow, step)
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
