-- What people decided of a device: a JSON document that the store doesn't look
-- into. worker is local for the control plane's own.
CREATE TABLE device_policies (
    worker TEXT NOT NULL,
    device TEXT NOT NULL,
    policy TEXT NOT NULL,
    PRIMARY KEY (worker, device)
) WITHOUT ROWID;

-- Queue keys whose runs are kept from starting.
CREATE TABLE queue_holds (
    key        TEXT    PRIMARY KEY,
    note       TEXT    NOT NULL,
    created_by TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Workers that were removed and not enrolled again, so that what waits for one
-- of them by name ends also when the control plane died in that moment.
CREATE TABLE removed_workers (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;

-- retry_of is the run that this one repeats. likeness is what runs of one kind
-- have in common, so that what one of them took tells what the next will;
-- peak_mib is the most memory that it took of one card.
ALTER TABLE exec_runs ADD COLUMN retry_of TEXT NOT NULL DEFAULT '';
ALTER TABLE exec_runs ADD COLUMN likeness TEXT NOT NULL DEFAULT '';
ALTER TABLE exec_runs ADD COLUMN peak_mib INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX exec_runs_by_retry ON exec_runs (retry_of) WHERE retry_of <> '';
CREATE INDEX exec_runs_by_likeness ON exec_runs (likeness, seq) WHERE peak_mib > 0;
