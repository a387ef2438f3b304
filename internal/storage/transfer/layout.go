package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"cdui/internal/codeset"
	"cdui/internal/protocol"
)

// Code lays the folder of a program out in dir.
func (c *Client) Code(ctx context.Context, code protocol.Code, dir string) error {
	m, err := codeset.New(code.Files)
	if err != nil {
		return &LastingError{err}
	}
	raw, err := m.Encode()
	if err != nil {
		return &LastingError{err}
	}
	if codeset.Hash(raw) != code.Hash {
		return &LastingError{fmt.Errorf("the list of files is not that of its hash %.12s", code.Hash)}
	}
	return c.layOut(ctx, m, dir)
}

// Files lays files out in dir.
func (c *Client) Files(ctx context.Context, files []protocol.File, dir string) error {
	m, err := codeset.New(files)
	if err != nil {
		return &LastingError{err}
	}
	return c.layOut(ctx, m, dir)
}

func (c *Client) layOut(ctx context.Context, m codeset.Manifest, dir string) error {
	for mended := false; ; mended = true {
		if err := c.fetchAll(ctx, m.Contents()); err != nil {
			return err
		}
		err := codeset.Unpack(ctx, dir, m, func(sum string) (io.ReadCloser, error) { return c.cfg.Cache.Open(sum) })
		// A disk that failed may have spoilt what the cache holds.
		var damaged *codeset.DamagedError
		if !errors.As(err, &damaged) || mended {
			return err
		}
		if err := c.cfg.Cache.Drop(damaged.SHA256); err != nil {
			return err
		}
	}
}
