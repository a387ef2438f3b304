// Package reports brings the lines of all processes of a run together: of the
// main child on its two pipes, and of any other on the run's report socket.
//
// Lines are decoded and checked for size here, and not understood. A process
// that sends faster than its lines are taken waits; one that reads nothing
// holds up only itself.
package reports
