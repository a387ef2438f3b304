package studycmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/runcmd"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/study"
)

// RunOptions is what a study is asked.
type RunOptions struct {
	// Run is what is repeated; its file is empty for the best of Sweep.
	Run         runcmd.Options
	Sweep       string
	Repetitions int
	Seed        int64
	Confidence  float64
	MaxAttempts int
	MaxRun      env.Duration
	MaxActive   env.Duration
	Name, Key   string
	Wait        bool
	Detach      bool
	Timeout     env.Duration
	JSON        bool
	Quiet       bool
}

// NewRun makes `cdui study run`. runF replaces the run in tests.
func NewRun(e *env.Env, d Deps, runF func(context.Context, *RunOptions) error) *cobra.Command {
	o := &RunOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *RunOptions) error { return Run(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "run FILE [flags] [-- ARGS]  |  run [flags] -- COMMAND [ARGS]  |  run --sweep SWEEP",
		Short: "Queue a study and wait for its repetitions",
		Long: `Queue a study of a graph, a script, a command or the best variant of a sweep, and
wait until its repetitions have ended. Repetition i gets the seed of the study plus
i, as the run's seed.

The exit code is 0 when every repetition was scored, else 1. Ctrl-C leaves the study
running.`,
		Example: `  cdui study run examples/digits/graph.json --repetitions 5
  cdui study run train.py -n 10 --worker any --max-run 2h -- --epochs 20
  cdui study run --sweep 3f1c9a -n 5 --detach -q`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.take(args, cmd.ArgsLenAtDash()); err != nil {
				return err
			}
			return runF(cmd.Context(), o)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *RunOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.IntVarP(&o.Repetitions, "repetitions", "n", 5, "how often it is repeated")
	f.StringVar(&o.Sweep, "sweep", "", "repeat the best variant of this sweep")
	f.Int64Var(&o.Seed, "seed", 0, "what the seeds count up from, 0 to 4294967295")
	f.Float64Var(&o.Confidence, "confidence", study.DefaultConfidence, "confidence of the intervals, between 0 and 1")
	f.IntVar(&o.MaxAttempts, "max-attempts", study.DefaultAttempts, "how many attempts of one repetition may get lost")
	f.Var(&o.MaxRun, "max-run", "stop a run that executes longer than this")
	f.Var(&o.MaxActive, "max-active", "stop the study when its runs have executed this long together")
	f.StringVar(&o.Name, "name", "", "what the study is called (default: the file)")
	f.StringVar(&o.Key, "key", "", "the same key again gives the first study instead of another one")
	r := &o.Run
	f.StringVar(&r.Worker, "worker", "", "where the runs execute: local, any or a worker's name")
	f.StringSliceVar(&r.Devices, "devices", nil, "devices that each run needs together, such as cuda:0,cuda:1")
	f.StringSliceVar(&r.Files, "files", nil, "what goes along to a worker: files and folders of this one (default: all but what .cduiignore and .gitignore leave out)")
	f.BoolVar(&r.NoFiles, "no-files", false, "send nothing along: paths are those of the worker")
	f.StringVar(&r.Device, "device", "", "cpu, auto, cuda, cuda:N, mps or mps:N (default cpu)")
	f.StringArrayVar(&r.Set, "set", nil, "change a param of a graph: node.param=value; may be repeated")
	f.BoolVar(&r.Deterministic, "deterministic", false, "use deterministic algorithms")
	f.StringSliceVar(&r.Tags, "tag", nil, "tag to find the runs by; may be repeated")
	f.StringArrayVarP(&r.Env, "env", "e", nil, "variable for a script or command, NAME=VALUE; NAME alone takes the value from here")
	f.StringVar(&r.Cwd, "cwd", "", "folder that it works in (default: this one)")
	f.StringVar(&r.Python, "python", "", "interpreter of a script")
	f.StringVar(&r.Venv, "venv", "", "virtual environment to run in (default: the active one)")
	f.BoolVar(&o.Wait, "wait", true, "wait until all repetitions have ended")
	f.BoolVarP(&o.Detach, "detach", "d", false, "return as soon as it is queued")
	f.Var(&o.Timeout, "timeout", "stop waiting after this time, with exit code 124; the study goes on")
	env.JSONFlag(f, &o.JSON, "print what was queued as one JSON document", env.One(api.StudyReply{}))
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print the study's id alone")
}

// take sorts the words of the command line; dash is how many of them stand
// before "--", -1 without one.
func (o *RunOptions) take(args []string, dash int) error {
	o.Detach = o.Detach || !o.Wait
	o.Run.Watch = runcmd.Watch{Quiet: o.Quiet, JSON: o.JSON}
	before := args
	if dash >= 0 {
		before, o.Run.Args = args[:dash], args[dash:]
	}
	switch {
	case o.Detach && o.Timeout > 0:
		return env.Usagef("--detach doesn't wait, so --timeout means nothing with it")
	case o.JSON && o.Quiet:
		return env.Usagef("--json and --quiet can't be given together")
	case o.Sweep != "" && len(args) > 0:
		return env.Usagef("give either a file or --sweep, not both")
	case len(before) > 1:
		return env.Usagef("arguments of %s come after --: cdui study run %s -- %s", before[0], before[0], before[1])
	case len(before) == 1:
		o.Run.File = before[0]
	case o.Sweep == "" && len(o.Run.Args) == 0:
		return env.Usagef("repeat what? Give a file (cdui study run train.json), a command after --, or --sweep")
	}
	return nil
}

// Run queues a study and waits for it.
func Run(ctx context.Context, e *env.Env, d Deps, o *RunOptions) error {
	c := d.Client()
	body, err := request(ctx, e, c, o)
	if err != nil {
		return err
	}
	reply, err := c.CreateStudy(ctx, body)
	var stopped *env.Interrupted
	if errors.As(err, &stopped) {
		e.Say("stopped before the control plane answered; whether the study was queued, cdui study ls tells")
		return &env.Exit{Code: stopped.ExitCode()}
	}
	if err != nil {
		return err
	}
	line := fmt.Sprintf("study %s  %s: %s", run.Short(reply.StudyID), name(reply.Name), text.Plural(reply.Repetitions, "repetition"))
	if reply.Existing {
		line += ", there already under this key"
	}
	switch {
	case o.JSON:
		err = e.JSON(reply)
	case o.Quiet:
		e.Print("%s", reply.StudyID)
	case o.Detach:
		e.Print("%s", line)
	default:
		e.Say("%s", line)
	}
	if err != nil || o.Detach {
		return err
	}
	return wait(ctx, e, c, reply.StudyID, time.Duration(o.Timeout), o.JSON || o.Quiet)
}

// request makes what is asked of the control plane.
func request(ctx context.Context, e *env.Env, c runcmd.Control, o *RunOptions) (api.StudyRequest, error) {
	body := api.StudyRequest{
		SweepID: o.Sweep, Key: o.Key, Repetitions: o.Repetitions, Seed: &o.Seed, Confidence: &o.Confidence, MaxAttempts: &o.MaxAttempts,
		MaxRunSeconds: time.Duration(o.MaxRun).Seconds(), MaxActiveSeconds: time.Duration(o.MaxActive).Seconds(),
	}
	spec := study.Spec{
		Repetitions: o.Repetitions, Seed: o.Seed, Confidence: o.Confidence, MaxAttempts: o.MaxAttempts,
		MaxRunSeconds: body.MaxRunSeconds, MaxActiveSeconds: body.MaxActiveSeconds,
	}
	if err := spec.Check(); err != nil {
		flags := strings.NewReplacer("max_attempts", "max-attempts", "max_run_seconds", "max-run", "max_active_seconds", "max-active")
		return body, env.Usagef("--%s", flags.Replace(err.Error()))
	}
	if o.Name != "" {
		body.Name = &o.Name
	}
	if o.Sweep != "" {
		var err error
		body.Options, err = placed(o)
		return body, err
	}
	made, title, err := runcmd.Request(ctx, e, c, &o.Run)
	if err != nil {
		return body, err
	}
	if body.Name == nil {
		if o.Run.File != "" {
			title = phrase.Clean(filepath.Base(o.Run.File))
		}
		letters := []rune(title)
		title = string(letters[:min(len(letters), run.MaxNameChars)])
		body.Name = &title
	}
	body.BaseGraph, body.Options, body.Cwd, body.Git, body.Code = made.Graph, made.Options, made.Cwd, made.Git, made.Code
	return body, nil
}

// placed gives the options that say where the best variant of a sweep is
// repeated, nil to leave that as it was.
func placed(o *RunOptions) (json.RawMessage, error) {
	r := o.Run
	if len(r.Set) > 0 || len(r.Env) > 0 || r.Cwd != "" || r.Python != "" || r.Venv != "" || len(r.Files) > 0 || r.NoFiles {
		return nil, env.Usagef("--sweep repeats the variant as it was; only its place and its tags can be changed")
	}
	options := map[string]any{}
	if r.Worker != "" || len(r.Devices) > 0 {
		options["target"] = run.Target{Worker: r.Worker, Devices: r.Devices}
	}
	if r.Device != "" {
		options["device"] = r.Device
	}
	if len(r.Tags) > 0 {
		options["tags"] = r.Tags
	}
	if r.Deterministic {
		options["deterministic"] = true
	}
	if len(options) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(options)
	if err == nil {
		if _, bad := run.ParseOptions(raw); bad != nil {
			return nil, env.Usagef("%v", bad)
		}
	}
	return raw, err
}
