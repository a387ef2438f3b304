package serverctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
	"cdui/internal/client"
)

// StopOptions is what stop is asked.
type StopOptions struct {
	CancelRuns bool
	JSON       bool
}

// NewStop makes `cdui stop`.
func NewStop(e *env.Env, runF func(context.Context, *StopOptions) error) *cobra.Command {
	o := &StopOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *StopOptions) error { return Stop(ctx, e, o) }
	}
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Stop the control plane; trainings go on",
		Long: `Stop the control plane. Trainings go on without it, and the next start takes them
up again. With --cancel-runs they are asked to stop first.`,
		Example: `  cdui stop
  cdui stop --cancel-runs`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.CancelRuns, "cancel-runs", false, "stop the trainings too")
	env.JSONFlag(cmd.Flags(), &o.JSON, "print how many trainings go on as one JSON document", env.One(api.ShutdownReply{}))
	return cmd
}

const (
	stopTimeout = 2 * time.Minute
	stopPoll    = 20 * time.Millisecond
)

// Stop stops the control plane and waits until its process is gone.
func Stop(ctx context.Context, e *env.Env, o *StopOptions) error {
	c := e.Client()
	place, err := c.Where()
	var gone *client.Unreachable
	if errors.As(err, &gone) && gone.Absent {
		if o.JSON {
			return e.JSON(api.ShutdownReply{})
		}
		e.Say("no control plane is running here")
		return nil
	}
	if err != nil {
		return err
	}
	reply, err := c.Shutdown(ctx, o.CancelRuns)
	if err != nil {
		if place.Local != nil && errors.As(err, &gone) {
			return &client.Unreachable{Text: fmt.Sprintf("%s\nits process is %d; end it with: kill %d", err, place.Local.PID, place.Local.PID), Err: err}
		}
		return err
	}
	if place.Local != nil {
		if err := awaitEnd(ctx, e, place.Local.PID); err != nil {
			return err
		}
	}
	switch {
	case o.JSON:
		return e.JSON(reply)
	case reply.Left == 1:
		e.Print("stopped; 1 training goes on without it, and cdui start takes it up again")
	case reply.Left > 1:
		e.Print("stopped; %s go on without it, and cdui start takes them up again", text.Plural(reply.Left, "training"))
	default:
		e.Print("stopped")
	}
	return nil
}

func awaitEnd(ctx context.Context, e *env.Env, pid int) error {
	over := time.NewTimer(stopTimeout)
	defer over.Stop()
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for e.Alive(pid) {
		select {
		case <-tick.C:
		case <-over.C:
			return env.Failed("the control plane (pid %d) is still stopping after %s", pid, stopTimeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
