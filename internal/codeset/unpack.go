package codeset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"cdui/internal/protocol"
)

// DamagedError says that a content is not what its hash promises.
type DamagedError struct {
	SHA256 string
	Path   protocol.Path
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the content of %s is damaged: it is not that of its hash %.12s", Quote(e.Path), e.SHA256)
}

// Unpack makes the folder dir of a manifest, whose contents open gives by
// their hashes. The folder appears complete or not at all. What lies at dir
// already, such as what an earlier process made, is replaced.
func Unpack(ctx context.Context, dir string, m Manifest, open func(sum string) (io.ReadCloser, error)) (err error) {
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("clear %s: %w", part, plain(err))
	}
	if err := os.Mkdir(part, 0o700); err != nil {
		return fmt.Errorf("make folder %s: %w", part, plain(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	root, err := os.OpenRoot(part)
	if err != nil {
		return fmt.Errorf("make folder %s: %w", part, plain(err))
	}
	defer root.Close()
	u := unpacker{root: root, open: open, buf: make([]byte, 256<<10)}
	if err := u.unpack(ctx, m); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("replace folder %s: %w", dir, plain(err))
	}
	if err := os.Rename(part, dir); err != nil {
		return fmt.Errorf("make folder %s: %w", dir, plain(err))
	}
	return nil
}

type unpacker struct {
	root *os.Root
	open func(string) (io.ReadCloser, error)
	buf  []byte
}

// unpack writes files first, so that none is written through a link.
func (u *unpacker) unpack(ctx context.Context, m Manifest) error {
	for _, f := range m.files {
		if f.Link == "" {
			if err := u.file(ctx, f); err != nil {
				return err
			}
		}
	}
	for _, f := range m.files {
		if f.Link == "" {
			continue
		}
		if err := u.parent(f.Path); err != nil {
			return err
		}
		if err := u.root.Symlink(linkText(f), string(f.Path)); err != nil {
			return fmt.Errorf("make link %s: %w", Quote(f.Path), plainLink(err))
		}
	}
	return nil
}

// linkText is what a link holds: the way from its folder to what it means.
func linkText(f protocol.File) string {
	return strings.Repeat("../", strings.Count(string(f.Path), "/")) + string(f.Link)
}

func (u *unpacker) parent(p protocol.Path) error {
	dir := path.Dir(string(p))
	if dir == "." {
		return nil
	}
	if err := u.root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder of %s: %w", Quote(p), plain(err))
	}
	return nil
}

func (u *unpacker) file(ctx context.Context, f protocol.File) (err error) {
	if err := u.parent(f.Path); err != nil {
		return err
	}
	src, err := u.open(f.SHA256)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", Quote(f.Path), err)
	}
	defer src.Close()
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	dst, err := u.root.OpenFile(string(f.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", Quote(f.Path), plain(err))
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(dst, h), stopAt(ctx, io.LimitReader(src, f.Size+1)), u.buf)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", Quote(f.Path), plain(err))
	}
	if n != f.Size || hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return &DamagedError{SHA256: f.SHA256, Path: f.Path}
	}
	return nil
}

func plainLink(err error) error {
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return plain(err)
}
