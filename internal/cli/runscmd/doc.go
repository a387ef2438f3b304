// Package runscmd is `cdui runs` and its short forms: list, show, events,
// logs, metrics, artifacts, cancel, hold, release, rm, wait.
//
// Each command is an Options struct, a constructor that only reads the command
// line, and a function that does the work with a client. Nothing here knows
// how runs are executed.
package runscmd
