package runscmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

type eventsOptions struct {
	Run    string
	Cursor int64
	Follow bool
	JSON   bool
}

func newEvents(e *env.Env, d Deps) *cobra.Command {
	o := &eventsOptions{}
	cmd := &cobra.Command{
		Use:   "events RUN",
		Short: "Show a run's log of events",
		Example: `  cdui runs events 3f1c9a
  cdui runs events 3f1c9a -f --json | jq 'select(.type=="metric")'`,
		Args:              env.Args(1, 1, "one run"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Run = args[0]
			if o.Cursor < 0 {
				return env.Usagef("--cursor must be 0 or more, not %d", o.Cursor)
			}
			return events(cmd.Context(), e, d, o)
		},
	}
	f := cmd.Flags()
	f.Int64Var(&o.Cursor, "cursor", 0, "start after this cursor")
	f.BoolVarP(&o.Follow, "follow", "f", false, "go on until the run has ended; then exit as it did")
	env.JSONFlag(f, &o.JSON, "print JSON, one event a line", env.Lines(api.Event{}))
	return cmd
}

func events(ctx context.Context, e *env.Env, d Deps, o *eventsOptions) error {
	c := d.Client()
	r, err := c.Run(ctx, o.Run)
	if err != nil {
		return err
	}
	emit := func(ev api.Event) error {
		if o.JSON {
			return e.JSONLine(ev)
		}
		line := fmt.Sprintf("%6d  %s  %-18s  %s", ev.Cursor, ev.TS.Local().Format("15:04:05.000"), ev.Type, phrase.Clean(text.Compact(ev.Payload)))
		if style := e.Style(); style.Width > 0 {
			line = style.Crop(line, style.Width)
		}
		_, err := fmt.Fprintln(e.Out, line)
		return err
	}
	if o.Follow {
		return follow.Events(ctx, e, c, r.ID, o.Cursor, emit)
	}
	for cursor := o.Cursor; ; {
		page, err := c.Events(ctx, r.ID, cursor, 0, 2000)
		if err != nil {
			return stopped(ctx, err)
		}
		for _, ev := range page.Events {
			if err := emit(ev); err != nil {
				return err
			}
		}
		if len(page.Events) == 0 {
			return nil
		}
		cursor = page.Cursor
	}
}

// stopped gives the signal that ended ctx, or err.
func stopped(ctx context.Context, err error) error {
	var sig *env.Interrupted
	if errors.As(context.Cause(ctx), &sig) {
		return &env.Exit{Code: sig.ExitCode()}
	}
	return err
}

const timeStamp = "2006-01-02 15:04:05.000"

func stamp(t time.Time) string { return t.Local().Format(timeStamp) }
