package runcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/phrase"
	"cdui/internal/run"
)

// Watch is what happens once a run is queued.
type Watch struct {
	Wait     bool
	Detach   bool
	Timeout  env.Duration
	ExitCode bool
	JSON     bool
	Quiet    bool
}

func (w *Watch) flags(f *pflag.FlagSet) {
	f.BoolVar(&w.Wait, "wait", true, "wait for its end and show its output")
	f.BoolVarP(&w.Detach, "detach", "d", false, "return as soon as it is queued")
	f.Var(&w.Timeout, "timeout", "stop waiting after this time, with exit code 124; the run goes on")
	f.BoolVar(&w.ExitCode, "exit-code", false, "exit with the code that it ended with")
	env.JSONFlag(f, &w.JSON, "print its events as JSON, one a line; with --detach what was queued", env.Lines(api.Event{}).If("without --detach"), env.One(api.SubmitReply{}).If("with --detach"))
	f.BoolVarP(&w.Quiet, "quiet", "q", false, "print the run's id alone")
}

func (w *Watch) check() error {
	w.Detach = w.Detach || !w.Wait
	if w.Detach && (w.Timeout > 0 || w.ExitCode) {
		return env.Usagef("--detach doesn't wait, so --timeout and --exit-code mean nothing with it")
	}
	if w.JSON && w.Quiet {
		return env.Usagef("--json and --quiet can't be given together")
	}
	return nil
}

// show tells of a run that was queued, and follows it unless it is detached.
func show(ctx context.Context, e *env.Env, deps Deps, control Control, reply api.SubmitReply, title string, w *Watch) error {
	switch {
	case w.Detach && w.JSON:
		return e.JSON(reply)
	case w.Quiet:
		e.Print("%s", reply.RunID)
	case !w.JSON:
		announce(e, reply, title, w.Detach)
	}
	if w.Detach {
		return nil
	}
	voice := follow.Full
	if w.Quiet {
		voice = follow.Silent
	}
	return follow.Follow(ctx, e, control, follow.Options{
		ID: reply.RunID, Console: !w.Quiet, Texts: !w.Quiet, JSON: w.JSON, Voice: voice,
		Timeout: time.Duration(w.Timeout), ExitCode: w.ExitCode,
		Patience: follow.DefaultPatience, Ephemeral: deps.Ephemeral, Display: deps.Display,
		Artifacts: func(ctx context.Context, id string) (api.Artifacts, error) { return control.Artifacts(ctx, id, "") },
	})
}

// announce says what was queued. For a detached run that is the result, so it
// goes to stdout.
func announce(e *env.Env, reply api.SubmitReply, title string, detached bool) {
	if name := phrase.Clean(reply.Name); name != "" {
		title = name
	}
	line := fmt.Sprintf("run %s  %s on %s", run.Short(reply.RunID), title, reply.QueueKey)
	if reply.Existing {
		line = fmt.Sprintf("run %s  %s is there already under this key, %s", run.Short(reply.RunID), title, reply.Status)
	}
	if !detached {
		e.Say("%s", line)
		return
	}
	e.Print("%s", line)
	if reply.Existing || reply.Status != run.Queued {
		return
	}
	why := ""
	if reply.Reason != nil {
		why = reply.Reason.Text
	}
	if wait := phrase.Waiting(reply.Position, reply.QueueKey, why); wait != "" {
		e.Print("queued     %s", wait)
	}
}
