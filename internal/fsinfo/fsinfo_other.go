//go:build !linux

package fsinfo

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

func network(dir string) (string, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", false
	}
	kind := unix.ByteSliceToString(st.Fstypename[:])
	remote := []string{"nfs", "smbfs", "afpfs", "webdav", "ftp", "macfuse", "osxfuse", "cifs"}
	return kind, slices.Contains(remote, kind)
}

func space(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, fmt.Errorf("ask file system of %s: %w", dir, err)
	}
	size := uint64(st.Bsize)
	return Space{Free: uint64(st.Bavail) * size, Total: st.Blocks * size}, nil
}
