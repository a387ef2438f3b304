package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"cdui/internal/blobs"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
	"cdui/internal/store"
)

// Hashes remembers the content hashes of files in the data folder.
type Hashes interface {
	FileHash(ctx context.Context, path string, size int64, modAt time.Time) (string, error)
	KeepFileHashes(ctx context.Context, hashes ...store.FileHash) error
}

// inputsName is a file that holds the hash of the list of a run's inputs.
const inputsName = "inputs"

// Inputs gives the files of the data folder that a run reads, by content, and
// keeps the contents for its worker. places are relative to the data folder;
// where there is no file, the worker may have one of its own.
func (k *Keeper) Inputs(ctx context.Context, runID string, places []string) ([]protocol.File, error) {
	root, err := os.OpenRoot(k.cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	defer root.Close()
	seen := map[string]bool{}
	var list []protocol.File
	var entries []codeset.Entry
	for _, place := range places {
		place = path.Clean(place)
		if seen[place] || protocol.Path(place).Check() != nil {
			continue
		}
		seen[place] = true
		// A link that leads out of the data folder is refused by root.
		info, err := root.Stat(place)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		entries = append(entries, codeset.Entry{Path: protocol.Path(place), Size: info.Size()})
		if err := (codeset.Limits{Total: k.cfg.Limits.Folder}).Check(entries); err != nil {
			return nil, fmt.Errorf("the files that run %s reads can't be sent to its worker: %w", runID, err)
		}
		f, err := k.input(ctx, root, place)
		if err != nil {
			return nil, fmt.Errorf("send %s to the worker of run %s: %w", codeset.Quote(protocol.Path(place)), runID, err)
		}
		list = append(list, f)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, k.noteInputs(ctx, runID, list)
}

// input keeps the content of one file. It is read only when its size or time
// has changed, or its content is not kept any more.
func (k *Keeper) input(ctx context.Context, root *os.Root, place string) (protocol.File, error) {
	f, err := root.Open(place)
	if err != nil {
		return protocol.File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return protocol.File{}, err
	}
	full := filepath.Join(k.cfg.DataDir, filepath.FromSlash(place))
	out := protocol.File{Path: protocol.Path(place), Size: info.Size()}
	if out.SHA256, err = k.cfg.Hashes.FileHash(ctx, full, info.Size(), info.ModTime()); err != nil {
		return protocol.File{}, err
	}
	if out.SHA256 != "" && k.cfg.Blobs.Use(out.SHA256) {
		return out, nil
	}
	h := sha256.New()
	if out.Size, err = copyBounded(ctx, h, f, 0); err != nil {
		return protocol.File{}, err
	}
	out.SHA256 = hex.EncodeToString(h.Sum(nil))
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return protocol.File{}, err
	}
	err = k.cfg.Blobs.Put(ctx, out.SHA256, f, 0)
	if errors.Is(err, blobs.ErrMismatch) {
		return protocol.File{}, errors.New("it changed while it was read")
	}
	if err != nil {
		return protocol.File{}, storageError(err)
	}
	// Trusted only where no write within the clock's own grain can hide.
	if time.Since(info.ModTime()) > 2*time.Second {
		err = k.cfg.Hashes.KeepFileHashes(ctx, store.FileHash{Path: full, Size: out.Size, ModAt: info.ModTime(), SHA256: out.SHA256})
	}
	return out, err
}

// noteInputs keeps what the run's worker may read, for a control plane that is
// started anew while it does.
func (k *Keeper) noteInputs(ctx context.Context, runID string, list []protocol.File) error {
	m, err := codeset.New(list)
	if err != nil {
		return err
	}
	raw, err := m.Encode()
	if err != nil {
		return err
	}
	hash := codeset.Hash(raw)
	if err := k.cfg.Blobs.Put(ctx, hash, bytes.NewReader(raw), 0); err != nil {
		return storageError(err)
	}
	root, err := k.runFolder(runID)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.WriteFile(inputsName, []byte(hash), 0o600); err != nil {
		return storageError(fmt.Errorf("note the inputs of run %s: %w", runID, err))
	}
	return nil
}

// Reads tells whether a run reads a content as one of its inputs.
func (k *Keeper) Reads(ctx context.Context, runID, sum string) bool {
	raw, err := os.ReadFile(filepath.Join(k.cfg.RunsDir, runID, inputsName))
	if err != nil {
		return false
	}
	return k.Names(ctx, strings.TrimSpace(string(raw)), sum)
}
