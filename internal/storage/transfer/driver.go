package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cdui/internal/agent"
	"cdui/internal/agent/prepare"
	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/protocol"
)

// Driver is the Storage of an agent.
type Driver struct {
	client *Client
	cache  *blobs.Store
	// room is what the cache may hold.
	room int64
	log  *slog.Logger
	// mu keeps the lines of notes whole.
	mu sync.Mutex
}

// CacheBytes is what a worker keeps of contents that no run needs now.
const CacheBytes = 20 << 30

// NewDriver makes the Storage of an agent.
func NewDriver(up agent.Upstream, cache *blobs.Store, log *slog.Logger) *Driver {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		client: New(Config{URL: up.URL, TLS: up.TLS, Dial: up.Dial, Token: up.Token, Cache: cache}),
		cache:  cache, room: CacheBytes, log: log,
	}
}

// Fetch implements agent.Storage.
func (d *Driver) Fetch(ctx context.Context, job agent.Job, a *protocol.Assign) error {
	if a.Storage != nil && a.Storage.Backend == protocol.BackendS3 {
		return &prepare.Unfit{Code: protocol.RefuseUnsupported, Text: "this worker reaches no bucket"}
	}
	if a.Code != nil {
		if err := d.client.Code(ctx, *a.Code, job.Folders.Code); err != nil {
			return lasting(fmt.Errorf("the program's folder: %w", err))
		}
	}
	if a.Storage != nil && a.Storage.Backend == protocol.BackendTransfer && len(a.Storage.Inputs) > 0 {
		if err := d.client.Files(ctx, a.Storage.Inputs, job.Folders.Data); err != nil {
			return lasting(fmt.Errorf("the run's inputs: %w", err))
		}
	}
	if _, err := d.cache.Prune(blobs.Policy{Spare: time.Hour, MaxBytes: d.room}, time.Now()); err != nil {
		d.log.WarnContext(ctx, "prune cache of contents", "error", err)
	}
	return nil
}

// lasting says in the agent's words that trying again can't help.
func lasting(err error) error {
	var l *LastingError
	if errors.As(err, &l) {
		return fmt.Errorf("%w: %w", agent.ErrLasting, err)
	}
	return err
}

// note is a line of what a run says it wrote.
type note struct {
	Path string `json:"path"`
}

func notes(job agent.Job) string {
	return filepath.Join(job.Dir, fmt.Sprintf("wrote-%d.jsonl", job.Attempt))
}

// Wrote implements agent.Storage.
func (d *Driver) Wrote(job agent.Job, artifact protocol.Record) {
	if err := d.note(job, artifact.Path); err != nil {
		d.log.Warn("note an artifact", "run_id", job.RunID, "error", err)
	}
}

func (d *Driver) note(job agent.Job, path string) (err error) {
	line, err := json.Marshal(note{Path: path})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.OpenFile(notes(job), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(append(line, '\n'))
	return err
}

// noted lists what was noted, each path once, in order. A line that was cut by
// a crash is passed over: the record comes again, and with it the line.
func (d *Driver) noted(job agent.Job) ([]string, error) {
	raw, err := os.ReadFile(notes(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what run %s wrote: %w", job.RunID, err)
	}
	var out []string
	seen := map[string]bool{}
	for line := range bytes.Lines(raw) {
		var n note
		if json.Unmarshal(line, &n) != nil || n.Path == "" || seen[n.Path] {
			continue
		}
		seen[n.Path] = true
		out = append(out, n.Path)
	}
	return out, nil
}

// Bring implements agent.Storage: the files first, in the order in which they
// were reported, then the log.
func (d *Driver) Bring(ctx context.Context, job agent.Job) error {
	paths, err := d.noted(job)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := d.bring(ctx, job, path); err != nil {
			return lasting(err)
		}
	}
	if job.Console != nil {
		if err := d.client.UploadLog(ctx, job.RunID, job.Console); err != nil {
			return lasting(err)
		}
	}
	if err := os.Remove(notes(job)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget what run %s wrote: %w", job.RunID, err)
	}
	return nil
}

// bring uploads a file, or the files of a folder. What is not there any more,
// or is no file, is the run's own business.
func (d *Driver) bring(ctx context.Context, job agent.Job, reported string) error {
	if !filepath.IsAbs(reported) {
		d.log.WarnContext(ctx, "artifact without an absolute path", "run_id", job.RunID, "path", reported)
		return nil
	}
	return filepath.WalkDir(reported, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			d.log.WarnContext(ctx, "artifact can't be read", "run_id", job.RunID, "path", path, "error", err)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.IsDir() {
			return nil
		}
		// A link that was itself reported means its file; one in a reported
		// folder is left out, since it may lead anywhere.
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || e.Type()&fs.ModeSymlink != 0 && path != reported {
			d.log.WarnContext(ctx, "artifact is no file", "run_id", job.RunID, "path", path, "error", err)
			return nil
		}
		return d.upload(ctx, job, path)
	})
}

func (d *Driver) upload(ctx context.Context, job agent.Job, path string) error {
	f, err := os.Open(path)
	if err != nil {
		d.log.WarnContext(ctx, "artifact can't be read", "run_id", job.RunID, "path", path, "error", err)
		return nil
	}
	defer f.Close()
	err = d.client.Upload(ctx, job.RunID, Place(job.Folders, path), path, f)
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.Conflict && refused.Params["status"] == nil {
		// Two of its files want one place; the run is no worse for it.
		d.log.WarnContext(ctx, "artifact has no place", "run_id", job.RunID, "path", path, "error", err)
		return nil
	}
	return err
}

// Place gives where a file goes among its run's artifacts: as it lies in the
// run's folders; what lies elsewhere goes below files/, by its whole path.
func Place(folders prepare.Folders, path string) protocol.Path {
	for _, in := range []struct{ dir, below string }{
		{folders.Code, ""}, {folders.Data, ""}, {folders.Checkpoints, "checkpoints/"}, {folders.Outputs, "outputs/"},
	} {
		if in.dir == "" {
			continue
		}
		if rel, ok := strings.CutPrefix(path, filepath.Clean(in.dir)+"/"); ok {
			return protocol.Path(in.below + rel)
		}
	}
	return protocol.Path("files" + filepath.Clean(path))
}
