// Package proctree looks at process trees and ends them: who a process is,
// what descends from it, and signals that can't hit a stranger who was given
// the pid of somebody dead.
//
// It knows nothing of runs, sockets or files other than /proc.
package proctree
