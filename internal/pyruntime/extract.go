package pyruntime

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	pysrc "cdui/runtime"
)

// digestChars is how much of the hash names a copy.
const digestChars = 16

// Digest names the embedded sources by their content.
func Digest() string {
	h := sha256.New()
	err := eachSource(func(name string, content []byte) error {
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(content))
		h.Write(content)
		return nil
	})
	if err != nil {
		panic(err) // reading what is part of this program can't fail
	}
	return hex.EncodeToString(h.Sum(nil))[:digestChars]
}

// eachSource visits the embedded files in the order of their names.
func eachSource(visit func(name string, content []byte) error) error {
	return fs.WalkDir(pysrc.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := pysrc.FS.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read embedded %s: %w", name, err)
		}
		return visit(name, content)
	})
}

// Extract unpacks the embedded sources below dataDir and returns the folder
// that holds the package cdui. A whole copy that is there already is used as
// it is; one that was changed is moved aside, not overwritten.
func Extract(dataDir string) (string, error) {
	dataDir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("find data folder %s: %w", dataDir, err)
	}
	parent := filepath.Join(dataDir, "runtime")
	root := filepath.Join(parent, Digest())
	// Each further try means that somebody else was at work there too.
	for range 3 {
		state, err := inspect(root)
		if err != nil {
			return "", err
		}
		switch state {
		case whole:
			return root, nil
		case changed:
			if err := moveAside(root); err != nil {
				return "", err
			}
		case absent:
		}
		if err := unpack(parent, root); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("unpack Python runtime: %s keeps changing; remove it", root)
}

type copyState int

const (
	absent copyState = iota
	whole
	changed
)

func inspect(root string) (copyState, error) {
	if _, err := os.Lstat(root); errors.Is(err, fs.ErrNotExist) {
		return absent, nil
	} else if err != nil {
		return absent, fmt.Errorf("look at Python runtime: %w", err)
	}
	state := whole
	err := eachSource(func(name string, content []byte) error {
		found, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("read Python runtime: %w", err)
		}
		if err != nil || !bytes.Equal(found, content) {
			state = changed
		}
		return nil
	})
	return state, err
}

func moveAside(root string) error {
	aside, err := os.MkdirTemp(filepath.Dir(root), "changed-")
	if err != nil {
		return fmt.Errorf("move changed Python runtime aside: %w", err)
	}
	err = os.Rename(root, filepath.Join(aside, filepath.Base(root)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move changed Python runtime aside: %w", err)
	}
	return nil
}

// unpack writes a whole copy under another name and gives it its own at the
// end. Losing a race for the name is no error: the caller looks again.
func unpack(parent, root string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("unpack Python runtime: %w", err)
		}
	}()
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(parent, "new-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	err = eachSource(func(name string, content []byte) error {
		if err := os.MkdirAll(filepath.Join(temp, filepath.FromSlash(path.Dir(name))), 0o700); err != nil {
			return err
		}
		return writeSynced(filepath.Join(temp, filepath.FromSlash(name)), content)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(temp, root); err != nil {
		if _, statErr := os.Lstat(root); statErr == nil {
			return nil
		}
		return err
	}
	return nil
}

// writeSynced sees to it that a copy that has its name also has its content.
func writeSynced(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
