package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Folder is the data folder that was chosen.
type Folder struct {
	Path string
	// Note tells people that the default moved, and why; empty otherwise.
	Note string
}

// DataFolder chooses the data folder: HOME's value, else cdui under
// $XDG_DATA_HOME. A default that lies on a network disk moves to a folder of
// this user's under /var/tmp; one that was asked for stays.
func DataFolder(vs Values, getenv func(string) string, uid int, network func(string) (string, bool)) (Folder, error) {
	if asked := vs.Text(Home); asked != "" {
		path, err := filepath.Abs(asked)
		if err != nil {
			return Folder{}, fmt.Errorf("find data folder %s: %w", asked, err)
		}
		return Folder{Path: path}, nil
	}
	base := getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) {
		base = filepath.Join(home(getenv), ".local", "share")
	}
	path := filepath.Join(base, "cdui")
	kind, remote := network(path)
	if !remote {
		return Folder{Path: path}, nil
	}
	moved := filepath.Join("/var/tmp", "cdui-"+strconv.Itoa(uid))
	return Folder{
		Path: moved,
		Note: fmt.Sprintf("%s lies on a network disk (%s), where a database is not safe: the data folder is %s; --data or CDUI_HOME chooses another", path, kind, moved),
	}, nil
}

// MakeFolder creates the data folder with mode 0700, or checks the one that is
// there: it must be ours, since others could otherwise plant files in it.
func MakeFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			return fmt.Errorf("can't make data folder %s: %w; choose another with --data or CDUI_HOME", path, at.Err)
		}
		return fmt.Errorf("can't make data folder %s: %w", path, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at data folder %s: %w", path, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if info, err = os.Stat(path); err != nil {
			return fmt.Errorf("look at data folder %s: %w", path, err)
		}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("data folder %s belongs to user %d, not to you; choose another with --data or CDUI_HOME", path, st.Uid)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(path, 0o700); err != nil {
			return fmt.Errorf("data folder %s is open to others and can't be closed (%w); choose another with --data or CDUI_HOME", path, errors.Unwrap(err))
		}
	}
	return nil
}
