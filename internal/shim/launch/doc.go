// Package launch starts the main process of a run: it finds the program, makes
// the pipes, and puts into words why a start failed.
//
// It owns no process: whoever asked for it reaps it. Nothing but the child's
// own ends of its pipes is inherited.
package launch
