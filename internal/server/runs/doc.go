// Package runs is the run service of the control plane: the sole writer of run
// state. It takes submissions, keeps one FIFO per queue key, asks the pure
// scheduler what may start, hands placed runs to an Executor, turns the
// records that come back into committed rows and events, and ends runs.
//
// Order of things: decide under the lock, commit, then act (start, cancel,
// publish). A commit that fails leaves the decision undone, so that a full or
// locked disk delays a run and never loses one. The rules themselves live in
// run.Next and scheduler.Decide; none stands here.
//
// State in memory is a mirror of the active rows of the store and is rebuilt
// by Load. Every goroutine that the service starts is waited for by Close.
package runs
