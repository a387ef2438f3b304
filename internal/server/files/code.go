package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
)

// Limits bound what comes in; 0 is no limit.
type Limits struct {
	// Folder is for all files of one folder together, File for each.
	Folder, File int64
	// Artifact is for one file that a run on a worker brings back.
	Artifact int64
}

// Config is what a Keeper is made of.
type Config struct {
	Blobs *blobs.Store
	// RunsDir holds a folder for each run, DataDir the user's files.
	RunsDir, DataDir string
	// Hashes is needed for Inputs alone.
	Hashes Hashes
	// Writes tells whether the nodes of a run write a place in the data folder,
	// so that the file belongs there; nil: none do.
	Writes func(ctx context.Context, runID, place string) bool
	Limits Limits
}

// Keeper keeps files. It is safe for concurrent use.
type Keeper struct {
	cfg Config

	mu sync.Mutex
	// sums remembers which contents lists name, the newest last.
	sums []listed
}

type listed struct {
	hash     string
	contents map[string]bool
}

// maxListed is how many lists are remembered.
const maxListed = 32

// New makes a Keeper.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg} }

// AddCode keeps a list of files and tells which of their contents are missing.
// Those that are there stay for a while, so that a submit can follow.
func (k *Keeper) AddCode(ctx context.Context, raw []byte) (api.CodeReply, error) {
	m, err := codeset.Decode(raw)
	if err != nil {
		return api.CodeReply{}, api.Errorf(api.Unreadable, "%v", err)
	}
	if err := k.cfg.Limits.check(m); err != nil {
		return api.CodeReply{}, err
	}
	if raw, err = m.Encode(); err != nil {
		return api.CodeReply{}, api.Errorf(api.Unreadable, "%v", err)
	}
	hash := codeset.Hash(raw)
	if err := k.cfg.Blobs.Put(ctx, hash, bytes.NewReader(raw), 0); err != nil {
		return api.CodeReply{}, err
	}
	reply := api.CodeReply{CodeRef: ref(hash, m), Missing: []string{}}
	for _, c := range m.Contents() {
		if !k.cfg.Blobs.Use(c.SHA256) {
			reply.Missing = append(reply.Missing, c.SHA256)
		}
	}
	return reply, nil
}

func ref(hash string, m codeset.Manifest) api.CodeRef {
	return api.CodeRef{Hash: hash, Files: len(m.Files()), Bytes: m.Bytes()}
}

func (l Limits) check(m codeset.Manifest) error {
	entries := make([]codeset.Entry, 0, len(m.Files()))
	for _, f := range m.Files() {
		entries = append(entries, codeset.Entry{Path: f.Path, Size: f.Size})
	}
	if err := (codeset.Limits{Total: l.Folder, File: l.File}).Check(entries); err != nil {
		return api.Errorf(api.TooLarge, "%v", err)
	}
	return nil
}

// Code gives a folder that is here whole. program is the path of a script that
// must be in it, "" for none.
func (k *Keeper) Code(ctx context.Context, hash, program string) (api.CodeRef, error) {
	m, err := k.Manifest(ctx, hash)
	if errors.Is(err, fs.ErrNotExist) {
		return api.CodeRef{}, api.Errorf(api.Conflict, "the control plane does not have the folder %.12s; send its list of files again", hash).With("code", hash)
	}
	if err != nil {
		return api.CodeRef{}, err
	}
	k.cfg.Blobs.Use(hash)
	missing := []string{}
	for _, c := range m.Contents() {
		if !k.cfg.Blobs.Use(c.SHA256) {
			missing = append(missing, c.SHA256)
		}
	}
	if len(missing) > 0 {
		return api.CodeRef{}, api.Errorf(api.Conflict, "%d contents of the folder %.12s have not been sent yet", len(missing), hash).
			With("code", hash).With("missing", missing)
	}
	if program != "" && !holds(m, program) {
		return api.CodeRef{}, api.Errorf(api.Invalid, "%s is not among the files that are sent along; name it from the folder, and see that no rule of .cduiignore or .gitignore leaves it out", codeset.Quote(protocol.Path(program))).
			With("path", program)
	}
	return ref(hash, m), nil
}

// holds tells whether a path leads to a file of the list, as far as the list
// tells: what lies behind a link is taken to be there.
func holds(m codeset.Manifest, program string) bool {
	p := protocol.Path(path.Clean(program))
	if p.Check() != nil {
		return false
	}
	return slices.ContainsFunc(m.Files(), func(f protocol.File) bool {
		return f.Path == p || f.Link != "" && len(p) > len(f.Path) && p[:len(f.Path)] == f.Path && p[len(f.Path)] == '/'
	})
}

// Manifest reads a list of files; fs.ErrNotExist when it is not here.
func (k *Keeper) Manifest(_ context.Context, hash string) (codeset.Manifest, error) {
	f, err := k.cfg.Blobs.Open(hash)
	if errors.Is(err, blobs.ErrBadSum) {
		return codeset.Manifest{}, api.Errorf(api.Invalid, "code: %v", err)
	}
	if err != nil {
		return codeset.Manifest{}, fmt.Errorf("read list of files %.12s: %w", hash, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, codeset.MaxManifestBytes+1))
	if err != nil {
		return codeset.Manifest{}, fmt.Errorf("read list of files %.12s: %w", hash, err)
	}
	m, err := codeset.Decode(raw)
	if err != nil {
		// Some content that is no list.
		return codeset.Manifest{}, api.Errorf(api.Invalid, "code %.12s: %v", hash, err)
	}
	return m, nil
}

// Names tells whether a folder's list, or one of its files, has this hash.
func (k *Keeper) Names(ctx context.Context, hash, sum string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.sums, func(l listed) bool { return l.hash == hash })
	if i < 0 {
		m, err := k.Manifest(ctx, hash)
		if err != nil {
			return false
		}
		l := listed{hash: hash, contents: map[string]bool{hash: true}}
		for _, c := range m.Contents() {
			l.contents[c.SHA256] = true
		}
		if len(k.sums) == maxListed {
			k.sums = slices.Delete(k.sums, 0, 1)
		}
		k.sums = append(k.sums, l)
		i = len(k.sums) - 1
	}
	return k.sums[i].contents[sum]
}

// PutContent keeps what r gives under its hash.
func (k *Keeper) PutContent(ctx context.Context, sum string, r io.Reader) error {
	return contentError(k.cfg.Blobs.Put(ctx, sum, r, k.cfg.Limits.File))
}

// OpenContent opens a content.
func (k *Keeper) OpenContent(sum string) (*os.File, error) {
	f, err := k.cfg.Blobs.Open(sum)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.NotFound, "the control plane has no content %s", sum)
	}
	return f, contentError(err)
}

// contentError says what of a content's fault is the sender's.
func contentError(err error) error {
	switch {
	case errors.Is(err, blobs.ErrMismatch), errors.Is(err, blobs.ErrBadSum):
		return api.Errorf(api.Invalid, "%v", err)
	case errors.Is(err, blobs.ErrTooLarge):
		return api.Errorf(api.TooLarge, "%v", err)
	}
	return storageError(err)
}

// Unpack lays a folder out on this machine.
func (k *Keeper) Unpack(ctx context.Context, hash, dir string) error {
	m, err := k.Manifest(ctx, hash)
	if err != nil {
		return err
	}
	return codeset.Unpack(ctx, dir, m, func(sum string) (io.ReadCloser, error) { return k.cfg.Blobs.Open(sum) })
}

// spare is how long a folder stays that no run names: long enough to submit.
const spare = 24 * time.Hour

// Prune removes folders that no run names any more.
func (k *Keeper) Prune(ctx context.Context, needed []string, now time.Time) (int64, error) {
	keep := map[string]bool{}
	for _, hash := range needed {
		keep[hash] = true
		m, err := k.Manifest(ctx, hash)
		if err != nil {
			continue // it is gone, and its contents with it
		}
		for _, c := range m.Contents() {
			keep[c.SHA256] = true
		}
	}
	return k.cfg.Blobs.Prune(blobs.Policy{Keep: func(sum string) bool { return keep[sum] }, Spare: spare}, now)
}
