package doctor

import "golang.org/x/sys/unix"

// clockSynced asks the kernel whether somebody keeps its clock right.
func clockSynced() (synced, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, false
	}
	return state != unix.TIME_ERROR, true
}
