package shimhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost/spawn"
)

var (
	// ErrExists is wrapped when a run's folder is there already.
	ErrExists = errors.New("run has a folder already")
	// ErrNoRun is wrapped for a run without a folder.
	ErrNoRun = errors.New("no such run here")
	// ErrLive is wrapped when a run's shim is still at work.
	ErrLive = errors.New("run is still going")
	// ErrEnded is wrapped when a run's shim is gone.
	ErrEnded = errors.New("run has ended")
	// ErrReplaced is wrapped when another host follows the run now.
	ErrReplaced = errors.New("another host follows this run")
	// ErrNeverStarted is wrapped when a run's child was never started.
	ErrNeverStarted = errors.New("run was never started")
	// ErrLost is wrapped when a run's shim died without a record of the end.
	ErrLost = errors.New("run's supervisor died without a record of the end")
)

// LostError is the ErrLost of one run.
type LostError struct {
	RunID string
	// BootChanged tells that the machine was started anew since.
	BootChanged bool
	// Swept lists what was left of the run and has been killed.
	Swept []protocol.KilledProcess
}

func (e *LostError) Error() string {
	if e.BootChanged {
		return fmt.Sprintf("run %s: the machine was restarted while it ran", e.RunID)
	}
	return fmt.Sprintf("run %s: %v", e.RunID, ErrLost)
}

// Is makes a LostError an ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Limits bounds what one run may take; zero fields take the shim's defaults.
type Limits struct {
	ConsoleHead, ConsoleCap int64
	SpoolCap                int64
	AssignWait, StuckAfter  time.Duration
}

// Config is what a Host needs.
type Config struct {
	// Dir holds the runs' folders; it must lie on a local disk.
	Dir string
	// Exe is the cdui binary to start shims from; empty is this process's own.
	Exe string
	// Log is the file that takes what shims have to say, which is hardly
	// anything; empty is shim.log beside Dir.
	Log string
	// Isolate is auto, pidns, userns, keeper or none; empty is auto.
	Isolate string
	// Env is given to the shims besides what they need; never put a secret
	// here.
	Env    []string
	Limits Limits
	// Scopes may be nil: shims stay in this process's unit.
	Scopes Scopes
	Logger *slog.Logger
}

// Auto asks for the best isolation that holds on this machine.
const Auto = spawn.Auto

// Host starts and finds the shims of one folder. It is safe for concurrent
// use.
type Host struct {
	dir       string
	spawner   *spawn.Spawner
	isolation string
	limits    Limits
	scopes    Scopes
	log       *slog.Logger

	mu       sync.Mutex
	starting map[string]bool
	swept    map[string][]protocol.KilledProcess
}

// New opens dir, finds out which isolation holds here, and ends what is left
// of runs whose shims are dead. Every descriptor of this process is closed on
// exec from then on, those included that it inherited.
func New(c Config) (*Host, error) {
	h := &Host{
		limits: c.Limits, scopes: c.Scopes, log: c.Logger,
		starting: map[string]bool{}, swept: map[string][]protocol.KilledProcess{},
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if h.dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("open run folders %s: %w", c.Dir, err)
	}
	if c.Log == "" {
		c.Log = filepath.Join(filepath.Dir(h.dir), "shim.log")
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open run folders: %w", err)
	}
	if c.Exe == "" {
		if c.Exe, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the cdui binary: %w", err)
		}
	}
	h.spawner = spawn.New(spawn.Config{Exe: c.Exe, Log: c.Log, Env: c.Env, Logger: h.log})
	if h.isolation, err = h.spawner.Isolation(h.dir, c.Isolate); err != nil {
		return nil, err
	}
	h.sweepDead()
	return h, nil
}

// Close lets go of the shims and leaves them going.
func (h *Host) Close() error {
	h.spawner.Reap(0, 0)
	return nil
}

// Isolation is the way in which runs are held together here.
func (h *Host) Isolation() string { return h.isolation }

// plainName tells whether s can be a folder's name and nothing else.
func plainName(s string) bool {
	for i, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// runDir gives a run's folder; an id that could name another one is refused.
func (h *Host) runDir(runID string) (string, error) {
	if !plainName(runID) {
		return "", fmt.Errorf("run id %q is not made of letters, digits and . _ -", runID)
	}
	if isSpare(runID) {
		return "", fmt.Errorf("run id %q is a spare's", runID)
	}
	return filepath.Join(h.dir, runID), nil
}

func (h *Host) startArgs(dir, isolation string) wire.Start {
	return wire.Start{
		Dir: dir, Isolation: isolation, HostNS: spawn.HostNamespace(),
		ConsoleHead: h.limits.ConsoleHead, ConsoleCap: h.limits.ConsoleCap, SpoolCap: h.limits.SpoolCap,
		AssignWait: h.limits.AssignWait, StuckAfter: h.limits.StuckAfter,
	}
}

// Start starts a shim for a and gives it the assignment. When it returns an
// error, nothing of the run was started and nothing is left behind.
func (h *Host) Start(ctx context.Context, a protocol.Assignment) (*Run, error) {
	dir, err := h.runDir(a.RunID)
	if err != nil {
		return nil, fmt.Errorf("start run: %w", err)
	}
	free, err := h.claim(a.RunID)
	if err != nil {
		return nil, fmt.Errorf("start run %s: %w", a.RunID, err)
	}
	defer free()
	r, err := h.startIn(ctx, dir, h.isolation, a)
	if errors.Is(err, spawn.ErrIsolation) && h.isolation != wire.IsolateKeeper && h.isolation != wire.IsolateNone {
		h.log.WarnContext(ctx, "isolation failed, using a keeper", "run_id", a.RunID, "isolation", h.isolation)
		r, err = h.startIn(ctx, dir, wire.IsolateKeeper, a)
	}
	if err != nil {
		return nil, fmt.Errorf("start run %s: %w", a.RunID, err)
	}
	return r, nil
}

// claim keeps others from starting a run, or from looking at its folder, until
// free is called.
func (h *Host) claim(runID string) (free func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.starting[runID] {
		return nil, ErrExists
	}
	h.starting[runID] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.starting, runID)
	}, nil
}
