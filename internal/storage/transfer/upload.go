package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"cdui/internal/api"
	"cdui/internal/codeset"
	"cdui/internal/console"
	"cdui/internal/protocol"
)

// Upload brings a file of a run to its place p among the run's artifacts.
// source is where the run said it is. The control plane doesn't read what it
// has.
func (c *Client) Upload(ctx context.Context, runID string, p protocol.Path, source string, f *os.File) error {
	sum, size, err := hashOf(ctx, f)
	if err != nil {
		return fmt.Errorf("read %s: %w", codeset.Quote(p), err)
	}
	query := url.Values{"path": {string(p)}, "source": {source}}
	address := c.address(api.PathRunArtifactUpload, "{id}", url.PathEscape(runID)) + "?" + query.Encode()
	err = c.send(ctx, http.MethodPost, address, sum, size, func() io.Reader { return io.NewSectionReader(f, 0, size) })
	if err != nil {
		return fmt.Errorf("bring back %s: %w", codeset.Quote(p), err)
	}
	return nil
}

func hashOf(ctx context.Context, f *os.File) (string, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size := info.Size()
	n, err := io.Copy(h, contextReader{ctx, io.NewSectionReader(f, 0, size)})
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF // it shrank
	}
	return hex.EncodeToString(h.Sum(nil)), size, err
}

type contextReader struct {
	ctx context.Context //nolint:containedctx // lives as long as the copy that it bounds
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// UploadLog brings back what a run that has ended printed.
func (c *Client) UploadLog(ctx context.Context, runID string, r *console.Reader) error {
	size, err := r.Size()
	if err != nil {
		return fmt.Errorf("read log of run %s: %w", runID, err)
	}
	if size == 0 {
		return nil
	}
	// The archive goes over a file: it must be sent again as it was.
	f, err := os.CreateTemp("", "cdui-log-")
	if err != nil {
		return fmt.Errorf("bring back the log of run %s: %w", runID, err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("bring back the log of run %s: %w", runID, err)
	}
	if err := console.Export(f, r, api.MaxLogBytes); err != nil {
		return fmt.Errorf("bring back the log of run %s: %w", runID, err)
	}
	length, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("bring back the log of run %s: %w", runID, err)
	}
	address := c.address(api.PathRunLog, "{id}", url.PathEscape(runID))
	err = c.send(ctx, http.MethodPut, address, "", length, func() io.Reader { return io.NewSectionReader(f, 0, length) })
	if err != nil {
		return fmt.Errorf("bring back the log of run %s: %w", runID, err)
	}
	return nil
}

// send uploads, from the beginning at each try. The bytes go out once the
// control plane wants them.
func (c *Client) send(ctx context.Context, method, address, sum string, size int64, body func() io.Reader) error {
	return c.again(ctx, func() (bool, error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		var r io.Reader = http.NoBody
		if size > 0 {
			stall := time.AfterFunc(stallAfter, stop)
			defer stall.Stop()
			left := size
			r = &watched{r: body(), seen: func(n int) {
				if left -= int64(n); left > 0 {
					stall.Reset(stallAfter)
				} else {
					stall.Stop() // the answer has a limit of its own
				}
			}}
		}
		req, err := http.NewRequestWithContext(ctx, method, address, r)
		if err != nil {
			return false, &LastingError{fmt.Errorf("build request: %w", err)}
		}
		req.ContentLength = size
		req.Header.Set("Content-Type", "application/octet-stream")
		if size > 64<<10 {
			req.Header.Set("Expect", "100-continue")
		}
		if sum != "" {
			req.Header.Set(api.HeaderSHA256, sum)
		}
		res, err := c.do(req)
		if err != nil {
			return false, err
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
		return false, err
	})
}
