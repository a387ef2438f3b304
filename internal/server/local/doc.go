// Package local executes runs on the control plane's own machine, each in a
// child of its own under a shim, the same shim as on a worker. It owns the
// tailing of those shims: it builds assignments, passes records on to the run
// service, acknowledges what is stored, and tidies a run's folder when it has
// ended. It decides nothing about runs.
package local
