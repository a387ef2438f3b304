// Package workers is the control plane's side of /ws/worker: it lets agents in,
// keeps one registry of them, executes runs on them, and turns what they send
// into calls of the run service's Sink.
//
// # Authority
//
// Rows and the log of a run are server/runs' alone, and so is the decision
// where it executes; this package says which workers there are (SetWorker) and
// reports. What is kept of a worker (its name, the hash of its token, whether
// it drains, what it last offered) is in the store; everything else is in
// memory and is told anew by the agent at each connection. The truth about
// what executes on a worker is its run_alive.
//
// # States
//
//	           welcome, run_alive
//	offline ───────────────────────► online
//	   ▲                             │    ▲
//	   │ resume grace        closed, │    │ welcome, run_alive
//	   │ has run out     no heartbeat▼    │
//	   └──────────────────────── disconnected
//
// A worker takes runs while it is online, settled (its first run_alive has been
// gone through) and not draining. When it goes away its runs become
// disconnected and keep their slots until it lists them again or the grace has
// run out. A run that the worker has and this package doesn't hold is a stray:
// it is cancelled, and its end is kept as a late result.
//
// # Order and failure
//
// One goroutine reads a connection and one writes it; the outbox between them
// is bounded, and a worker that doesn't take what it is sent is disconnected,
// which its spool makes harmless. What happens to one run reaches the Sink in
// order, through the run's own mailbox, and is tried again until the Sink takes
// it; records are acknowledged after that. Decisions (who is let in, what a
// run_alive means) are pure functions in package workers/admit; a connection's
// own goroutines and bounds are in workers/conn.
//
// A connection is refused before anything is read from it: the upgrade is
// completed and closed with 4003 or 4401. What bytes a worker sends can end its
// session and nothing else.
package workers
