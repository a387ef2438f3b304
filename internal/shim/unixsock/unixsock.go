// Package unixsock listens on and connects to unix sockets whose path may be
// longer than the 107 bytes that the system call takes: ordinary home folders
// come within a byte of that.
//
// On Linux the socket is reached through the descriptor of its folder. Where
// that is not possible, it lies in a short folder under the temporary folder
// and a link in its own folder leads there.
package unixsock

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxPath is the longest path that every system takes.
const maxPath = 103

// Listen makes the socket name in dir, which only its owner may enter. path is
// what others in any process may be told; it may be too long for a plain
// connect. Closing the listener leaves the file.
func Listen(dir, name string) (ln *net.UnixListener, path string, err error) {
	path = filepath.Join(dir, name)
	if len(path) > maxPath {
		return listenLong(dir, name)
	}
	ln, err = listen(path)
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s: %w", path, err)
	}
	return ln, path, nil
}

func listen(path string) (*net.UnixListener, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// Dial connects to the socket name in dir.
func Dial(dir, name string) (*net.UnixConn, error) {
	path := filepath.Join(dir, name)
	if len(path) > maxPath {
		return dialLong(dir, name)
	}
	return dial(path)
}

func dial(path string) (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
}
