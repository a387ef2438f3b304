// Package fsinfo tells what a path lies on: which kind of file system, whether
// that one is reached over a network, how much room it has, and which machine
// the path belongs to.
//
// Databases, spools, locks and sockets need a local disk (SPEC S-02); whoever
// chooses a folder for them asks here first. The package only reads.
package fsinfo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Space is how much room a file system has, in bytes, for an ordinary user.
type Space struct {
	Free  uint64
	Total uint64
}

// Existing gives the nearest folder above path, or path itself, that exists.
func Existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return "", err
		}
		path = parent
	}
}

// Network tells whether path, or the folder that it would be made in, lies on
// a network file system, and names the kind. What can't be asked counts as
// local: the caller's own first write says more than a guess.
func Network(path string) (kind string, yes bool) {
	dir, err := Existing(path)
	if err != nil {
		return "", false
	}
	return network(dir)
}

// SpaceAt gives the room on the file system of path.
func SpaceAt(path string) (Space, error) {
	dir, err := Existing(path)
	if err != nil {
		return Space{}, err
	}
	return space(dir)
}
