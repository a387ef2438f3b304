package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/graph"
	"cdui/internal/graph/secret"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/board"
	"cdui/internal/server/runs/journal"
	"cdui/internal/store"
	"cdui/internal/submission"
)

// Store is what the service needs of the database.
type Store interface {
	Apply(ctx context.Context, changes ...store.Change) ([]store.Result, error)
	NextArtifactID() int64
	Run(ctx context.Context, id string) (run.Row, error)
	ByKey(ctx context.Context, key string) (run.Row, error)
	Graph(ctx context.Context, id string) (json.RawMessage, error)
	Active(ctx context.Context) ([]run.Row, error)
	History
}

// History is what the service asks about runs that have ended.
type History interface {
	// RetriedAs gives the run that repeats another one, "" if none does.
	RetriedAs(ctx context.Context, id string) (string, error)
	// Peaks gives what the last n runs of one likeness took of a card.
	Peaks(ctx context.Context, likeness string, n int) ([]run.Peak, error)
	// RemovedWorkers lists the workers that were removed and not enrolled again.
	RemovedWorkers(ctx context.Context) ([]string, error)
}

// Config is what a Service is made of. Workers, Notify, Started, Ended and
// Logger may be nil.
type Config struct {
	Store Store
	// Executor carries out runs on the control plane's machine, Workers those
	// that were placed on a worker.
	Executor, Workers execution.Executor
	Limits            scheduler.Limits
	// Devices gives the machine's present inventory, Catalog the node types.
	Devices    func() device.Inventory
	Catalog    func(ctx context.Context) *catalog.Catalog
	PayloadCap int
	Grace      time.Duration
	// Interactive is how many runs of the interactive lane may execute at once.
	Interactive int
	// Notify is called after each commit that changed a run.
	Notify func(runID string)
	// Started is called after the commit that a run's child has started, Ended
	// after its terminal commit.
	Started, Ended func(row run.Row)
	Logger         *slog.Logger
}

// Service is the run service.
type Service struct {
	cfg    Config
	log    *slog.Logger
	ctx    context.Context //nolint:containedctx // the service's own life, cancelled by Close
	stop   context.CancelFunc
	wg     sync.WaitGroup
	keyed  sync.Mutex // serialises submits that carry a key
	mu     sync.Mutex
	closed bool
	runs   map[string]*entry
	// board has a lock of its own, which is taken after mu.
	board *board.Board
	// dependents maps a run to those that wait for its end.
	dependents map[string]map[string]bool
}

type phase int

const (
	waiting phase = iota
	placing
	executing
	ending
)

// entry is an active run in memory.
type entry struct {
	row     run.Row
	program graph.Program
	// ask is the place that the run wants, nil in the interactive lane, which
	// takes none; slots are those that it holds.
	ask   *scheduler.Ask
	slots []scheduler.Slot
	phase phase
	// aside is why a waiting run doesn't stand in its queue.
	aside *run.Reason
	// afterMet: the runs that this one waited for have ended as it asked.
	afterMet bool

	// record serialises Record for this run; it guards recorded.
	record   sync.Mutex
	recorded uint64

	inputs map[string]json.RawMessage
	// vault holds what secret params were set to; the stored graph has blanks.
	vault    secret.Vault
	cancel   *cancelOrder
	deadline time.Time
	pid      int
	progress json.RawMessage
}

// interactive tells whether the run is of the lane that never queues.
func (e *entry) interactive() bool { return e.row.Options.Lane == submission.Interactive }

type cancelOrder struct {
	grace time.Duration
	force bool
}

// New builds a service that owns nothing yet; Load fills it.
func New(cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Notify == nil {
		cfg.Notify = func(string) {}
	}
	if cfg.Started == nil {
		cfg.Started = func(run.Row) {}
	}
	if cfg.Ended == nil {
		cfg.Ended = func(run.Row) {}
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Service{
		cfg: cfg, log: cfg.Logger, ctx: ctx, stop: stop,
		runs: map[string]*entry{}, dependents: map[string]map[string]bool{},
	}
	s.board = board.New(cfg.Limits, s.schedule)
	return s
}

// Load takes over the active rows that an earlier process left: waiting runs
// keep their place, placed ones are adopted by the executor. Then it plans.
func (s *Service) Load(ctx context.Context) error {
	rows, err := s.cfg.Store.Active(ctx)
	if err != nil {
		return fmt.Errorf("load active runs: %w", err)
	}
	s.board.SetLocal(s.cfg.Devices())
	var local, away []execution.Job
	var gone []*entry
	for _, row := range rows {
		e, err := s.adopt(row)
		if err != nil {
			return fmt.Errorf("load run %s: %w", row.ID, err)
		}
		switch {
		case e.phase == waiting && e.hadSecrets():
			gone = append(gone, e)
		case e.phase == executing && !e.interactive():
			// It was handed its secrets when it started.
			job := execution.Job{Row: e.row, Program: e.program, Grace: s.cfg.Grace}
			if e.row.WorkerID == "" {
				local = append(local, job)
			} else {
				away = append(away, job)
			}
		}
	}
	for _, e := range gone {
		if err := s.forgetSecrets(ctx, e); err != nil {
			return fmt.Errorf("end run %s: %w", e.row.ID, err)
		}
	}
	if err := s.strandRemoved(ctx); err != nil {
		return err
	}
	for _, row := range rows {
		s.settleAfter(ctx, row.ID)
	}
	if err := s.cfg.Executor.Adopt(s.ctx, local, s); err != nil {
		return fmt.Errorf("adopt running runs: %w", err)
	}
	if s.cfg.Workers != nil {
		if err := s.cfg.Workers.Adopt(s.ctx, away, s); err != nil {
			return fmt.Errorf("adopt runs on workers: %w", err)
		}
	}
	if err := s.interruptSessions(ctx, rows); err != nil {
		return err
	}
	s.mu.Lock()
	for _, j := range slices.Concat(local, away) {
		if e := s.runs[j.Row.ID]; e != nil && e.cancel != nil {
			s.forwardCancel(e)
		}
	}
	s.mu.Unlock()
	s.schedule()
	return nil
}

// adopt puts a stored row back into memory.
func (s *Service) adopt(row run.Row) (*entry, error) {
	env, err := graph.ParseEnvelope(row.Graph)
	if err != nil {
		return nil, err
	}
	program, _, err := env.Program()
	if err != nil {
		return nil, err
	}
	e := &entry{row: row, program: program, recorded: row.RecordedSeq}
	if row.CancelRequestedAt != nil {
		e.cancel = &cancelOrder{grace: s.cfg.Grace}
	}
	if !e.interactive() {
		e.ask = submission.AskOf(row.Options, row.Devices, program)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[row.ID] = e
	if row.Status == run.Queued {
		s.enqueue(e)
		return e, nil
	}
	e.phase = executing
	e.pid = journal.PID(row.Facts)
	if e.ask != nil {
		e.slots = scheduler.SlotsOf(cmp.Or(row.WorkerID, scheduler.Local), row.Devices)
		s.board.Adopt(row.ID, e.slots, journal.Cards(row.Facts, row.Devices), e.ask.BudgetMiB)
	}
	return e, nil
}

// interruptSessions ends the interactive runs of an earlier process: whoever
// waited for them is gone. The executor has cleared away what was left of them.
func (s *Service) interruptSessions(ctx context.Context, rows []run.Row) error {
	for _, row := range rows {
		s.mu.Lock()
		e := s.runs[row.ID]
		s.mu.Unlock()
		if e == nil || !e.interactive() {
			continue
		}
		f := protocol.Finished{Status: string(run.Interrupted), EndClass: string(run.EndServer), Error: "the control plane was restarted"}
		if err := s.end(ctx, e, row.Attempt, f); err != nil {
			return fmt.Errorf("end interactive run %s: %w", row.ID, err)
		}
	}
	return nil
}

// job hands out a run with its secrets back in place. The caller holds mu.
func (s *Service) job(e *entry) (execution.Job, error) {
	job := execution.Job{Row: e.row, Program: e.program, Grace: s.cfg.Grace, Inputs: e.inputs}
	if e.ask != nil {
		job.Row.Options.Device = e.row.Devices[0] // which of its kind it got
	}
	var err error
	if job.Row.Graph, err = secret.Restore(e.row.Graph, e.vault); err != nil {
		return execution.Job{}, fmt.Errorf("run %s: %w", e.row.ID, err)
	}
	return job, nil
}

// Board is what runs are placed by, for those who tell it of machines and of
// what people decide.
func (s *Service) Board() *board.Board { return s.board }

// DevicesChanged takes in the machine's present devices.
func (s *Service) DevicesChanged() { s.board.SetLocal(s.cfg.Devices()) }

// CancelAll asks every active run to stop within grace.
func (s *Service) CancelAll(ctx context.Context, grace time.Duration) {
	s.mu.Lock()
	ids := make([]string, 0, len(s.runs))
	for id := range s.runs {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		if _, err := s.Cancel(ctx, id, grace, false); err != nil {
			s.log.Warn("cancel at shutdown", "run_id", id, "error", err)
		}
	}
}

// Executing counts the runs that have been placed and have not ended.
func (s *Service) Executing() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.runs {
		if e.phase != waiting {
			n++
		}
	}
	return n
}

// Close stops planning and waits for everything that is under way in the
// service. Executing runs go on without it.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}
