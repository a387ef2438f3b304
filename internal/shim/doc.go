// Package shim is the program that owns one run: `cdui shim`.
//
// It is started detached by package shimhost, with its listening socket and its
// locked shim.json as inherited descriptors, and outlives whoever started it.
// It takes one assignment over the socket, starts the child, numbers what the
// child reports into the spool, stores what it prints, stops it when asked to,
// and leaves no process of the run behind. The lock is held for its life and
// is the truth about it.
//
// One goroutine (shimRun.loop) owns all state and decides; the others only bring
// it lines, deaths and messages through bounded channels, and are waited for.
// What can be decided without the world is pure: ladder (how a stop
// escalates) and verdict (what an end means). The packages below hide the
// rest: isolation (the processes of a run, held together and collected),
// launch (the start of the child), reports (its lines), hosts (who gives it
// orders), oom (evidence), and proctree, unixsock and wire, which hosts use too.
//
// A spare is a shim whose child was started before there was a run for it. It
// lives only as long as the connection of the host that keeps it, and becomes
// an ordinary run with its assignment.
//
// The package must stay small in memory and quick to start: it imports neither
// the control plane nor the command tree. Above it, where no pid namespace
// can be had, stands a keeper (keep): a second process that ends the run
// should the shim be killed.
package shim
