package server

import (
	"context"
	"time"

	"cdui/internal/catalog"
	"cdui/internal/run"
	"cdui/internal/server/httpapi"
	"cdui/internal/server/runs"
	"cdui/internal/server/runs/board"
	"cdui/internal/server/tokens"
	"cdui/internal/server/workers"
	"cdui/internal/server/workers/assign"
)

// catalogEvery is how often workers' node types are compared with the server's,
// where those have changed.
const catalogEvery = 10 * time.Second

// placer is what the registry tells of its workers.
type placer struct {
	*board.Board
	*runs.Service
}

// composeWorkers makes the registry of workers and the keeper of users' tokens.
func (s *server) composeWorkers(ctx context.Context, tokenHash, url string) error {
	var err error
	if s.tokens, err = tokens.Open(ctx, s.store); err != nil {
		return err
	}
	s.workers = workers.New(workers.Config{
		Store: s.store, Catalog: s.Catalog, Version: s.info.Version, MachineID: s.info.MachineID, TokenHash: tokenHash,
		Heartbeat: s.cfg.Heartbeat, Grace: s.cfg.Grace, ResumeGrace: s.cfg.ResumeGrace,
		Assign: assign.Builder{Catalog: s.Catalog, Shipper: shipper{s.files, s.Catalog}, PayloadCap: s.cfg.PayloadCap, MaxParallel: s.cfg.MaxParallel},
		URL:    url, Pin: s.info.Pin, Logger: s.log,
	})
	return nil
}

// closeWorkers ends the connections to workers. Their runs go on.
func (s *server) closeWorkers(ctx context.Context) {
	s.workers.Close()
	if err := s.tokens.Close(ctx); err != nil {
		s.log.Warn("keep when tokens were used", "error", err)
	}
}

// watchCatalog has workers compared anew when the server's node types change.
func (s *server) watchCatalog(ctx context.Context) {
	tick := time.NewTicker(catalogEvery)
	defer tick.Stop()
	var last *catalog.Catalog
	for {
		if now := s.Catalog(ctx); now != last {
			s.workers.CatalogChanged(ctx)
			last = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Console implements httpapi.Host. The output of a run that executes on a worker
// is there; afterwards it is here, if the worker brought it.
func (s *server) Console(ctx context.Context, runID string) httpapi.Console {
	here := s.exec.Console(runID)
	row, err := s.store.Run(ctx, runID)
	if err != nil || row.WorkerID == "" {
		return here
	}
	if row.Status == run.Queued {
		return here
	}
	if row.Status.Terminal() {
		if size, err := here.Size(); err != nil || size > 0 || !s.workers.Online(row.WorkerID) {
			return here
		}
	}
	return afar{there: s.workers.Console(ctx, row.WorkerID, runID), here: here}
}
