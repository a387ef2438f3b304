-- Times are microseconds since 1970, UTC. Documents are JSON text.

CREATE TABLE sweeps (
    seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
    id                  TEXT    NOT NULL UNIQUE,
    key                 TEXT    NOT NULL,
    name                TEXT    NOT NULL,
    user                TEXT    NOT NULL,
    created_at          INTEGER NOT NULL,
    cancel_requested_at INTEGER,
    -- What was asked and what it means: method, objective, domains, variants.
    plan                TEXT    NOT NULL,
    -- What each variant is made of, without the values of secrets.
    base                TEXT    NOT NULL,
    -- How variants ended, by their index; it outlives their runs.
    results             TEXT    NOT NULL
);
CREATE UNIQUE INDEX sweeps_by_key ON sweeps (key) WHERE key <> '';

CREATE INDEX exec_runs_by_sweep ON exec_runs (sweep_id, seq) WHERE sweep_id <> '';

CREATE TABLE studies (
    seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
    id                  TEXT    NOT NULL UNIQUE,
    key                 TEXT    NOT NULL,
    name                TEXT    NOT NULL,
    user                TEXT    NOT NULL,
    created_at          INTEGER NOT NULL,
    -- Set while nothing is left to do; the control plane drives the others.
    finished_at         INTEGER,
    -- Why it was stopped, empty while it wasn't.
    stopped             TEXT    NOT NULL,
    plan                TEXT    NOT NULL,
    base                TEXT    NOT NULL,
    -- Each repetition's attempts in their order.
    attempts            TEXT    NOT NULL
);
CREATE UNIQUE INDEX studies_by_key ON studies (key) WHERE key <> '';
CREATE INDEX studies_unfinished ON studies (seq) WHERE finished_at IS NULL;
