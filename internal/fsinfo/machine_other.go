//go:build !linux

package fsinfo

import "golang.org/x/sys/unix"

func platformMachineID() string {
	id, err := unix.Sysctl("kern.uuid")
	if err != nil {
		return ""
	}
	return id
}
