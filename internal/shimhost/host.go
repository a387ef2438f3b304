package shimhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/wire"
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

// Host starts and finds the shims of one folder. It is safe for concurrent
// use.
type Host struct {
	dir, exe  string
	logFile   string
	isolation string
	env       []string
	limits    Limits
	scopes    Scopes
	log       *slog.Logger

	mu       sync.Mutex
	starting map[string]bool
	// unreaped are shims that this process started and has not collected.
	unreaped map[int]bool
	swept    map[string][]protocol.KilledProcess
}

// New opens dir, finds out which isolation holds here, and ends what is left
// of runs whose shims are dead. Every descriptor of this process is closed on
// exec from then on, those included that it inherited.
func New(c Config) (*Host, error) {
	h := &Host{
		env: c.Env, limits: c.Limits, scopes: c.Scopes, log: c.Logger,
		starting: map[string]bool{}, unreaped: map[int]bool{}, swept: map[string][]protocol.KilledProcess{},
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if h.dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, fmt.Errorf("open run folders %s: %w", c.Dir, err)
	}
	if h.logFile = c.Log; h.logFile == "" {
		h.logFile = filepath.Join(filepath.Dir(h.dir), "shim.log")
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open run folders: %w", err)
	}
	if h.exe = c.Exe; h.exe == "" {
		if h.exe, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the cdui binary: %w", err)
		}
	}
	keepDescriptors()
	if h.isolation, err = h.resolve(c.Isolate); err != nil {
		return nil, err
	}
	h.sweepDead()
	return h, nil
}

// Close lets go of the shims and leaves them going.
func (h *Host) Close() error {
	h.reap(0, 0)
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
	return filepath.Join(h.dir, runID), nil
}

// reap collects the started shims that are dead. For pid, which is known to be
// dying, it waits up to the given time.
func (h *Host) reap(pid int, patience time.Duration) {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if h.reapNow(pid) || time.Now().After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}

// reapNow tells whether pid is collected, or was none of ours.
func (h *Host) reapNow(pid int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.unreaped {
		got, err := syscall.Wait4(p, nil, syscall.WNOHANG, nil)
		if got == p || err == syscall.ECHILD {
			delete(h.unreaped, p)
		}
	}
	return !h.unreaped[pid]
}

func (h *Host) startArgs(dir, isolation string) wire.Start {
	return wire.Start{
		Dir: dir, Isolation: isolation, HostNS: hostNamespace(),
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
	h.mu.Lock()
	busy := h.starting[a.RunID]
	h.starting[a.RunID] = true
	h.mu.Unlock()
	if busy {
		return nil, fmt.Errorf("start run %s: %w", a.RunID, ErrExists)
	}
	defer func() {
		h.mu.Lock()
		delete(h.starting, a.RunID)
		h.mu.Unlock()
	}()
	r, err := h.startIn(ctx, dir, h.isolation, a)
	if errors.Is(err, errIsolation) && h.isolation != wire.IsolateKeeper && h.isolation != wire.IsolateNone {
		h.log.WarnContext(ctx, "isolation failed, using a keeper", "run_id", a.RunID, "isolation", h.isolation)
		r, err = h.startIn(ctx, dir, wire.IsolateKeeper, a)
	}
	if err != nil {
		return nil, fmt.Errorf("start run %s: %w", a.RunID, err)
	}
	return r, nil
}
