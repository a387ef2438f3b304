package reports

import "golang.org/x/sys/unix"

// acceptFD accepts on a descriptor that does not block.
func acceptFD(fd int) (int, error) {
	nfd, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
	return nfd, err
}
