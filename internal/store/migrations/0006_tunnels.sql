-- The ways to workers through ssh. spec is a JSON document without a secret:
-- whom to log in as, and where. What a person typed is in memory alone.
CREATE TABLE tunnels (
    worker     TEXT    PRIMARY KEY,
    spec       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
