package wire

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"
)

// The descriptors that a shim inherits: its listening socket, the locked
// shim.json, and for a shim below a keeper the read end of the keeper's pipe.
const (
	ListenerFD = 3
	LockFD     = 4
	KeeperFD   = 5
)

// ExitIsolation is the exit code of a shim that can't be isolated as asked.
const ExitIsolation = 3

// The ways of isolation.
const (
	IsolatePIDNS  = "pidns"
	IsolateUserNS = "userns"
	IsolateKeeper = "keeper"
	IsolateNone   = "none"
)

// Start is a shim's command line.
type Start struct {
	Dir       string
	Isolation string
	// HostNS is the host's pid namespace, as its inode.
	HostNS uint64
	// Probe asks only whether the isolation can be set up here.
	Probe bool
	// Kept is set for the shim that runs below a keeper.
	Kept bool

	// The limits; zero takes the default of the package that has it.
	ConsoleHead, ConsoleCap int64
	SpoolCap                int64
	// AssignWait is how long a shim waits for its assignment, StuckAfter how
	// long a killed process may take to go.
	AssignWait, StuckAfter time.Duration
}

// Args gives the arguments that ParseStart reads.
func (s Start) Args() []string {
	args := []string{"--dir", s.Dir, "--isolate", s.Isolation}
	if s.HostNS > 0 {
		args = append(args, "--host-ns", strconv.FormatUint(s.HostNS, 10))
	}
	if s.Probe {
		args = append(args, "--probe")
	}
	if s.Kept {
		args = append(args, "--kept")
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"console-head", s.ConsoleHead}, {"console-cap", s.ConsoleCap}, {"spool-cap", s.SpoolCap}} {
		if f.value > 0 {
			args = append(args, "--"+f.name, strconv.FormatInt(f.value, 10))
		}
	}
	if s.AssignWait > 0 {
		args = append(args, "--assign-wait", s.AssignWait.String())
	}
	if s.StuckAfter > 0 {
		args = append(args, "--stuck-after", s.StuckAfter.String())
	}
	return args
}

// ParseStart reads a shim's arguments.
func ParseStart(args []string) (Start, error) {
	s := Start{}
	f := flag.NewFlagSet("shim", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.Dir, "dir", "", "the run's folder")
	f.StringVar(&s.Isolation, "isolate", IsolateNone, "pidns, userns, keeper or none")
	f.Uint64Var(&s.HostNS, "host-ns", 0, "inode of the host's pid namespace")
	f.BoolVar(&s.Probe, "probe", false, "try the isolation and exit")
	f.BoolVar(&s.Kept, "kept", false, "a keeper is above")
	f.Int64Var(&s.ConsoleHead, "console-head", 0, "bytes")
	f.Int64Var(&s.ConsoleCap, "console-cap", 0, "bytes")
	f.Int64Var(&s.SpoolCap, "spool-cap", 0, "bytes")
	f.DurationVar(&s.AssignWait, "assign-wait", 30*time.Second, "how long to wait for an assignment")
	f.DurationVar(&s.StuckAfter, "stuck-after", time.Minute, "how long a killed process may take")
	if err := f.Parse(args); err != nil {
		return s, fmt.Errorf("read arguments: %w", err)
	}
	if s.Dir == "" && !s.Probe {
		return s, fmt.Errorf("read arguments: --dir is missing; a shim is started by cdui itself")
	}
	return s, nil
}
