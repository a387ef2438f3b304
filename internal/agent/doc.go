// Package agent is the worker: one small process that dials out to a control
// plane, takes assignments, has each executed by a shim of its own, and sends
// back what the shims record.
//
// It owns a folder (package folder) and what happens on this machine to the
// runs in it. What to do next is decided by supervise.Step; the connection is
// package session's; what a shim is handed comes from package prepare. Runs
// belong to their shims: an agent that stops, or is killed, leaves them going,
// and the next one on the folder finds them.
//
// It listens on no port, writes no database, and never imports torch. It is
// trusted with the assignments of its own runs and with nothing else.
package agent
