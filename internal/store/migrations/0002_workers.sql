-- Secrets are kept as their SHA-256 alone, in hex.

-- One row per enrolled worker; its id is its name. token_hash is empty while
-- the worker has to enroll again. inventory and types are what it last said of
-- itself, so that runs can name it while it is away.
CREATE TABLE workers (
    name               TEXT    PRIMARY KEY,
    token_hash         TEXT    NOT NULL,
    draining           INTEGER NOT NULL DEFAULT 0,
    machine_id         TEXT    NOT NULL DEFAULT '',
    version            TEXT    NOT NULL DEFAULT '',
    platform           TEXT    NOT NULL DEFAULT '',
    fingerprint_digest TEXT    NOT NULL DEFAULT '',
    inventory          TEXT,
    created_at         INTEGER NOT NULL,
    last_seen          INTEGER
) WITHOUT ROWID;
CREATE UNIQUE INDEX workers_by_token ON workers (token_hash) WHERE token_hash <> '';

-- One-time tokens. worker is empty, or the one worker that the token enrolls
-- again.
CREATE TABLE worker_enrollments (
    token_hash TEXT    PRIMARY KEY,
    worker     TEXT    NOT NULL,
    created_by TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER,
    used_for   TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX worker_enrollments_by_expiry ON worker_enrollments (expires_at);

CREATE TABLE tokens (
    name       TEXT    PRIMARY KEY,
    token_hash TEXT    NOT NULL UNIQUE,
    role       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    last_used  INTEGER
) WITHOUT ROWID;

-- Content hashes of files that runs use; good as long as size and mtime are.
CREATE TABLE file_hashes (
    path   TEXT    PRIMARY KEY,
    size   INTEGER NOT NULL,
    mtime  INTEGER NOT NULL,
    sha256 TEXT    NOT NULL
) WITHOUT ROWID;
