//go:build !linux

package isolation

import "syscall"

// reapOne collects one dead child: its pid, or 0 when none is dead; left is
// false when there are no children at all.
func reapOne(_ int, _ func()) (pid int, status syscall.WaitStatus, left bool) {
	for {
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		return max(0, pid), status, err == nil
	}
}
