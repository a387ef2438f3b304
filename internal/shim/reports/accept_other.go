//go:build !linux

package reports

import "golang.org/x/sys/unix"

// acceptFD accepts on a descriptor that does not block.
func acceptFD(fd int) (int, error) {
	nfd, _, err := unix.Accept(fd)
	if err == nil {
		unix.CloseOnExec(nfd)
	}
	return nfd, err
}
