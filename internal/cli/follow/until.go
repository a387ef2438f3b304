package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cdui/internal/cli/env"
	"cdui/internal/client"
)

// Watched is something that is waited for and is made of runs.
type Watched struct {
	// What names it, Again and Stop are the commands that wait for it and that
	// stop it.
	What, Again, Stop string
	// Timeout ends the waiting, not the thing; 0 waits for ever.
	Timeout time.Duration
	// Quiet says nothing when the waiting ends early.
	Quiet bool
}

// lookEvery is how often what has no events is looked at.
const lookEvery = 500 * time.Millisecond

// Until looks at it until look says that it is over. A control plane that goes
// away meanwhile is waited for.
func (w Watched) Until(ctx context.Context, e *env.Env, look func(ctx context.Context) (over bool, err error)) error {
	within, cancel := ctx, context.CancelFunc(func() {})
	if w.Timeout > 0 {
		within, cancel = context.WithTimeoutCause(ctx, w.Timeout, errTimeout)
	}
	defer cancel()
	f := &feeds{patience: DefaultPatience}
	for {
		over := false
		err := f.try(within, func() (err error) {
			over, err = look(within)
			return err
		})
		if err == nil && !over && pause(within, lookEvery) {
			continue
		}
		if err == nil && over {
			return nil
		}
		return w.left(ctx, within, e, err)
	}
}

// left says how a waiting came to an early end.
func (w Watched) left(ctx, within context.Context, e *env.Env, err error) error {
	var stopped *env.Interrupted
	switch {
	case errors.As(context.Cause(ctx), &stopped):
		if !w.Quiet {
			e.Say("%s goes on. Wait for it: %s   stop it: %s", w.What, w.Again, w.Stop)
		}
		return &env.Exit{Code: stopped.ExitCode()}
	case errors.Is(context.Cause(within), errTimeout):
		return &env.Exit{Code: 124, Text: fmt.Sprintf("%s has not ended after %s; it goes on. Wait for it: %s", w.What, w.Timeout, w.Again)}
	case away(err):
		return &client.Unreachable{Text: fmt.Sprintf("%s\n%s goes on without it; wait for it once it is back: %s", err, w.What, w.Again), Err: err}
	case err == nil:
		return context.Cause(within)
	}
	return err
}
