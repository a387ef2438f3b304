package sweeps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/run"
	"cdui/internal/store"
	"cdui/internal/sweep"
)

// Submitter is what the service needs of the run service.
type Submitter interface {
	// Check refuses what Submit would refuse.
	Check(ctx context.Context, req api.SubmitRequest) error
	// Submit takes all runs or none.
	Submit(ctx context.Context, user string, requests ...api.SubmitRequest) ([]api.SubmitReply, error)
	Cancel(ctx context.Context, id string, grace time.Duration, force bool) (api.CancelReply, error)
	View(row run.Row) api.Run
}

// Ledger keeps the rows of sweeps.
type Ledger interface {
	AddSweep(ctx context.Context, w store.Sweep) error
	KeepSweep(ctx context.Context, w store.Sweep) error
	RemoveSweep(ctx context.Context, id string) error
	Childless(ctx context.Context) ([]string, error)
	Finder
}

// Finder reads them.
type Finder interface {
	Sweep(ctx context.Context, id string) (store.Sweep, error)
	SweepOfKey(ctx context.Context, key string) (store.Sweep, error)
	Sweeps(ctx context.Context, limit, offset int) ([]store.Sweep, int, error)
	ResolveSweep(ctx context.Context, prefix string) ([]string, error)
}

// Runs reads the rows of runs.
type Runs interface {
	RunsOf(ctx context.Context, ids []string) (map[string]run.Row, error)
	RunsOfSweep(ctx context.Context, sweep string) ([]run.Row, error)
	LastValues(ctx context.Context, id, name string) (map[string]run.Last, error)
	FinalMetricsOf(ctx context.Context, ids []string) (map[string]map[string]json.RawMessage, error)
}

// Config is what a Service is made of. Logger may be nil.
type Config struct {
	Submitter Submitter
	Ledger    Ledger
	Runs      Runs
	Catalog   func(ctx context.Context) *catalog.Catalog
	Limits    sweep.Limits
	Logger    *slog.Logger
}

// Service keeps sweeps.
type Service struct {
	cfg Config
	log *slog.Logger
	// mu makes one of what reads a sweep, acts on it and keeps it.
	mu sync.Mutex
}

// New builds a service.
func New(cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, log: cfg.Logger}
}

// Load removes what submits left that were cut off.
func (s *Service) Load(ctx context.Context) error {
	ids, err := s.cfg.Ledger.Childless(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		s.log.Info("a sweep was never queued", "sweep_id", id)
		if err := s.cfg.Ledger.RemoveSweep(ctx, id); err != nil {
			return fmt.Errorf("remove sweep %s, which was never queued: %w", id, err)
		}
	}
	return nil
}

// find resolves a sweep's id, which may be shortened.
func (s *Service) find(ctx context.Context, id string) (store.Sweep, error) {
	ids, err := s.cfg.Ledger.ResolveSweep(ctx, id)
	if err != nil {
		return store.Sweep{}, err
	}
	whole, err := api.Resolve("sweep", id, ids)
	if err != nil {
		return store.Sweep{}, err
	}
	w, err := s.cfg.Ledger.Sweep(ctx, whole)
	if errors.Is(err, store.ErrUnknown) {
		err = api.Errorf(api.NotFound, "no sweep %q", id).With("id", id)
	}
	return w, err
}

// List gives a page of sweeps, newest first.
func (s *Service) List(ctx context.Context, limit, offset int) (api.SweepList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, total, err := s.cfg.Ledger.Sweeps(ctx, limit, offset)
	if err != nil {
		return api.SweepList{}, err
	}
	out := api.SweepList{Sweeps: make([]api.SweepSummary, len(list)), Total: total, Limit: limit, Offset: offset}
	for i, w := range list {
		o, err := s.open(ctx, w)
		if err != nil {
			return api.SweepList{}, err
		}
		out.Sweeps[i] = o.summary()
	}
	return out, nil
}

// Show gives one sweep.
func (s *Service) Show(ctx context.Context, id string) (api.Sweep, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.opened(ctx, id)
	if err != nil {
		return api.Sweep{}, err
	}
	return s.shown(ctx, o)
}

// CSV gives one sweep as a table, and its id.
func (s *Service) CSV(ctx context.Context, id string) (string, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.opened(ctx, id)
	if err != nil {
		return "", nil, err
	}
	raw, err := sweep.CSV(o.plan.Params, o.rows())
	return o.w.ID, raw, err
}

// Harvest keeps how the runs ended that are about to be removed.
func (s *Service) Harvest(ctx context.Context, runs []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows, err := s.cfg.Runs.RunsOf(ctx, runs)
	if err != nil {
		return err
	}
	done := map[string]bool{}
	for _, row := range rows {
		if row.SweepID == "" || done[row.SweepID] {
			continue
		}
		done[row.SweepID] = true
		w, err := s.cfg.Ledger.Sweep(ctx, row.SweepID)
		if errors.Is(err, store.ErrUnknown) {
			continue
		}
		if err == nil {
			_, err = s.open(ctx, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
