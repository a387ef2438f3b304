// Package store keeps runs in SQLite: their rows, event logs, metrics and
// artifacts. Everything that needs SQL is in here, and nothing that decides:
// which change is right is the business of server/runs, its only user.
//
// # Writing
//
// One goroutine owns the one write connection. Apply hands it a call; whatever
// arrived while the last commit was being synced goes into the next
// transaction, and Apply returns once its transaction is on disk
// (synchronous=FULL). A call that can fail alone runs in a savepoint. When a
// commit fails, every call in it is told so and memory stays as it was.
//
// # Logs
//
// exec_run_events and exec_run_metrics are append-only tables without an index
// that each row would touch; the order of ids is the order of commits. A run's
// rows are found through chunk tables, one row per 256 log rows. The rows after
// a run's last chunk are its open tail. Tails of active runs are in memory
// (runLog); Open rebuilds them by reading the logs from the lowest open row on,
// which exec_log_marks keeps near the end. A run that isn't active has no open
// tail.
//
// # Ownership and order
//
// The writer goroutine owns the transaction and the unpublished copies of
// runLog. After a commit it publishes the copies under Store.mu; what is
// published is never changed again, so readers need no lock to use it. Reads
// go through their own read-only connections and hold no transaction longer
// than a page.
//
// # Failure
//
// A lock held by another program delays writers up to Config.BusyTimeout. On a
// full disk writes fail with ErrFull at once, Healthy says so, and both end
// without a restart when there is room again.
package store
