-- Times are microseconds since 1970, UTC.

-- Who changed what. The oldest rows go as new ones come, so numbers go on.
CREATE TABLE actions (
    seq    INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    user   TEXT    NOT NULL,
    peer   TEXT    NOT NULL,
    verb   TEXT    NOT NULL,
    kind   TEXT    NOT NULL,
    object TEXT    NOT NULL,
    detail TEXT    NOT NULL
);
