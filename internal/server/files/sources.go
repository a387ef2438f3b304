package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cdui/internal/api"
	"cdui/internal/protocol"
)

// source is a line of what a run's files were called on their worker. The rows
// of artifacts have those names, since the run reported them before its files
// came.
type source struct {
	Source string        `json:"source"`
	Path   protocol.Path `json:"path"`
	// Written: it is in the data folder and not among the run's artifacts.
	Written bool `json:"written,omitempty"`
}

func (k *Keeper) noteSource(root *os.Root, a api.ArtifactUpload, written bool) (err error) {
	if a.Source == "" {
		return nil
	}
	line, err := json.Marshal(source{Source: a.Source, Path: a.Path, Written: written})
	if err != nil {
		return fmt.Errorf("note where %s came from: %w", a.Path, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	f, err := root.OpenFile(sourcesName, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return storageError(fmt.Errorf("note where %s came from: %w", a.Path, err))
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// It begins with a newline too, in case the line before was cut.
	if _, err := f.Write(bytes.Join([][]byte{nil, line, nil}, []byte("\n"))); err != nil {
		return storageError(fmt.Errorf("note where %s came from: %w", a.Path, err))
	}
	return nil
}

// Brought maps what the files of a run were called on their worker to where
// they are here.
func (k *Keeper) Brought(runID string) (map[string]string, error) {
	dir := filepath.Join(k.cfg.RunsDir, runID)
	raw, err := os.ReadFile(filepath.Join(dir, sourcesName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read where the files of run %s came from: %w", runID, err)
	}
	out := map[string]string{}
	for line := range bytes.Lines(raw) {
		var s source
		if json.Unmarshal(line, &s) == nil && s.Path.Check() == nil {
			out[s.Source] = filepath.Join(dir, artifactsDir, string(s.Path))
			if s.Written {
				out[s.Source] = filepath.Join(k.cfg.DataDir, string(s.Path))
			}
		}
	}
	return out, nil
}
