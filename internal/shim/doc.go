// Package shim is the program that owns one run: `cdui shim`.
//
// It is started detached by package shimhost, with its listening socket and a
// locked lock file as inherited descriptors, and outlives whoever started it.
// It takes one assignment over the socket, starts the child, numbers what the
// child reports into the spool, stores what it prints, stops it when asked to,
// and leaves no process of the run behind. The lock is held for its life and
// is the truth about it.
//
// One goroutine (run.loop) owns all state and decides; the others only bring
// it lines, deaths and messages through bounded channels, and are waited for.
// What can be decided without the world is pure: ladder (how a stop
// escalates), verdict (what an end means), and the line reader.
//
// The package must stay small in memory and quick to start: it imports neither
// the control plane nor the command tree. Above it, where no pid namespace
// can be had, stands a keeper (keeper.go): a second process that ends the run
// should the shim be killed.
package shim
