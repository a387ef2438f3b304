// Package demo is `cdui demo`: a throw-away control plane, the digits example
// trained under it, as a script and as a graph, with a chart of the loss and
// both accuracies. It keeps nothing.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/examples"
	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/runcmd"
	"cdui/internal/cli/runscmd"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/config"
)

// Options is what demo is asked.
type Options struct {
	Python string
	Device string
	Keep   bool
}

// Deps is what the command is given beside its surroundings.
type Deps struct {
	Serve func(ctx context.Context, e *env.Env, dataDir string, vs config.Values, ready func(api.ServerInfo)) error
	Run   runcmd.Deps
	Probe Probe
}

// New makes the command. runF replaces the run in tests.
func New(e *env.Env, d Deps, runF func(context.Context, *Options) error) *cobra.Command {
	o := &Options{}
	if runF == nil {
		runF = func(ctx context.Context, o *Options) error { return run(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Train a small network on real data, from nothing to its result",
		Long: `Start a control plane in a throw-away folder, train a small network on 1,797 real
images of handwritten digits under it, once as a script and once as a graph, show a
chart of the loss and both accuracies, and take everything away again. It needs a
Python with PyTorch.`,
		Example: `  cdui demo
  cdui demo --python /usr/bin/python3`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Python, "python", "", "interpreter, or a folder of an environment, that has PyTorch")
	f.StringVar(&o.Device, "device", "", "device to train on (default cpu)")
	f.BoolVar(&o.Keep, "keep", false, "keep the folder, to look around in it")
	return cmd
}

func run(ctx context.Context, e *env.Env, d Deps, o *Options) (err error) {
	started := e.Now()
	python, torch, err := choose(ctx, e, d.Probe, o.Python)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cdui-demo-")
	if err != nil {
		return fmt.Errorf("make folder for the demo: %w", err)
	}
	defer func() {
		if o.Keep {
			e.Say("everything is kept in %s: cdui start --data %s", dir, filepath.Join(dir, "data"))
			return
		}
		if rerr := os.RemoveAll(dir); rerr != nil && err == nil {
			err = fmt.Errorf("remove folder of the demo: %w", rerr)
		}
	}()
	if err := os.CopyFS(filepath.Join(dir, "examples"), examples.FS); err != nil {
		return fmt.Errorf("unpack example: %w", err)
	}
	e.Say("a control plane of its own, in %s", dir)
	e.Say("%s, torch %s", python, torch)
	cp, err := open(ctx, e, d, dir, python)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.close()) }()
	return train(ctx, cp, d, o, dir, python, started)
}

// train runs the example in both of its forms.
func train(ctx context.Context, cp *plane, d Deps, o *Options, dir, python string, started time.Time) error {
	e := cp.env
	deps := d.Run
	deps.Ephemeral = true
	deps.Control = func() runcmd.Control { return cp.client }
	watch := runcmd.Watch{Wait: true}
	script, err := once(ctx, cp, deps, &runcmd.Options{
		File: filepath.Join(dir, "examples", "digits", "train.py"), Name: "digits", Device: o.Device, Python: python,
		Cwd: filepath.Join(dir, "examples", "digits"), Watch: watch,
	}, "accuracy")
	if err != nil {
		return err
	}
	e.Print("")
	e.Say("the same as a graph of nodes, examples/digits/graph.json")
	graph, err := once(ctx, cp, deps, &runcmd.Options{
		File: filepath.Join(dir, "examples", "digits", "graph.json"), Name: "digits graph", Device: o.Device, SeedSet: true,
		Cwd: dir, Watch: watch,
	}, "eval_accuracy")
	if err != nil {
		return err
	}
	e.Print("\naccuracy %s as a script, %s as a graph   %s from nothing to here", script, graph, text.Duration(e.Now().Sub(started)))
	return nil
}

// once runs one form of the example, draws its loss and gives its accuracy,
// which is the last value of a series.
func once(ctx context.Context, cp *plane, deps runcmd.Deps, o *runcmd.Options, series string) (string, error) {
	err := runcmd.Run(ctx, cp.env, deps, o)
	var exit *env.Exit
	switch {
	case errors.As(err, &exit) && ctx.Err() != nil:
		cp.env.Say("the demo ends, and its training with it")
		return "", err
	case err != nil:
		return "", err
	}
	list, err := cp.client.Runs(ctx, client.ListFilter{Limit: 1})
	if err != nil {
		return "", err
	}
	r := list.Runs[0]
	loss, err := cp.client.Metrics(ctx, r.ID, "train_loss")
	if err != nil {
		return "", err
	}
	cp.env.Print("")
	if err := runscmd.Plot(cp.env, loss); err != nil {
		return "", err
	}
	accuracy, ok := r.FinalMetrics[series]
	if !ok {
		return "", env.Failed("the training ended without %s in its metrics", series)
	}
	return text.Number(accuracy), nil
}

// plane is the demo's control plane, in this process.
type plane struct {
	env    *env.Env
	client *client.Client
	log    *os.File
	done   chan error
}

// open starts the control plane and waits until it answers.
func open(ctx context.Context, e *env.Env, d Deps, dir, python string) (*plane, error) {
	dataDir := filepath.Join(dir, "data")
	log, err := os.OpenFile(filepath.Join(dir, "server.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write log of the demo: %w", err)
	}
	// The demo's settings are the defaults: what is set here is for the real one.
	own := *e
	own.Flags = env.Flags{Data: dataDir, Listen: "127.0.0.1:0"}
	own.Environ = withoutSettings(e.Environ)
	serving := own
	serving.Err = log
	vs := config.Load(config.Sources{
		Flags:  map[string]string{config.Home: dataDir, config.Listen: own.Flags.Listen, config.Python: python},
		Getenv: own.Getenv,
	})
	ready := make(chan api.ServerInfo, 1)
	p := &plane{env: &own, log: log, done: make(chan error, 1)}
	go func() {
		// It is told to stop, so that it can end the training first.
		p.done <- d.Serve(context.WithoutCancel(ctx), &serving, dataDir, vs, func(info api.ServerInfo) { ready <- info })
	}()
	select {
	case info := <-ready:
		p.client = client.New(client.Config{UserAgent: e.UserAgent, Place: func() (client.Place, error) {
			return client.Discover(client.Search{Server: info.Address, DataDir: dataDir})
		}})
		return p, nil
	case err := <-p.done:
		log.Close()
		return nil, env.Failed("the demo's control plane did not start: %v", err)
	}
}

// close stops the control plane and what still runs, and waits for it.
func (p *plane) close() error {
	defer p.log.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := p.client.Shutdown(ctx, true)
	p.client.Close()
	if err != nil {
		return fmt.Errorf("stop the demo's control plane: %w", err)
	}
	if err := <-p.done; err != nil {
		return fmt.Errorf("stop the demo's control plane: %w", err)
	}
	return nil
}

// withoutSettings leaves variables out that are settings of cdui.
func withoutSettings(environ []string) []string {
	var out []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "CDUI_") && !strings.HasPrefix(kv, "CODEFYUI_") {
			out = append(out, kv)
		}
	}
	return out
}
