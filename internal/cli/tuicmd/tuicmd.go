// Package tuicmd is `cdui tui`: it turns flags and surroundings into what
// package tui is given, and hands it the submit of `cdui run`, so that both
// queue the same thing.
package tuicmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/runcmd"
	"cdui/internal/cli/studycmd"
	"cdui/internal/cli/sweepcmd"
	"cdui/internal/cli/watch"
	"cdui/internal/client"
	"cdui/internal/fsinfo"
	"cdui/internal/study"
	"cdui/internal/tui"
	"cdui/internal/tui/lang"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
)

// Options is what the command is asked.
type Options struct {
	Theme string
	Lang  string
	ASCII bool
}

// Deps is what the command is given beside its surroundings.
type Deps struct {
	Client func() *client.Client
	Run    runcmd.Deps
}

// New makes the command. runF replaces the run in tests.
func New(e *env.Env, d Deps, runF func(context.Context, *Options) error) *cobra.Command {
	o := &Options{}
	if runF == nil {
		runF = func(ctx context.Context, o *Options) error { return Run(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "tui",
		Short: "Everything on one screen that stays up to date",
		Long: `Show runs, queue and workers on a screen that stays up to date, and act on them.
The keys of each screen are on ?, and whatever a key does, the bottom line shows
the command that does the same.`,
		Example: `  cdui tui
  cdui tui --theme light --lang zh-TW
  cdui tui --server http://lab:8000`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(e); err != nil {
				return err
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Theme, "theme", "", "dark, light, none, or auto, which asks the terminal (default auto, none with NO_COLOR)")
	f.StringVar(&o.Lang, "lang", "", "en or zh-TW (default: the locale's)")
	f.BoolVar(&o.ASCII, "ascii", false, "draw with ASCII alone")
	return cmd
}

// check fills in what wasn't given and refuses what makes no sense.
func (o *Options) check(e *env.Env) error {
	themes := append([]string{tui.Auto}, theme.Names()...)
	switch {
	case o.Theme == "" && e.Getenv("NO_COLOR") != "":
		o.Theme = "none"
	case o.Theme == "":
		o.Theme = tui.Auto
	case !slices.Contains(themes, o.Theme):
		return env.Usagef("--theme must be one of %s, not %q", strings.Join(themes, ", "), o.Theme)
	}
	switch {
	case o.Lang == "":
		o.Lang = lang.FromLocale(e.Getenv("LC_ALL"), e.Getenv("LC_MESSAGES"), e.Getenv("LANG"))
	case !slices.Contains(lang.Names(), o.Lang):
		return env.Usagef("--lang must be one of %s, not %q", strings.Join(lang.Names(), ", "), o.Lang)
	}
	return nil
}

// Run shows the screen until it is left.
func Run(ctx context.Context, e *env.Env, d Deps, o *Options) error {
	if !e.OutTTY || e.Getenv("TERM") == "dumb" {
		return env.Usagef("cdui tui needs a terminal; cdui ls --watch and cdui queue --watch print lists that go on")
	}
	ctx, stop := untilHangup(ctx)
	defer stop()
	c := d.Client()
	defer c.Close()
	place, err := c.Where()
	if err != nil {
		return err
	}
	return tui.Run(ctx, tui.Config{
		Dial: watch.Dial(c), Source: c, Sweeps: c, Log: c,
		Act: ui.Actions{
			Runs: c, Workers: c, Queue: c, Sweeps: c, Submit: submitter(e, d.Run, c), SubmitSweep: sweeper(e, c), SubmitStudy: studier(e, c),
		},
		Theme: o.Theme, Lang: o.Lang, Unicode: e.Style().Unicode && !o.ASCII,
		Place: short(place.URL), Context: place.Context, Flags: leading(e), In: e.In, Out: e.Out, Environ: e.Environ, Now: e.Now,
		Disk: disk{}, MachineID: fsinfo.MachineID(),
	})
}

// untilHangup ends with SIGHUP too, which is what a line that is cut sends: left
// alone it would end the program with the terminal as it is.
func untilHangup(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() { cancel(nil) }
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case sig := <-caught:
			cancel(&env.Interrupted{Signal: sig})
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		signal.Stop(caught)
		cancel(nil)
		wait.Wait()
	}
}

// leading are the flags that a command needs to go where this one went.
func leading(e *env.Env) string {
	switch {
	case e.Flags.Context != "":
		return "--context " + e.Flags.Context
	case e.Flags.Server != "":
		return "--server " + e.Flags.Server
	}
	return ""
}

func short(url string) string {
	_, host, ok := strings.Cut(url, "://")
	if !ok {
		return url
	}
	return host
}

// submitter queues as `cdui run --detach --json` does.
func submitter(e *env.Env, deps runcmd.Deps, c runcmd.Rerunner) func(context.Context, ui.Submission) (api.SubmitReply, error) {
	return func(ctx context.Context, s ui.Submission) (api.SubmitReply, error) {
		quiet, out, said := silent(e)
		device, devices := placed(s)
		watch := runcmd.Watch{Detach: true, JSON: true}
		var err error
		if s.From != "" {
			err = runcmd.Rerun(ctx, quiet, deps, c, &runcmd.RerunOptions{Run: s.From, Worker: s.Worker, Device: device, Devices: devices, Memory: s.Memory, Watch: watch})
		} else {
			err = runcmd.Run(ctx, quiet, deps, &runcmd.Options{
				File: home(e, s.File), Args: s.Args, Worker: s.Worker, Device: device, Devices: devices, Memory: s.Memory, Watch: watch,
			})
		}
		var reply api.SubmitReply
		err = result(out, said, err, &reply)
		return reply, err
	}
}

// sweeper queues as `cdui sweep run --detach --json` does.
func sweeper(e *env.Env, c *client.Client) func(context.Context, ui.Submission) (api.SweepReply, error) {
	return func(ctx context.Context, s ui.Submission) (api.SweepReply, error) {
		quiet, out, said := silent(e)
		err := sweepcmd.Run(ctx, quiet, sweepcmd.Deps{Client: func() *client.Client { return c }}, &sweepcmd.RunOptions{
			File: home(e, s.File), Worker: s.Worker, Devices: s.Devices, Detach: true, JSON: true,
		})
		var reply api.SweepReply
		err = result(out, said, err, &reply)
		return reply, err
	}
}

// studier queues as `cdui study run --detach --json` does.
func studier(e *env.Env, c *client.Client) func(context.Context, ui.Submission) (api.StudyReply, error) {
	return func(ctx context.Context, s ui.Submission) (api.StudyReply, error) {
		quiet, out, said := silent(e)
		o := &studycmd.RunOptions{
			Run:         runcmd.Options{File: home(e, s.File), Args: s.Args, Worker: s.Worker},
			Repetitions: s.Repetitions, Confidence: study.DefaultConfidence, MaxAttempts: study.DefaultAttempts, Detach: true, JSON: true,
		}
		o.Run.Device, o.Run.Devices = placed(s)
		err := studycmd.Run(ctx, quiet, studycmd.Deps{Client: func() *client.Client { return c }}, o)
		var reply api.StudyReply
		err = result(out, said, err, &reply)
		return reply, err
	}
}

// placed gives the devices as the flags --device and --devices take them.
func placed(s ui.Submission) (device string, devices []string) {
	here := s.Worker == "" || s.Worker == "local"
	if len(s.Devices) > 0 && (s.Worker == "any" || here && len(s.Devices) == 1) {
		return s.Devices[0], nil
	}
	return "", s.Devices
}

// silent is an Env that writes nothing to the terminal.
func silent(e *env.Env) (quiet *env.Env, out, said *bytes.Buffer) {
	out, said = &bytes.Buffer{}, &bytes.Buffer{}
	q := *e
	q.In, q.Out, q.Err, q.OutTTY, q.ErrTTY = strings.NewReader(""), out, said, false, false
	return &q, out, said
}

// result reads the document that a command printed, or says why there is none.
func result(out, said *bytes.Buffer, err error, reply any) error {
	if err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			return fmt.Errorf("%s: %w", text, err)
		}
		return err
	}
	if err := json.Unmarshal(out.Bytes(), reply); err != nil {
		return fmt.Errorf("read what was queued: %w", err)
	}
	return nil
}

// home puts the home folder in place of ~, which no shell has seen here.
func home(e *env.Env, path string) string {
	if rest, ok := strings.CutPrefix(path, "~"+string(os.PathSeparator)); ok {
		return e.Getenv("HOME") + string(os.PathSeparator) + rest
	}
	return path
}
