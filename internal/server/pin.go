package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Pin implements httpapi.Host: it keeps a run's bytes from retention, or lets
// them go. The mark lies beside the bytes that it guards.
func (s *server) Pin(runID string, pinned bool) error {
	dir := filepath.Join(s.cfg.DataDir, "runs", runID)
	mark := filepath.Join(dir, pinName)
	if !pinned {
		if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("unpin run %s: %w", runID, err)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("pin run %s: %w", runID, err)
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return fmt.Errorf("pin run %s: %w", runID, err)
	}
	return nil
}
