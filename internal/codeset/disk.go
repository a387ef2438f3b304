package codeset

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"cdui/internal/protocol"
)

// Disk is a folder on this machine's disk. No path and no link leads out of it.
type Disk struct {
	root *os.Root
}

// OpenDisk opens a folder.
func OpenDisk(dir string) (*Disk, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", dir, plain(err))
	}
	return &Disk{root: root}, nil
}

// Close lets go of the folder.
func (d *Disk) Close() error { return d.root.Close() }

func name(p protocol.Path) string {
	if p == "" {
		return "."
	}
	return string(p)
}

// Names implements Folder.
func (d *Disk) Names(dir protocol.Path) ([]string, error) {
	f, err := d.root.OpenFile(name(dir), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Stat implements Folder.
func (d *Disk) Stat(p protocol.Path) (fs.FileInfo, error) { return d.root.Lstat(name(p)) }

// ReadLink implements Folder.
func (d *Disk) ReadLink(p protocol.Path) (string, error) { return d.root.Readlink(name(p)) }

// Open implements Folder. It takes plain files alone and never waits, as for
// the other end of a pipe that took a file's place.
func (d *Disk) Open(p protocol.Path) (io.ReadCloser, error) {
	f, err := d.root.OpenFile(name(p), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is no plain file any more")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
