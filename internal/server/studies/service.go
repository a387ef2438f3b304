package studies

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/run"
	"cdui/internal/store"
)

// Submitter is what the service needs of the run service.
type Submitter interface {
	// Check refuses what Submit would refuse.
	Check(ctx context.Context, req api.SubmitRequest) error
	// Submit takes all runs or none; one whose key is there already is answered
	// with the run that has it.
	Submit(ctx context.Context, user string, requests ...api.SubmitRequest) ([]api.SubmitReply, error)
	Cancel(ctx context.Context, id string, grace time.Duration, force bool) (api.CancelReply, error)
	View(row run.Row) api.Run
}

// Ledger keeps the rows of studies.
type Ledger interface {
	AddStudy(ctx context.Context, y store.Study) error
	KeepStudy(ctx context.Context, y store.Study) error
	RemoveStudy(ctx context.Context, id string) error
	UnfinishedStudies(ctx context.Context) ([]store.Study, error)
	Finder
}

// Finder reads them.
type Finder interface {
	Study(ctx context.Context, id string) (store.Study, error)
	StudyOfKey(ctx context.Context, key string) (store.Study, error)
	Studies(ctx context.Context, limit, offset int) ([]store.Study, int, error)
	ResolveStudy(ctx context.Context, prefix string) ([]string, error)
}

// Runs reads the rows of runs.
type Runs interface {
	RunsOf(ctx context.Context, ids []string) (map[string]run.Row, error)
	ByKey(ctx context.Context, key string) (run.Row, error)
	LastValues(ctx context.Context, id, name string) (map[string]run.Last, error)
}

// Sweeps gives what a study repeats of a sweep.
type Sweeps interface {
	// Best gives the submit of a sweep's best variant, the sweep's whole id and
	// the variant's index.
	Best(ctx context.Context, id string) (api.SubmitRequest, string, int, error)
}

// Config is what a Service is made of. Logger may be nil.
type Config struct {
	Submitter Submitter
	Ledger    Ledger
	Runs      Runs
	Sweeps    Sweeps
	Catalog   func(ctx context.Context) *catalog.Catalog
	Logger    *slog.Logger
}

// Service keeps and drives studies.
type Service struct {
	cfg   Config
	log   *slog.Logger
	nudge chan struct{}
	// mu makes one of what reads a study, acts on it and keeps it.
	mu sync.Mutex
	// known are the studies for which all runs are noted on the row.
	known map[string]bool
}

// New builds a service; Drive drives it.
func New(cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, log: cfg.Logger, nudge: make(chan struct{}, 1), known: map[string]bool{}}
}

// Nudge has the studies looked at: something may have ended. It never waits.
func (s *Service) Nudge() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

const (
	// idleLook is how often studies are looked at where nothing tells to.
	idleLook = 30 * time.Second
	// retryLook is when to try again what failed.
	retryLook = 2 * time.Second
)

// Drive drives all studies until ctx is over.
func (s *Service) Drive(ctx context.Context) {
	for {
		wait := s.round(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.nudge:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// round goes through the studies that are under way once, and tells how long
// nothing is to be done for them unless something ends.
func (s *Service) round(ctx context.Context) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.cfg.Ledger.UnfinishedStudies(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("look for studies", "error", err)
		}
		return retryLook
	}
	wait := idleLook
	for _, y := range list {
		o, err := s.open(ctx, y)
		if err == nil {
			err = s.advance(ctx, o)
		}
		switch {
		case ctx.Err() != nil:
			return idleLook
		case err != nil:
			s.log.Warn("drive a study; it is tried again", "study_id", y.ID, "error", err)
			wait = min(wait, retryLook)
		default:
			wait = min(wait, o.wait)
		}
	}
	return wait
}

// Harvest keeps how attempts ended whose rows are about to be removed.
func (s *Service) Harvest(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.cfg.Ledger.UnfinishedStudies(ctx)
	for _, y := range list {
		if _, openErr := s.open(ctx, y); openErr != nil {
			err = errors.Join(err, openErr)
		}
	}
	return err
}

// find resolves a study's id, which may be shortened.
func (s *Service) find(ctx context.Context, id string) (store.Study, error) {
	ids, err := s.cfg.Ledger.ResolveStudy(ctx, id)
	if err != nil {
		return store.Study{}, err
	}
	whole, err := api.Resolve("study", id, ids)
	if err != nil {
		return store.Study{}, err
	}
	y, err := s.cfg.Ledger.Study(ctx, whole)
	if errors.Is(err, store.ErrUnknown) {
		err = api.Errorf(api.NotFound, "no study %q", id).With("id", id)
	}
	return y, err
}

// List gives a page of studies, newest first.
func (s *Service) List(ctx context.Context, limit, offset int) (api.StudyList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, total, err := s.cfg.Ledger.Studies(ctx, limit, offset)
	if err != nil {
		return api.StudyList{}, err
	}
	out := api.StudyList{Studies: make([]api.StudySummary, len(list)), Total: total, Limit: limit, Offset: offset}
	for i, y := range list {
		o, err := s.open(ctx, y)
		if err != nil {
			return api.StudyList{}, err
		}
		out.Studies[i] = o.summary()
	}
	return out, nil
}

// Show gives one study.
func (s *Service) Show(ctx context.Context, id string) (api.Study, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.opened(ctx, id)
	if err != nil {
		return api.Study{}, err
	}
	return o.show(), nil
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
