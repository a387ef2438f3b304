-- Documents of environments, each once, by the SHA-256 of its canonical form.
-- Workers and runs name them by fingerprint_digest.
CREATE TABLE exec_run_fingerprints (
    digest     TEXT    PRIMARY KEY,
    document   TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- What a run's nodes were made of: a JSON record for each source.
CREATE TABLE exec_run_provenance (
    run    INTEGER NOT NULL REFERENCES exec_runs (seq) ON DELETE CASCADE,
    name   TEXT    NOT NULL,
    record TEXT    NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
