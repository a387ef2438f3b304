package server

import (
	"context"
	"time"

	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/files"
	"cdui/internal/server/runs"
	"cdui/internal/server/workers/assign"
	"cdui/internal/store"
	"cdui/internal/submission"
	"cdui/internal/token"
)

// composeFiles makes the keeper of what runs bring along and leave behind.
func (s *server) composeFiles(folder *folder) error {
	contents, err := blobs.Open(folder.path("blobs"))
	if err != nil {
		return err
	}
	s.files = files.New(files.Config{Blobs: contents, RunsDir: folder.path("runs"), Limits: s.cfg.Files})
	return nil
}

// pruneFiles removes folders of programs that no row names any more.
func (s *server) pruneFiles(ctx context.Context) {
	needed, err := s.store.CodeHashes(ctx)
	if err == nil {
		var freed int64
		if freed, err = s.files.Prune(ctx, needed, time.Now()); freed > 0 {
			s.log.InfoContext(ctx, "prune folders of programs", "bytes", freed)
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "prune folders of programs", "error", err)
	}
}

// shipper sends the folders that came along with runs on to workers.
type shipper struct{ files *files.Keeper }

// Ship implements assign.Shipper.
func (s shipper) Ship(ctx context.Context, job runs.Job, _ assign.Destination, a *protocol.Assign) error {
	code := submission.FactsOf(job.Row).Code
	if code == nil {
		return nil
	}
	return s.files.Ship(ctx, *code, a)
}

// roster is what peers asks of the registry of workers.
type roster interface {
	Worker(ctx context.Context, name string) (api.Worker, error)
}

// ledger is what peers asks of the store.
type ledger interface {
	Workers(ctx context.Context) ([]store.Worker, error)
	Run(ctx context.Context, id string) (run.Row, error)
}

// peers implements httpapi.Peers: a worker reads what its present runs need,
// and writes what they leave.
type peers struct {
	roster roster
	ledger ledger
	files  *files.Keeper
}

// Worker implements httpapi.Peers.
func (p peers) Worker(ctx context.Context, given string) (string, bool) {
	if given == "" {
		return "", false
	}
	list, err := p.ledger.Workers(ctx)
	if err != nil {
		return "", false
	}
	for _, w := range list {
		if w.TokenHash != "" && token.Matches(given, w.TokenHash) {
			return w.Name, true
		}
	}
	return "", false
}

// Holds implements httpapi.Peers.
func (p peers) Holds(ctx context.Context, worker, runID string) bool {
	w, err := p.roster.Worker(ctx, worker)
	if err != nil {
		return false
	}
	for _, id := range w.Runs {
		if id == runID {
			return true
		}
	}
	return false
}

// MayRead implements httpapi.Peers.
func (p peers) MayRead(ctx context.Context, worker, sum string) bool {
	w, err := p.roster.Worker(ctx, worker)
	if err != nil {
		return false
	}
	for _, id := range w.Runs {
		row, err := p.ledger.Run(ctx, id)
		if err != nil {
			continue
		}
		if code := submission.FactsOf(row).Code; code != nil && p.files.Names(ctx, code.Hash, sum) {
			return true
		}
	}
	return false
}
