package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/graph"
	"cdui/internal/hostinfo"
	"cdui/internal/protocol"
	"cdui/internal/pyruntime"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/execution"
)

// Surroundings is what the machine gives to every run: the unpacked Python
// runtime, an interpreter, the parent's environment and the slots' limits.
type Surroundings struct {
	Runtime string
	// Python is the interpreter for scripts that name none; empty: the one
	// that is found in Environ.
	Python  string
	Environ []string
	Limits  scheduler.Limits
	// DataDir holds the folders of the user's files. Catalog gives the node
	// types that are known now, Devices the machine's inventory.
	DataDir string
	Catalog func(ctx context.Context) *catalog.Catalog
	Devices func() device.Inventory
	// Host is this machine, for the fingerprints of runs.
	Host hostinfo.Host
	// MaxParallel is how many nodes of one graph may execute at once.
	MaxParallel int
	// Unpack lays out the folder that a program brought along, by the hash of
	// its list of files.
	Unpack func(ctx context.Context, hash, dir string) error

	mu sync.Mutex
	// found is what Python resolved to.
	found string
}

// unfit is a run that can't start because of what it asks for.
type unfit struct{ err error }

func (u *unfit) Error() string { return u.err.Error() }
func (u *unfit) Unwrap() error { return u.err }
func (u *unfit) EndClass() run.EndClass {
	var graph *badGraph
	if errors.As(u.err, &graph) {
		return graph.EndClass()
	}
	return run.EndUserCode
}

// Assignment turns a placed run into what its shim needs. kept is the run's
// folder that outlives its attempts.
func (s *Surroundings) Assignment(ctx context.Context, job execution.Job, kept string) (protocol.Assignment, error) {
	row := job.Row
	a := protocol.Assignment{
		RunID: row.ID, Attempt: row.Attempt, NodeID: job.Program.NodeID,
		GraceMS:  job.Grace.Milliseconds(),
		MaxRunMS: int64(row.Options.MaxRunSeconds * float64(time.Second/time.Millisecond)),
	}
	port, err := pyruntime.FreePort()
	if err != nil {
		port = 0 // the program chooses for itself
	}
	env := pyruntime.EnvSpec{
		Runtime: s.Runtime, Devices: row.Devices, Cores: runtime.NumCPU(), Slots: s.slots(row.Devices),
		CheckpointDir: checkpoints(kept, row), MasterPort: port, Seed: row.Options.Seed,
	}
	program, err := s.laidOut(ctx, job, kept)
	if err != nil {
		return a, err
	}
	switch p := program; {
	case p.Script != nil:
		interpreter := p.Script.Interpreter
		if interpreter == "" && p.Script.Venv == "" {
			found, err := s.find(ctx)
			if err != nil {
				return a, &unfit{err}
			}
			interpreter = found
		}
		a.Kind, a.Dir = protocol.KindScript, p.Script.Cwd
		a.Argv = pyruntime.ScriptArgv(s.Runtime, interpreter, *p.Script)
		a.Input = p.Script.Params
		env.Run, env.Venv, env.Params = p.Script.Env, p.Script.Venv, p.Script.Params
		env.Provenance = row.Options.Provenance
	case p.Command != nil:
		a.Kind, a.Dir, a.Argv = protocol.KindCommand, p.Command.Cwd, p.Command.Argv
		env.Run, env.Venv = p.Command.Env, p.Command.Venv
	default:
		if err := s.graph(ctx, job, kept, &a, &env); err != nil {
			return a, &unfit{err}
		}
	}
	env.Argv = a.Argv
	if s.Devices != nil {
		inv := s.Devices()
		env.Visible = inv.CUDAVisible(env.Devices)
		if a.Kind != protocol.KindCommand {
			env.Host = s.Host.With(inv, row.Devices)
		}
	}
	a.Env = pyruntime.ChildEnv(s.Environ, env)
	a.VisibleDevices, a.DeviceAliases = aliases(row.Devices)
	return a, nil
}

// Usual is what a script on a device is started as that asks for nothing
// special.
func (s *Surroundings) Usual(ctx context.Context, on string) (protocol.Assignment, error) {
	return s.Assignment(ctx, execution.Job{
		Row:     run.Row{ID: "spare", Devices: []string{on}},
		Program: graph.Program{Script: &run.ScriptSpec{Path: "/script.py", Cwd: "/"}},
	}, s.DataDir)
}

// checkpoints is where a run saves what it goes on from: one folder for it and
// for all that repeat it.
func checkpoints(kept string, row run.Row) string {
	return filepath.Join(filepath.Dir(kept), row.RetryRoot(), "checkpoints")
}

// find resolves the interpreter for scripts that name none. It is kept as long
// as its file is there.
func (s *Surroundings) find(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found != "" {
		if _, err := os.Stat(s.found); err == nil {
			return s.found, nil
		}
	}
	found, err := pyruntime.Find(ctx, s.Python, s.Environ)
	if err == nil {
		s.found = found
	}
	return found, err
}

// slots is how many runs share the machine's cores with one on these devices.
func (s *Surroundings) slots(devices []string) int {
	if len(devices) == 0 {
		return 1
	}
	return s.Limits.Cap(scheduler.Slot{Worker: scheduler.Local, Device: devices[0]})
}

// aliases tells how the run sees its cards: renumbered from 0 in their order.
func aliases(devices []string) ([]string, map[string]string) {
	names := map[string]string{}
	for i, d := range devices {
		alias := d
		if device.Kind(d) == device.CUDA {
			alias = fmt.Sprintf("cuda:%d", i)
		}
		names[alias] = d
	}
	return devices, names
}
