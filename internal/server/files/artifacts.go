package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/codeset"
	"cdui/internal/console"
	"cdui/internal/fsinfo"
	"cdui/internal/protocol"
	"cdui/internal/store"
)

const (
	artifactsDir = "artifacts"
	incomingDir  = "incoming"
	sourcesName  = "sources.jsonl"
	maxSource    = 8192
	// reserve is what a file from a worker leaves free, for the database.
	reserve = 1 << 30
)

// storageError tells a full disk from other faults.
func storageError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

// SaveArtifact keeps a file of a run at a path below its artifacts. The same
// file again is not read again; another one at the same path replaces it.
func (k *Keeper) SaveArtifact(ctx context.Context, runID string, a api.ArtifactUpload, r io.Reader) (api.UploadReply, error) {
	p, sum, size := a.Path, a.SHA256, a.Size
	if err := p.Check(); err != nil {
		return api.UploadReply{}, api.Errorf(api.Invalid, "path: %v", err)
	}
	if len(a.Source) > maxSource {
		return api.UploadReply{}, api.Errorf(api.Invalid, "source has %d bytes, the limit is %d", len(a.Source), maxSource)
	}
	if !codeset.ValidSum(sum) {
		return api.UploadReply{}, api.Errorf(api.Invalid, "send the file's SHA-256 in lower-case hex as %s", api.HeaderSHA256)
	}
	limit := k.cfg.Limits.Artifact
	if limit > 0 && size > limit {
		return api.UploadReply{}, api.Errorf(api.TooLarge, "%s has %s, and a file of a run may have %s", codeset.Quote(p), codeset.Size(size), codeset.Size(limit)).With("limit", limit)
	}
	root, err := k.runFolder(runID)
	if err != nil {
		return api.UploadReply{}, err
	}
	defer root.Close()
	if k.cfg.Writes != nil && k.cfg.Writes(ctx, runID, string(p)) {
		return k.saveWritten(ctx, root, a, r)
	}
	to := path.Join(artifactsDir, string(p))
	if n, ok := isThere(root, to, sum, size); ok {
		return api.UploadReply{SHA256: sum, Size: n}, k.noteSource(root, a, false)
	}
	if space, err := fsinfo.SpaceAt(k.cfg.RunsDir); err == nil && size > 0 && uint64(size)+reserve > space.Free {
		return api.UploadReply{}, api.Errorf(api.StorageFull, "the control plane has %s left, too little for %s (%s)", codeset.Size(int64(space.Free)), codeset.Quote(p), codeset.Size(size))
	}
	n, err := receive(ctx, root, incomingDir, to, sum, limit, r)
	if err != nil {
		return api.UploadReply{}, err
	}
	return api.UploadReply{SHA256: sum, Size: n}, k.noteSource(root, a, false)
}

func (k *Keeper) runFolder(runID string) (*os.Root, error) {
	dir := filepath.Join(k.cfg.RunsDir, runID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, storageError(fmt.Errorf("make folder of run %s: %w", runID, err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder of run %s: %w", runID, err)
	}
	for _, sub := range []string{artifactsDir, incomingDir} {
		if err := root.Mkdir(sub, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			root.Close()
			return nil, storageError(fmt.Errorf("make folder of run %s: %w", runID, err))
		}
	}
	return root, nil
}

// isThere tells whether a file with these bytes lies at a path already. Its
// hash is computed when the sizes agree.
func isThere(root *os.Root, name, sum string, size int64) (int64, bool) {
	f, err := root.Open(name)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || size >= 0 && info.Size() != size {
		return 0, false
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return 0, false
	}
	return info.Size(), hex.EncodeToString(h.Sum(nil)) == sum
}

// receive writes r into the folder by and moves it to its place when all is right.
func receive(ctx context.Context, root *os.Root, by, to, sum string, limit int64, r io.Reader) (n int64, err error) {
	tmp := path.Join(by, rand.Text())
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, storageError(fmt.Errorf("receive file: %w", err))
	}
	defer func() {
		if err != nil {
			_ = root.Remove(tmp) // goes with the run's folder at the latest
		}
	}()
	h := sha256.New()
	n, err = copyBounded(ctx, io.MultiWriter(f, h), r, limit)
	if err == nil && hex.EncodeToString(h.Sum(nil)) != sum {
		err = blobs.ErrMismatch
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, contentError(fmt.Errorf("receive file: %w", err))
	}
	if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return 0, placeError(err, to)
	}
	if err := root.Rename(tmp, to); err != nil {
		return 0, placeError(err, to)
	}
	return n, nil
}

// placeError says that a path is taken by something else of the run.
func placeError(err error, to string) error {
	for _, taken := range []error{syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.ENOTEMPTY} {
		if errors.Is(err, taken) {
			return api.Errorf(api.Conflict, "%s can't be kept: the run has a file and a folder of one name", codeset.Quote(protocol.Path(to)))
		}
	}
	return storageError(fmt.Errorf("keep file: %w", err))
}

func copyBounded(ctx context.Context, w io.Writer, r io.Reader, limit int64) (int64, error) {
	buf := make([]byte, 256<<10)
	for done := int64(0); ; {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if done += int64(n); limit > 0 && done > limit {
			return done, fmt.Errorf("%w: more than %d bytes", blobs.ErrTooLarge, limit)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return done, err
		}
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if err != nil {
			return done, err
		}
	}
}

// SaveLog keeps the console of a run that ended on a worker.
func (k *Keeper) SaveLog(ctx context.Context, runID string, r io.Reader) error {
	dir := filepath.Join(k.cfg.RunsDir, runID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return storageError(fmt.Errorf("keep log of run %s: %w", runID, err))
	}
	err := console.Import(ctx, dir, r, api.MaxLogBytes)
	if errors.Is(err, console.ErrBadArchive) {
		return api.Errorf(api.Invalid, "the log of run %s can't be read: %v", runID, err)
	}
	return storageError(err)
}
