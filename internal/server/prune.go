package server

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cdui/internal/retention"
)

// Retention says what is kept of ended runs.
type Retention struct {
	// Bytes bounds logs, outputs and caches.
	Bytes retention.Policy
	// KeepRuns is how many rows are kept; negative keeps all.
	KeepRuns int
}

const pruneEvery = time.Hour

// prune applies the retention at start and every hour until ctx is over.
func (s *server) prune(ctx context.Context, folder *folder) {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		s.pruneBytes(folder.path("runs"))
		s.pruneRows(ctx)
		s.pruneFiles(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *server) pruneBytes(dir string) {
	kept, err := keptIn(dir)
	if err != nil {
		s.log.Warn("look for bytes to prune", "error", err)
		return
	}
	for _, id := range retention.Expired(kept, s.cfg.Retention.Bytes, time.Now()) {
		s.log.Info("prune bytes", "run_id", id)
		s.exec.Forget(id)
	}
}

// keptIn measures the kept folders. A folder's newest file tells when its run
// ended, within what matters here.
func keptIn(dir string) ([]retention.Kept, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []retention.Kept
	for _, e := range entries {
		k := retention.Kept{RunID: e.Name()}
		err := filepath.WalkDir(filepath.Join(dir, e.Name()), func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it vanished while we looked
			}
			if info, err := d.Info(); err == nil && !d.IsDir() {
				k.Bytes += info.Size()
				if info.ModTime().After(k.Ended) {
					k.Ended = info.ModTime()
				}
				k.Pinned = k.Pinned || d.Name() == pinName
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if k.Bytes > 0 || k.Pinned {
			out = append(out, k)
		}
	}
	return out, nil
}

// pinName marks a kept folder that retention must leave alone.
const pinName = "pinned"

func (s *server) pruneRows(ctx context.Context) {
	if s.cfg.Retention.KeepRuns < 0 {
		return
	}
	ids, err := s.store.Finished(ctx, s.cfg.Retention.KeepRuns)
	if err != nil {
		s.log.Warn("look for rows to prune", "error", err)
		return
	}
	if len(ids) == 0 {
		return
	}
	if err := s.harvest(ctx, ids); err != nil {
		s.log.Warn("rows are not pruned: sweeps and studies could not keep how their runs ended", "error", err)
		return
	}
	for _, id := range ids {
		if err := s.store.Delete(ctx, id); err != nil {
			s.log.Warn("prune row", "run_id", id, "error", err)
			continue
		}
		s.exec.Forget(id)
	}
}
