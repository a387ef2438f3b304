package tuicmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// disk is this machine's.
type disk struct{}

// Size implements ui.Disk.
func (disk) Size(path string) (int64, error) {
	is, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !is.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is no file", path)
	}
	return is.Size(), nil
}

// Head implements ui.Disk. A pipe isn't waited for.
func (disk) Head(path string, limit int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !is.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	head := make([]byte, limit)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}
