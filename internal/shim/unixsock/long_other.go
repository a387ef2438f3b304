//go:build !linux

package unixsock

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

func listenLong(dir, name string) (*net.UnixListener, string, error) {
	link := filepath.Join(dir, name)
	short, err := os.MkdirTemp("", "cdui-")
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s: %w", link, err)
	}
	path := filepath.Join(short, name)
	ln, err := listen(path)
	if err == nil {
		err = os.Symlink(path, link)
	}
	if err != nil {
		os.RemoveAll(short)
		return nil, "", fmt.Errorf("listen on %s: %w", link, err)
	}
	return ln, path, nil
}

func dialLong(dir, name string) (*net.UnixConn, error) {
	path, err := os.Readlink(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", filepath.Join(dir, name), err)
	}
	return dial(path)
}
