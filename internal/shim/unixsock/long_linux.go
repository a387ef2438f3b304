package unixsock

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

func through(dir, name string) (*os.File, string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, "", err
	}
	return d, fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name), nil
}

func listenLong(dir, name string) (*net.UnixListener, string, error) {
	path := filepath.Join(dir, name)
	d, short, err := through(dir, name)
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s: %w", path, err)
	}
	defer d.Close()
	ln, err := listen(short)
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s: %w", path, err)
	}
	return ln, path, nil
}

func dialLong(dir, name string) (*net.UnixConn, error) {
	d, short, err := through(dir, name)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", filepath.Join(dir, name), err)
	}
	defer d.Close()
	return dial(short)
}
