package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

// Reader reads single runs.
type Reader interface {
	Run(ctx context.Context, id string) (api.Run, error)
}

// Stopping shows how runs that were told to stop do so, until all have ended.
func Stopping(ctx context.Context, e *env.Env, src Reader, ids []string) error {
	scr := screen{out: e.Out, err: e.Err, live: true, together: true, style: e.ErrStyle}
	defer scr.clear()
	left := ids
	for {
		var still []string
		var lines []string
		for _, id := range left {
			r, err := src.Run(ctx, id)
			if err != nil {
				scr.clear()
				return stoppingLeft(ctx, err, e, left)
			}
			line := stoppingLine(r, e)
			if r.Status.Terminal() {
				scr.say(line)
				continue
			}
			still = append(still, id)
			lines = append(lines, line)
		}
		if left = still; len(left) == 0 {
			return nil
		}
		scr.draw(lines...)
		if !pause(ctx, 200*time.Millisecond) {
			scr.clear()
			return stoppingLeft(ctx, ctx.Err(), e, left)
		}
	}
}

func stoppingLine(r api.Run, e *env.Env) string {
	style, now := e.ErrStyle(), e.Now()
	mark := style.PaintedMark(r.Status, false)
	head := fmt.Sprintf("%s run %s  ", mark, run.Short(r.ID))
	if !r.Status.Terminal() {
		return head + phrase.Stopping(r, now)
	}
	line := head + string(r.Status)
	if r.CancelRequestedAt != nil && r.FinishedAt != nil {
		line += " after " + text.Duration(r.FinishedAt.Sub(*r.CancelRequestedAt))
	}
	if why := phrase.Failure(r.Row); why != "" {
		line += "   " + why
	}
	return line
}

// stoppingLeft says that the runs go on stopping without us.
func stoppingLeft(ctx context.Context, err error, e *env.Env, left []string) error {
	var stopped *env.Interrupted
	if errors.As(context.Cause(ctx), &stopped) {
		e.Say("%s on stopping; cdui ls shows them", goes(len(left)))
		return &env.Exit{Code: stopped.ExitCode()}
	}
	return err
}

func goes(n int) string {
	if n == 1 {
		return "the run goes"
	}
	return text.Plural(n, "run") + " go"
}
