package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"

	"cdui/internal/api"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
	"cdui/internal/sorting"
)

// CodeOptions says what of a folder comes along.
type CodeOptions struct {
	// Files lists files and folders, relative to the folder; none is all but
	// what .cduiignore and .gitignore leave out.
	Files []string
	// Preview is shown what will be sent, before any of it is read; an error
	// ends it. Sent is called after each content. Both may be nil.
	Preview func(codeset.Found) error
	Sent    func(bytes int64)
}

// uploads is how many contents are sent at a time.
const uploads = 4

// UploadCode sends a folder along: the control plane gets what it lacks of it.
// The reply goes into a submit.
func (c *Client) UploadCode(ctx context.Context, dir string, o CodeOptions) (api.CodeRef, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return api.CodeRef{}, fmt.Errorf("find folder %s: %w", dir, err)
	}
	folder, err := codeset.OpenDisk(root)
	if err != nil {
		return api.CodeRef{}, err
	}
	defer folder.Close()
	found, err := codeset.Scan(ctx, folder, o.Files...)
	if err != nil {
		return api.CodeRef{}, err
	}
	if o.Preview != nil {
		if err := o.Preview(found); err != nil {
			return api.CodeRef{}, err
		}
	}
	m, err := codeset.Sum(ctx, folder, found.Files)
	if err != nil {
		return api.CodeRef{}, err
	}
	ref, err := c.sendCode(ctx, folder, m, o.Sent)
	ref.Root = root
	return ref, err
}

func (c *Client) sendCode(ctx context.Context, folder codeset.Folder, m codeset.Manifest, sent func(int64)) (api.CodeRef, error) {
	raw, err := m.Encode()
	if err != nil {
		return api.CodeRef{}, err
	}
	var reply api.CodeReply
	err = c.call(ctx, request{method: http.MethodPost, path: api.PathCode, stream: bytes.NewReader(raw), size: int64(len(raw))}, &reply)
	if err != nil {
		return api.CodeRef{}, err
	}
	if reply.Hash != codeset.Hash(raw) {
		return api.CodeRef{}, &Unreachable{Text: "the control plane understood another list of files than was sent; is it of another release?"}
	}
	missing := map[string]bool{}
	for _, sum := range reply.Missing {
		missing[sum] = true
	}
	var files []protocol.File
	for _, f := range m.Files() {
		if f.Link == "" && missing[f.SHA256] {
			delete(missing, f.SHA256)
			files = append(files, f)
		}
	}
	return reply.CodeRef, c.sendFiles(ctx, folder, files, sent)
}

// sendFiles sends some files at a time. The first fault ends it.
func (c *Client) sendFiles(ctx context.Context, folder codeset.Folder, files []protocol.File, sent func(int64)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	queue := make(chan protocol.File)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range min(uploads, len(files)) {
		wg.Go(func() {
			for f := range queue {
				err := c.sendFile(ctx, folder, f)
				mu.Lock()
				if err != nil && failed == nil {
					failed = err
					stop()
				}
				if err == nil && sent != nil {
					sent(f.Size)
				}
				mu.Unlock()
			}
		})
	}
	// The large ones first, so that none is left alone at the end.
	sorting.Sort(files, func(a, b protocol.File) int { return int(min(1, max(-1, b.Size-a.Size))) })
	for _, f := range files {
		select {
		case queue <- f:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	wg.Wait()
	if failed == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed
}

func (c *Client) sendFile(ctx context.Context, folder codeset.Folder, f protocol.File) error {
	r, err := folder.Open(f.Path)
	if err != nil {
		return changed(f.Path)
	}
	defer r.Close()
	body := &exactly{r: r, left: f.Size}
	err = c.call(ctx, request{method: http.MethodPut, path: api.PathBlob, name: f.SHA256, stream: body, size: f.Size}, nil)
	var refused *api.Error
	if err != nil && body.short.Load() || errors.As(err, &refused) && refused.Code == api.Invalid {
		return changed(f.Path)
	}
	return err
}

// exactly gives no more bytes than were announced, and knows when there are
// fewer.
type exactly struct {
	r     io.Reader
	left  int64
	short atomic.Bool
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	if e.left -= int64(n); errors.Is(err, io.EOF) && e.left > 0 {
		e.short.Store(true)
	}
	return n, err
}

func changed(p protocol.Path) error {
	return fmt.Errorf("%s changed while it was sent; submit again", codeset.Quote(p))
}
