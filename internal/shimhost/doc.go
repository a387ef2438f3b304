// Package shimhost starts, finds, follows, stops and removes shims. It is the
// one way in which the agent and the control plane's local executor use them.
//
// A Host owns a folder with one folder per run. Whether a run's shim lives is
// what the lock in its folder says and nothing else; saved pids serve for
// signals only, and only after their whole identity was checked. Records and
// output are read from the files, the same for living and for dead shims; the
// socket carries nudges, acknowledgements and cancels.
//
// Closing a Host leaves every run going: a later Host on the same folder finds
// them and carries on. The package knows no store and no scheduler.
package shimhost
