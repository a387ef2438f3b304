// Package session keeps an agent connected to its control plane: it dials,
// introduces the worker, passes orders on, and carries records and console
// output the other way.
//
// It owns connections and what is on the way on them, nothing of the runs: a
// record is read from its Source, sent within the run's credit, and read again
// after a new welcome if it was not acknowledged. So a lost connection costs a
// repetition and no memory. Heartbeats and answers about the session go ahead
// of records and output. One goroutine reads, one writes, one beats; each run
// and each log request has one of its own. All of them end with the session.
//
// It knows no shim, no process and no file, and decides nothing about runs.
package session
