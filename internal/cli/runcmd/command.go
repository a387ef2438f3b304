package runcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/graphfile"
	"cdui/internal/client"
)

// Options is what the command line asks for.
type Options struct {
	// File is the script or graph; Args are what comes after "--". Without a
	// file they are the command itself.
	File string
	Args []string

	Name       string
	Device     string
	Devices    []string
	Worker     string
	Memory     string
	Immediate  bool
	Priority   int
	Retry      int
	RetryOn    []string
	RetryDelay env.Duration
	Seed       int64
	SeedSet    bool
	Tags       []string
	Note       string
	Key        string
	After      []string
	Hold       bool
	TimeLimit  env.Duration

	// Set, ErrorMode and MaxRetries are for graphs.
	Set        []string
	ErrorMode  string
	MaxRetries int

	Deterministic bool
	RecordOutputs bool
	Provenance    bool

	Cwd    string
	Env    []string
	Python string
	Venv   string
	Conda  string

	// Files go along to a worker, all when none is named; NoFiles sends none.
	Files   []string
	NoFiles bool

	Watch Watch
}

// Control is what the command needs of a control plane.
type Control interface {
	follow.Source
	graphfile.Source
	Submit(ctx context.Context, body api.SubmitRequest) (api.SubmitReply, error)
	Artifacts(ctx context.Context, id, kind string) (api.Artifacts, error)
	UploadCode(ctx context.Context, dir string, o client.CodeOptions) (api.CodeRef, error)
	Worker(ctx context.Context, name string) (api.Worker, error)
}

// Deps is what the command is given beside its surroundings.
type Deps struct {
	Control func() Control
	Display func(colour, live bool) follow.Display
	// Ephemeral says that the run ends with this process.
	Ephemeral bool
}

// New makes the command. runF replaces the run in tests.
func New(e *env.Env, deps Deps, runF func(context.Context, *Options) error) *cobra.Command {
	o := &Options{}
	if runF == nil {
		runF = func(ctx context.Context, o *Options) error { return Run(ctx, e, deps, o) }
	}
	cmd := &cobra.Command{
		Use:   "run FILE [flags] [-- ARGS]  |  run [flags] -- COMMAND [ARGS]",
		Short: "Run a script, a command or a graph, and follow it",
		Long: `Run a Python script, any command, or a graph (a .json file). A graph is checked
first: when anything keeps it from running, all of that is said and nothing is
queued.

It is queued on the control plane and followed until it ends: its output goes to
stdout, what cdui says to stderr. Ctrl-C leaves it running. The exit code is 0
when it succeeded and 1 when it did not, unless --exit-code passes its own on.

On a worker a script or command works in a copy of this folder, in the Python of that
machine; what it reports as artifacts comes back.`,
		Example: `  cdui run train.py -- --lr 3e-4
  cdui run --device cuda:0 --name baseline train.py
  cdui run -- torchrun --nproc-per-node 2 train.py
  cdui run --worker box1 --devices cuda:0,cuda:1 train.py
  cdui run train.json --set optimizer.lr=3e-4 --set pipeline.train_loop.epochs=5
  cdui run -d -q train.py                    # prints the run's id and returns`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.SeedSet = cmd.Flags().Changed("seed")
			if err := o.take(args, cmd.ArgsLenAtDash()); err != nil {
				return err
			}
			return runF(cmd.Context(), o)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return env.Usagef("%v; what belongs to the script comes after --: cdui run train.py -- --lr 3e-4", err)
	})
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Name, "name", "", "what the run is called")
	f.StringVar(&o.Device, "device", "", "cpu, auto, cuda, cuda:N, mps or mps:N (default cpu)")
	f.StringSliceVar(&o.Devices, "devices", nil, "devices that it needs together, such as cuda:0,cuda:1")
	f.StringVar(&o.Worker, "worker", "", "where it runs: local, any or a worker's name")
	f.StringVar(&o.Memory, "memory", "", "memory that it may take of each of its cards, such as 12GiB, so that others fit on a shared card; auto goes by earlier runs")
	f.BoolVar(&o.Immediate, "immediate", false, "start now or be refused; don't wait in the queue")
	f.IntVar(&o.Priority, "priority", 0, "before those of a lower one in its queue, -1000 to 1000")
	f.IntVar(&o.Retry, "retry", 0, "repeat it up to this often when it ends badly")
	f.StringSliceVar(&o.RetryOn, "retry-on", nil, "ends after which it is repeated: user_code, out_of_memory, killed, timeout, worker_lost, server (default: all but timeout and a bad graph)")
	f.Var(&o.RetryDelay, "retry-delay", "pause before the first repetition, twice as long before each further one (default 10s)")
	f.StringSliceVar(&o.Files, "files", nil, "what goes along to a worker: files and folders of this one (default: all but what .cduiignore and .gitignore leave out)")
	f.BoolVar(&o.NoFiles, "no-files", false, "send nothing along: paths are those of the worker")
	f.Int64Var(&o.Seed, "seed", 0, "seed of the random numbers, 0 to 4294967295")
	f.StringArrayVar(&o.Set, "set", nil, "change a param of a graph: node.param=value, or instance.node.param=value inside a preset; may be repeated")
	f.StringVar(&o.ErrorMode, "error-mode", "", "when a node of a graph fails: fail_fast, continue without what needs it, or retry (default fail_fast)")
	f.IntVar(&o.MaxRetries, "max-retries", 0, "how often a failed node is tried again, 0 to 10; means --error-mode retry")
	f.BoolVar(&o.Deterministic, "deterministic", false, "use deterministic algorithms")
	f.BoolVar(&o.RecordOutputs, "record-outputs", false, "keep what the nodes put out")
	f.BoolVar(&o.Provenance, "provenance", false, "record the sources of the nodes")
	f.StringSliceVar(&o.Tags, "tag", nil, "tag to find it by; may be repeated")
	f.StringVar(&o.Note, "note", "", "a note for people")
	f.StringVar(&o.Key, "key", "", "the same key again gives the first run instead of another one")
	f.StringSliceVar(&o.After, "after", nil, "start when RUN has ended: RUN[:ok|any|failed]; may be repeated")
	f.BoolVar(&o.Hold, "hold", false, "queue it, but don't start it before it is released")
	f.Var(&o.TimeLimit, "time-limit", "end it after this time, such as 90m or 2d")
	f.StringVar(&o.Cwd, "cwd", "", "folder that it works in (default: this one)")
	f.StringArrayVarP(&o.Env, "env", "e", nil, "variable for it, NAME=VALUE; NAME alone takes the value from here")
	f.StringVar(&o.Python, "python", "", "interpreter of a script")
	f.StringVar(&o.Venv, "venv", "", "virtual environment to run in (default: the active one)")
	f.StringVar(&o.Conda, "conda", "", "conda environment to run in, by name or folder (default: the active one)")
	o.Watch.flags(f)
	return cmd
}

// take sorts the words of the command line into file and arguments; dash is
// how many of them stand before "--", -1 without one.
func (o *Options) take(args []string, dash int) error {
	before := args
	if dash >= 0 {
		before, o.Args = args[:dash], args[dash:]
	}
	switch {
	case len(before) > 1:
		return env.Usagef("arguments of %s come after --: cdui run %s -- %s", before[0], before[0], before[1])
	case len(before) == 1:
		o.File = before[0]
	case len(o.Args) == 0:
		return env.Usagef("run what? Give a file (cdui run train.py) or a command (cdui run -- ./job.sh)")
	}
	return o.Watch.check()
}

// Request makes the submit that a command line asks for, and what to call the
// run. A graph is checked and a folder is sent along; nothing is queued.
func Request(ctx context.Context, e *env.Env, control Control, o *Options) (api.SubmitRequest, string, error) {
	found, err := look(ctx, e, o)
	if err != nil {
		return api.SubmitRequest{}, "", err
	}
	if found.kind == isGraph {
		if err := checked(ctx, e, control, o, &found); err != nil {
			return api.SubmitRequest{}, "", err
		}
	}
	if found.after, err = resolveAfter(ctx, control, o.After); err != nil {
		return api.SubmitRequest{}, "", err
	}
	body, err := build(o, found)
	if err != nil {
		return api.SubmitRequest{}, "", err
	}
	// What is sent along comes last: nothing that can be seen here is wrong.
	if err := shipped(ctx, e, control, o, &found); err != nil {
		return api.SubmitRequest{}, "", err
	}
	body.Code = found.code
	return body, found.title, nil
}

// Run submits and follows.
func Run(ctx context.Context, e *env.Env, deps Deps, o *Options) error {
	control := deps.Control()
	body, title, err := Request(ctx, e, control, o)
	if err != nil {
		return err
	}
	reply, err := control.Submit(ctx, body)
	var stopped *env.Interrupted
	if errors.As(err, &stopped) {
		e.Say("stopped before the control plane answered; whether the run was queued, cdui ls tells")
		return &env.Exit{Code: stopped.ExitCode()}
	}
	if err != nil {
		return err
	}
	return show(ctx, e, deps, control, reply, title, &o.Watch)
}
