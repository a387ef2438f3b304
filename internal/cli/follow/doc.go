// Package follow shows a run while it goes on, until it ends: on a terminal
// one block that updates below the run's console, in a pipe plain lines, with
// JSON one event a line. Wait, logs -f and cancel use parts of it.
//
// Three feeds (events, console, row) read the control plane, each in its own
// goroutine, and send to one channel; whoever reads that channel owns all
// output. A control plane that goes away is waited for: the run goes on
// without it. The package changes no run.
package follow
