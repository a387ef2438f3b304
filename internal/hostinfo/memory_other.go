//go:build !linux

package hostinfo

import "golang.org/x/sys/unix"

// memoryMiB is the machine's memory; nil where it isn't told.
func memoryMiB() *int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return nil
	}
	mib := int64(n >> 20) //nolint:gosec // no machine has 2^63 bytes
	return &mib
}
