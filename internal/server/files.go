package server

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"time"

	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/catalog"
	"cdui/internal/graph"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/files"
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
	s.files = files.New(files.Config{
		Blobs: contents, RunsDir: folder.path("runs"), DataDir: s.cfg.DataDir, Hashes: s.store, Limits: s.cfg.Files, Writes: s.writes,
	})
	return nil
}

// writes tells whether the nodes of a graph run write a place in the data folder.
func (s *server) writes(ctx context.Context, runID, place string) bool {
	raw, err := s.store.Graph(ctx, runID)
	if err != nil {
		return false
	}
	cat := s.Catalog(ctx)
	prepared, findings := graph.Prepare(raw, cat)
	return len(findings) == 0 && slices.ContainsFunc(graph.Files(prepared, cat), func(u graph.FileUse) bool { return u.Writes(place) })
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

// shipper sends on to workers what runs bring along: the folders of programs,
// and the files of the data folder that graphs read.
type shipper struct {
	files   *files.Keeper
	catalog func(context.Context) *catalog.Catalog
}

// Ship implements assign.Shipper.
func (s shipper) Ship(ctx context.Context, job execution.Job, to assign.Destination, a *protocol.Assign) error {
	if code := submission.FactsOf(job.Row).Code; code != nil {
		return s.files.Ship(ctx, *code, a)
	}
	if a.Graph == nil || !to.Capabilities.Has(protocol.CapTransfer) {
		return nil
	}
	cat := s.catalog(ctx)
	prepared, findings := graph.Prepare(job.Row.Graph, cat)
	if len(findings) > 0 {
		return nil // nothing that could be executed
	}
	inputs, err := s.files.Inputs(ctx, a.RunID, inputPlaces(graph.Files(prepared, cat)))
	if err != nil || len(inputs) == 0 {
		return err
	}
	a.Storage = &protocol.Storage{Backend: protocol.BackendTransfer, Inputs: inputs}
	return nil
}

// inputPlaces lists where in the data folder the files may lie that a graph
// reads. A node looks at several places in an order of its own, so each is sent
// that is there.
func inputPlaces(uses []graph.FileUse) []string {
	var out []string
	for _, u := range uses {
		if u.Write || u.Path == "" || filepath.IsAbs(u.Path) {
			continue
		}
		for _, folder := range []string{"", "data", "models", "images"} {
			out = append(out, path.Join(folder, u.Path))
		}
	}
	return out
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
	return err == nil && slices.Contains(w.Runs, runID)
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
		if code := submission.FactsOf(row).Code; code != nil && p.files.Names(ctx, code.Hash, sum) || p.files.Reads(ctx, id, sum) {
			return true
		}
	}
	return false
}
