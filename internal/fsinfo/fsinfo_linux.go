package fsinfo

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func network(dir string) (string, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", false
	}
	return networkMagic(uint32(st.Type)) //nolint:gosec // magic numbers are 32 bits wide
}

// networkMagic names the file systems whose locks and shared memory can't be
// trusted. FUSE counts: sshfs and most of its kin are remote, and those that
// aren't (overlays, ntfs) are slow enough to be no place for a database.
func networkMagic(magic uint32) (string, bool) {
	switch magic {
	case unix.NFS_SUPER_MAGIC:
		return "nfs", true
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "smb", true
	case unix.V9FS_MAGIC:
		return "9p", true
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs", true
	case unix.CODA_SUPER_MAGIC:
		return "coda", true
	case unix.FUSE_SUPER_MAGIC:
		return "fuse", true
	case unix.CEPH_SUPER_MAGIC:
		return "ceph", true
	case unix.OCFS2_SUPER_MAGIC:
		return "ocfs2", true
	case 0x0bd00bd0:
		return "lustre", true
	case 0x47504653:
		return "gpfs", true
	case 0x19830326:
		return "beegfs", true
	case 0x01161970:
		return "gfs2", true
	case 0x786f4256:
		return "vboxsf", true
	}
	return "", false
}

func space(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, fmt.Errorf("ask file system of %s: %w", dir, err)
	}
	size := uint64(st.Bsize) //nolint:gosec // a block size is positive
	return Space{Free: st.Bavail * size, Total: st.Blocks * size}, nil
}
