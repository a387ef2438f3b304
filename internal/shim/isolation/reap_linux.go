package isolation

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reapOne collects one dead child: its pid, or 0 when none is dead; left is
// false when there are no children at all.
func reapOne(main int, beforeMain func()) (pid int, status syscall.WaitStatus, left bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, 0, false
		case info.Signo == 0:
			return 0, 0, true
		}
		dead := siginfoPID(&info)
		if dead == main {
			beforeMain()
		}
		for {
			pid, err = syscall.Wait4(dead, &status, syscall.WNOHANG, nil)
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		if err != nil {
			return 0, 0, true
		}
		return pid, status, true
	}
}

// siginfoPID gives the pid that a siginfo of a child tells. The union that
// holds it follows three ints and is aligned like a pointer.
func siginfoPID(info *unix.Siginfo) int {
	const ints = 3 * unsafe.Sizeof(int32(0))
	const word = unsafe.Sizeof(uintptr(0))
	off := (ints + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), off)))
}
