-- Times are microseconds since 1970, UTC. Documents are JSON text.

CREATE TABLE exec_runs (
    -- Order of submission. Never used twice: the logs refer to it.
    seq                 INTEGER PRIMARY KEY AUTOINCREMENT,
    id                  TEXT    NOT NULL UNIQUE,
    name                TEXT    NOT NULL,
    key                 TEXT    NOT NULL,
    status              TEXT    NOT NULL,
    error               TEXT    NOT NULL,
    end_class           TEXT    NOT NULL,
    queue_key           TEXT    NOT NULL,
    created_at          INTEGER NOT NULL,
    started_at          INTEGER,
    finished_at         INTEGER,
    attempt             INTEGER NOT NULL,
    user                TEXT    NOT NULL,
    git_commit          TEXT    NOT NULL,
    git_dirty           INTEGER,
    plugin_pins         TEXT,
    sweep_id            TEXT    NOT NULL,
    sweep_variant       INTEGER,
    rerun_of            TEXT    NOT NULL,
    worker_id           TEXT    NOT NULL,
    devices             TEXT,
    fingerprint_digest  TEXT    NOT NULL,
    cancel_requested_at INTEGER,
    -- Set only where a change covered spool records without storing a row in
    -- a log; else the logs' own seq says more.
    recorded_attempt    INTEGER NOT NULL DEFAULT 0,
    recorded_seq        INTEGER NOT NULL DEFAULT 0,
    -- Last finite value of each series; written when the log closes.
    final_metrics       TEXT,
    options             TEXT    NOT NULL,
    execution_facts     TEXT
);

CREATE UNIQUE INDEX exec_runs_by_key ON exec_runs (key) WHERE key <> '';
CREATE INDEX exec_runs_by_time ON exec_runs (created_at, seq);
CREATE INDEX exec_runs_by_status ON exec_runs (status, created_at, seq);
CREATE INDEX exec_runs_active ON exec_runs (seq)
    WHERE status IN ('queued', 'running', 'disconnected');

-- Apart from the rows, so that reading a page of runs doesn't touch graphs.
CREATE TABLE exec_run_graphs (
    run   INTEGER PRIMARY KEY REFERENCES exec_runs (seq) ON DELETE CASCADE,
    graph TEXT NOT NULL
);

CREATE TABLE exec_run_tags (
    tag TEXT    NOT NULL,
    run INTEGER NOT NULL REFERENCES exec_runs (seq) ON DELETE CASCADE,
    PRIMARY KEY (tag, run)
) WITHOUT ROWID;
CREATE INDEX exec_run_tags_by_run ON exec_run_tags (run);

-- The logs of all runs, in order of commit. No index and no foreign key: each
-- would cost every row a second tree. seq is the last spool record, of the
-- attempt, that was stored together with the row.
CREATE TABLE exec_run_events (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL,
    pos     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    ts      INTEGER NOT NULL,
    type    TEXT    NOT NULL,
    payload TEXT    NOT NULL
);

CREATE TABLE exec_run_metrics (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL,
    pos     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    ts      INTEGER NOT NULL,
    points  TEXT    NOT NULL
);

-- Where a run's log rows are: one row per 256 of them. rowids holds n ids as
-- varints, each the distance to the one before.
CREATE TABLE exec_run_event_chunks (
    run       INTEGER NOT NULL,
    first_pos INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    rowids    BLOB    NOT NULL,
    PRIMARY KEY (run, first_pos)
) WITHOUT ROWID;

-- finals is the last finite value of each series up to here.
CREATE TABLE exec_run_metric_chunks (
    run       INTEGER NOT NULL,
    first_pos INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    rowids    BLOB    NOT NULL,
    finals    TEXT    NOT NULL,
    PRIMARY KEY (run, first_pos)
) WITHOUT ROWID;

-- Rows of a log that stand in no chunk yet all have an id above open_after.
CREATE TABLE exec_log_marks (
    log        TEXT PRIMARY KEY,
    open_after INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO exec_log_marks (log, open_after) VALUES ('events', 0), ('metrics', 0);

CREATE TABLE exec_run_artifacts (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    run        INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    meta       TEXT,
    node_id    TEXT    NOT NULL,
    backend    TEXT    NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX exec_run_artifacts_by_run ON exec_run_artifacts (run, id);

-- Runs whose row is gone and whose log rows are being removed in slices.
CREATE TABLE exec_run_deletes (
    run INTEGER PRIMARY KEY
);
