//go:build !linux

package oom

// Watch gathers evidence that the system killed a process for memory; here
// there is none to be had.
type Watch struct{}

// New begins to watch.
func New() *Watch { return &Watch{} }

// Close ends the watch.
func (*Watch) Close() {}

// Own remembers a process of the run.
func (*Watch) Own(int) {}

// NoteLast remembers where a dead process was.
func (*Watch) NoteLast(int) {}

// Note remembers where a process is.
func (*Watch) Note(int, int) {}

// Evidence is always none.
func (*Watch) Evidence(bool) string { return "" }
