-- What calls of models used and cost. Flows are removed after a while and this is not, so nothing here refers to one.

-- What calls have in common: who they are for, whose walls are above them, by which provider, model and prices, in which
-- instance. Never changed. `id` is a hash of `data`, which is what is read back.
CREATE TABLE ledger_accounts (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    provider TEXT NOT NULL,
    pipeline TEXT,
    ticket TEXT,
    flow TEXT,
    run TEXT,
    prices TEXT,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Below whose walls the calls of an account count: runs, flows, `gateway`. Never changed.
CREATE TABLE ledger_owners (
    owner TEXT NOT NULL,
    account TEXT NOT NULL REFERENCES ledger_accounts (id),
    PRIMARY KEY (owner, account)
) STRICT, WITHOUT ROWID;

-- The first entry of a call: what was set aside before it left. Never changed. `day` is that of `at`, in days since 1970.
CREATE TABLE ledger_calls (
    call TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES ledger_accounts (id),
    day INTEGER NOT NULL,
    at INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_calls_of_account ON ledger_calls (account, call);

-- The second and last entry of a call: what it used. Never changed. Money is in millionths of a dollar.
CREATE TABLE ledger_ends (
    call TEXT PRIMARY KEY REFERENCES ledger_calls (call),
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cache_write_long INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    server_tools INTEGER NOT NULL,
    lost_tokens INTEGER NOT NULL,
    status INTEGER NOT NULL,
    message TEXT
) STRICT, WITHOUT ROWID;

-- Calls in flight: those with a first entry only.
CREATE TABLE ledger_open (
    call TEXT PRIMARY KEY REFERENCES ledger_calls (call),
    instance TEXT NOT NULL REFERENCES instances (id)
) STRICT, WITHOUT ROWID;

-- What the entries add up to, by account and day; written with them. `ledger_folded` is what it must say.
CREATE TABLE ledger_sums (
    day INTEGER NOT NULL,
    account TEXT NOT NULL REFERENCES ledger_accounts (id),
    calls INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cache_write_long INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    server_tools INTEGER NOT NULL,
    lost_tokens INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    unsure INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    in_flight INTEGER NOT NULL,
    PRIMARY KEY (day, account)
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_sums_of_account ON ledger_sums (account);

-- Each call as it counts in a sum.
CREATE VIEW ledger_folded AS
SELECT
    c.day,
    c.account,
    c.at,
    CASE WHEN e.call IS NULL THEN 0 ELSE 1 END AS calls,
    COALESCE(e.input, 0) AS input,
    COALESCE(e.cache_read, 0) AS cache_read,
    COALESCE(e.cache_write, 0) AS cache_write,
    COALESCE(e.cache_write_long, 0) AS cache_write_long,
    COALESCE(e.output, 0) AS output,
    COALESCE(e.reasoning, 0) AS reasoning,
    COALESCE(e.server_tools, 0) AS server_tools,
    COALESCE(e.lost_tokens, 0) AS lost_tokens,
    COALESCE(e.micros, 0) AS micros,
    CASE WHEN e.kind <> 'settled' THEN e.micros ELSE 0 END AS unsure,
    CASE WHEN e.call IS NULL THEN c.micros ELSE 0 END AS reserved,
    CASE WHEN e.call IS NULL THEN 1 ELSE 0 END AS in_flight
FROM ledger_calls AS c LEFT JOIN ledger_ends AS e ON e.call = c.call;

CREATE TRIGGER ledger_accounts_stay BEFORE UPDATE ON ledger_accounts BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
CREATE TRIGGER ledger_accounts_kept BEFORE DELETE ON ledger_accounts BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
CREATE TRIGGER ledger_owners_stay BEFORE UPDATE ON ledger_owners BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
CREATE TRIGGER ledger_owners_kept BEFORE DELETE ON ledger_owners BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
CREATE TRIGGER ledger_calls_stay BEFORE UPDATE ON ledger_calls BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
CREATE TRIGGER ledger_calls_kept BEFORE DELETE ON ledger_calls BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
CREATE TRIGGER ledger_ends_stay BEFORE UPDATE ON ledger_ends BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
CREATE TRIGGER ledger_ends_kept BEFORE DELETE ON ledger_ends BEGIN SELECT RAISE(ABORT, 'the ledger is only added to'); END;
