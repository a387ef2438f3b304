package sweepcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/runcmd"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/sweep/sweepfile"
)

// RunOptions is what a sweep is asked.
type RunOptions struct {
	File    string
	Name    string
	Key     string
	Worker  string
	Devices []string
	Wait    bool
	Detach  bool
	Timeout env.Duration
	JSON    bool
	Quiet   bool
}

// NewRun makes `cdui sweep run`. runF replaces the run in tests.
func NewRun(e *env.Env, d Deps, runF func(context.Context, *RunOptions) error) *cobra.Command {
	o := &RunOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *RunOptions) error { return Run(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Queue a sweep and wait for its variants",
		Long: `Queue a sweep, all of its variants or nothing, and wait until they have ended. The
file names a graph, a script or a command, the params to vary and the metric to
rank by; paths in it are relative to it, and "-" reads it from standard input.

The exit code is 0 when every variant succeeded, else 1. Ctrl-C leaves the sweep
running.`,
		Example: `  cdui sweep run examples/digits/sweep.yaml
  cdui sweep run lr.yaml --worker any
  cdui sweep run lr.yaml --detach --json | jq -r .sweep_id
  cdui sweep run nightly.yaml --key nightly-$(date +%F)

  # lr.yaml
  graph: train.json
  params:
    - {node: optimizer, param: lr, range: {min: 1e-4, max: 0.1, count: 4, scale: log}}
    - {node: loader, param: batch_size, values: [32, 64]}
  objective: {metric: val_loss, direction: minimize}`,
		Args: env.Args(1, 1, "a sweep file"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File, o.Detach = args[0], o.Detach || !o.Wait
			switch {
			case o.Detach && o.Timeout > 0:
				return env.Usagef("--detach doesn't wait, so --timeout means nothing with it")
			case o.JSON && o.Quiet:
				return env.Usagef("--json and --quiet can't be given together")
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.Name, "name", "", "what the sweep is called, instead of what the file says")
	f.StringVar(&o.Key, "key", "", "the same key again gives the first sweep instead of another one")
	f.StringVar(&o.Worker, "worker", "", "where the variants run: local, any or a worker's name")
	f.StringSliceVar(&o.Devices, "devices", nil, "devices that each variant needs together, such as cuda:0,cuda:1")
	f.BoolVar(&o.Wait, "wait", true, "wait until all variants have ended")
	f.BoolVarP(&o.Detach, "detach", "d", false, "return as soon as it is queued")
	f.Var(&o.Timeout, "timeout", "stop waiting after this time, with exit code 124; the sweep goes on")
	env.JSONFlag(f, &o.JSON, "print what was queued as one JSON document", env.One(api.SweepReply{}))
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print the sweep's id alone")
	return cmd
}

// Run queues a sweep and waits for it.
func Run(ctx context.Context, e *env.Env, d Deps, o *RunOptions) error {
	file, err := read(e, o.File)
	if err != nil {
		return err
	}
	c := d.Client()
	body, err := request(ctx, e, c, o, file)
	if err != nil {
		return err
	}
	reply, err := c.CreateSweep(ctx, body)
	var stopped *env.Interrupted
	if errors.As(err, &stopped) {
		e.Say("stopped before the control plane answered; whether the sweep was queued, cdui sweep ls tells")
		return &env.Exit{Code: stopped.ExitCode()}
	}
	if err != nil {
		return err
	}
	switch {
	case o.JSON:
		err = e.JSON(reply)
	case o.Quiet:
		e.Print("%s", reply.SweepID)
	case o.Detach:
		e.Print("%s", announce(reply))
	default:
		e.Say("%s", announce(reply))
	}
	if err != nil || o.Detach {
		return err
	}
	return wait(ctx, e, c, reply.SweepID, time.Duration(o.Timeout), o.JSON || o.Quiet)
}

func announce(r api.SweepReply) string {
	what := text.Plural(len(r.Variants), "variant")
	if len(r.Variants) != r.TotalCombinations {
		what += fmt.Sprintf(" of %s combinations", text.Count(r.TotalCombinations))
	}
	line := fmt.Sprintf("sweep %s  %s: %s", run.Short(r.SweepID), name(r.Name), what)
	if r.Existing {
		line += ", there already under this key"
	}
	return line
}

// source is a sweep file and the folder that its paths are relative to.
type source struct {
	sweepfile.File
	dir, stem string
}

// read reads a sweep file.
func read(e *env.Env, shown string) (source, error) {
	var raw []byte
	var err error
	path := e.Abs(shown)
	out := source{dir: filepath.Dir(path), stem: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}
	if shown == "-" {
		out.dir, out.stem = e.Dir, ""
		raw, err = io.ReadAll(io.LimitReader(e.In, maxFile))
	} else {
		raw, err = os.ReadFile(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, env.Usagef("%s: no such file", shown)
	case err != nil:
		return out, env.Usagef("%s can't be read: %v", shown, errors.Unwrap(err))
	}
	if out.File, err = sweepfile.Parse(raw); err != nil {
		return out, env.Usagef("%s: %v", shown, err)
	}
	return out, nil
}

// maxFile bounds what is read from standard input.
const maxFile = 64 << 20

// request makes what is asked of the control plane.
func request(ctx context.Context, e *env.Env, c runcmd.Control, o *RunOptions, f source) (api.SweepRequest, error) {
	options := maps.Clone(f.Options)
	ro := &runcmd.Options{
		Args: f.Args, Set: f.Set, Cwd: f.Cwd, Python: f.Python, Venv: f.Venv, Env: f.Env, Files: f.Files, NoFiles: f.NoFiles, Worker: o.Worker, Devices: o.Devices,
		Watch: runcmd.Watch{Quiet: o.Quiet, JSON: o.JSON},
	}
	if err := aim(ro, options); err != nil {
		return api.SweepRequest{}, env.Usagef("%s: %v", o.File, err)
	}
	switch {
	case f.Graph != "":
		ro.File = within(f.dir, f.Graph)
	case f.Script != "":
		ro.File = within(f.dir, f.Script)
	default:
		ro.Args = f.Command
	}
	made, _, err := runcmd.Request(ctx, e, c, ro)
	if err != nil {
		return api.SweepRequest{}, err
	}
	body := api.SweepRequest{
		BaseGraph: made.Graph, SweepSpec: f.Spec, Objective: f.Objective, SeedVariants: f.SeedVariants,
		Key: f.Key, Cwd: made.Cwd, Git: made.Git, Code: made.Code,
	}
	if o.Key != "" {
		body.Key = o.Key
	}
	for _, n := range []string{o.Name, f.Name, cut(f.stem)} {
		if n != "" {
			body.Name = &n
			break
		}
	}
	body.Options, err = merge(options, made.Options)
	return body, err
}

// aim takes the place that the file's options name, unless the command line
// names one.
func aim(ro *runcmd.Options, options map[string]json.RawMessage) error {
	raw, ok := options["target"]
	if !ok {
		return nil
	}
	var target struct {
		Worker  string   `json:"worker"`
		Devices []string `json:"devices"`
	}
	if err := json.Unmarshal(raw, &target); err != nil {
		return fmt.Errorf("options.target: it is {worker, devices}, not %s", raw)
	}
	if ro.Worker == "" {
		ro.Worker = target.Worker
	}
	if len(ro.Devices) == 0 {
		ro.Devices = target.Devices
	}
	return nil
}

// merge puts options over those of the file, and their target over its target.
func merge(options map[string]json.RawMessage, over json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	maps.Copy(all, options)
	if len(over) > 0 {
		if err := json.Unmarshal(over, &all); err != nil {
			return nil, fmt.Errorf("read options: %w", err)
		}
	}
	if under := options["target"]; under != nil {
		target := map[string]json.RawMessage{}
		for _, raw := range []json.RawMessage{under, all["target"]} {
			if err := json.Unmarshal(raw, &target); err != nil {
				return nil, fmt.Errorf("read the target: %w", err)
			}
		}
		var err error
		if all["target"], err = json.Marshal(target); err != nil {
			return nil, fmt.Errorf("write the target: %w", err)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// cut shortens a name to what names may be.
func cut(s string) string {
	letters := []rune(s)
	return string(letters[:min(len(letters), run.MaxNameChars)])
}
