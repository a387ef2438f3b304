// Package serverctl is `cdui start`, `stop` and `status`: the life of the
// control plane on this machine.
//
// A background start is the foreground one in a session of its own. The child
// reports over an inherited pipe that it answers, or the one sentence that it
// failed with; the parent checks that this very boot answers before it says
// so. Stopping never touches trainings unless it is told to.
package serverctl
