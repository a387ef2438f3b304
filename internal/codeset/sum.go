package codeset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"cdui/internal/protocol"
)

// Sum reads the files and makes the manifest. A file that changes meanwhile is
// as it was read.
func Sum(ctx context.Context, folder Folder, entries []Entry) (Manifest, error) {
	files := make([]protocol.File, 0, len(entries))
	for _, e := range entries {
		f := protocol.File{Path: e.Path, Link: e.Link}
		if e.Link == "" {
			f.Executable = e.Executable
			var err error
			if f.SHA256, f.Size, err = sumFile(ctx, folder, e.Path); err != nil {
				return Manifest{}, err
			}
		}
		files = append(files, f)
	}
	return New(files)
}

func sumFile(ctx context.Context, folder Folder, p protocol.Path) (string, int64, error) {
	f, err := folder.Open(p)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w; leave it out with a line in %s if the program doesn't need it", Quote(p), plain(err), IgnoreFile)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, stopAt(ctx, f))
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", Quote(p), plain(err))
	}
	return hex.EncodeToString(h.Sum(nil)), n, nil
}

// stopAt reads r until ctx is over.
func stopAt(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
