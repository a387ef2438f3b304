-- Times are microseconds since 1970, UTC. Documents are JSON text.

CREATE TABLE hooks (
    name       TEXT    NOT NULL PRIMARY KEY,
    -- On what it is called, and what is called; where its token is, never the token.
    spec       TEXT    NOT NULL,
    created_by TEXT    NOT NULL,
    created_at INTEGER NOT NULL
);
