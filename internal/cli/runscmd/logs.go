package runscmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/follow"
	"cdui/internal/client"
)

// LogsOptions is what logs is asked.
type LogsOptions struct {
	Run    string
	Follow bool
	Times  bool
	Raw    bool
	Since  string
	// Tail is the number of last lines, -1 for all.
	Tail int
}

// NewLogs makes `cdui runs logs`.
func NewLogs(e *env.Env, d Deps, runF func(context.Context, *LogsOptions) error) *cobra.Command {
	o := &LogsOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *LogsOptions) error { return Logs(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Show a run's console output",
		Long: `Show what a run wrote to stdout and stderr.

Progress bars are shown in their last state, and control sequences other than
colours are left out; --raw gives the very bytes. With -f the exit code is the
run's: 0 when it succeeded, else 1.`,
		Example: `  cdui logs -f 3f1c9a
  cdui logs 3f1c9a --tail 100
  cdui logs 3f1c9a -t --since 10m
  cdui logs 3f1c9a --raw > output.bin`,
		Args:              env.Args(1, 1, "one run"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Run = args[0]
			if err := o.check(); err != nil {
				return err
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, "go on until the run has ended")
	f.BoolVarP(&o.Times, "timestamps", "t", false, "show when each line was written")
	f.StringVar(&o.Since, "since", "", "start there: a duration (10m) or a time (15:04, 2026-01-02T15:04:05Z)")
	f.IntVarP(&o.Tail, "tail", "n", -1, "only the last lines; -1 shows all")
	f.BoolVar(&o.Raw, "raw", false, "the very bytes")
	return cmd
}

func (o *LogsOptions) check() error {
	switch {
	case o.Raw && o.Times:
		return env.Usagef("--raw and --timestamps can't be given together")
	case o.Tail < -1:
		return env.Usagef("--tail must be 0 or more, or -1 for all, not %d", o.Tail)
	}
	return nil
}

// Logs prints console output.
func Logs(ctx context.Context, e *env.Env, d Deps, o *LogsOptions) error {
	c := d.Client()
	r, err := c.Run(ctx, o.Run)
	if err != nil {
		return err
	}
	var index api.LogIndex
	if o.Times || o.Since != "" || o.Tail >= 0 {
		if index, err = c.LogIndex(ctx, r.ID); err != nil {
			return stopped(ctx, err)
		}
	}
	offset := int64(0)
	if o.Since != "" {
		since, err := parseSince(o.Since, e.Now())
		if err != nil {
			return err
		}
		offset = offsetSince(index, since)
	}
	if o.Tail >= 0 {
		last, err := tailOffset(ctx, c, r.ID, index.Size, o.Tail)
		if err != nil {
			return stopped(ctx, err)
		}
		offset = max(offset, last) // of those since then
	}
	display := func(colour, live bool) follow.Display {
		if o.Raw || d.Display == nil {
			return nil
		}
		inner := d.Display(colour, live && !o.Times)
		if o.Times {
			return follow.NewStamper(inner, index, r.Status.Active(), e.Now, stamp)
		}
		return inner
	}
	if o.Follow {
		fo := follow.Options{ID: r.ID, Console: true, Offset: offset, Voice: follow.EndOnly, Patience: follow.DefaultPatience}
		if !o.Raw && d.Display != nil {
			fo.Display = display
		}
		// Events have no place in the output, so a part of it has none of them.
		fo.Texts = !o.Raw && !o.Times && o.Since == "" && o.Tail < 0
		return follow.Follow(ctx, e, c, fo)
	}
	return stopped(ctx, dump(ctx, e, c, r.ID, offset, display(e.Style().Colour, false)))
}

// dump prints what is there now.
func dump(ctx context.Context, e *env.Env, c *client.Client, id string, offset int64, disp follow.Display) error {
	write := func(p []byte) error {
		_, err := e.Out.Write(p)
		return err
	}
	for end := int64(-1); ; {
		chunk, err := c.Log(ctx, id, offset, 1<<20, 0)
		if err != nil {
			return err
		}
		if end < 0 {
			end = chunk.Size
		}
		if placed, ok := disp.(follow.Placed); ok {
			placed.At(chunk.Offset)
		}
		if chunk.Cut > 0 {
			if disp != nil {
				if err := write(line(disp.Flush())); err != nil {
					return err
				}
			}
			e.Say("%s", follow.CutMark(chunk.Cut))
		}
		p := chunk.Bytes
		if disp != nil {
			p = disp.Write(p)
		}
		if err := write(p); err != nil {
			return err
		}
		if offset = chunk.Next; offset >= end || len(chunk.Bytes) == 0 {
			if disp == nil {
				return nil
			}
			last := disp.Flush()
			if e.OutTTY {
				last = line(last)
			}
			return write(last)
		}
	}
}

// line ends p with a line break, unless it is empty.
func line(p []byte) []byte {
	if len(p) > 0 && p[len(p)-1] != '\n' {
		p = append(p, '\n')
	}
	return p
}

// parseSince reads a duration before now, or a time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if d, err := env.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	local := now.Local()
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, local.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, s, local.Location()); err == nil {
			at := time.Date(local.Year(), local.Month(), local.Day(), t.Hour(), t.Minute(), t.Second(), 0, local.Location())
			if at.After(local) {
				at = at.AddDate(0, 0, -1)
			}
			return at, nil
		}
	}
	return time.Time{}, env.Usagef("--since %q is neither a duration (10m) nor a time (15:04, 2026-01-02T15:04:05Z)", s)
}

// thinned is from how many marks on an index is thinner than what was kept.
const thinned = 4096

// offsetSince gives where the output of a time begins. A mark is at most a
// tenth of a second older than the bytes behind it, unless the index was
// thinned: then the mark before is the safe one.
func offsetSince(index api.LogIndex, since time.Time) int64 {
	before := int64(0)
	for _, m := range index.Marks {
		if !m.TS.Before(since) {
			if len(index.Marks) >= thinned {
				return before
			}
			return m.Offset
		}
		before = m.Offset
	}
	if len(index.Marks) == 0 {
		return 0
	}
	if len(index.Marks) >= thinned {
		return before
	}
	return index.Size
}

// tailOffset gives where the last n lines begin, reading back from the end.
func tailOffset(ctx context.Context, c *client.Client, id string, size int64, n int) (int64, error) {
	if n == 0 {
		return size, nil
	}
	for window := int64(64 << 10); ; window *= 4 {
		start := max(0, size-window)
		tail, at, err := readRange(ctx, c, id, start, size)
		if err != nil {
			return 0, err
		}
		lines, end := 0, len(tail)
		if end > 0 && tail[end-1] == '\n' {
			end--
		}
		for i := end - 1; i >= 0; i-- {
			if tail[i] == '\n' {
				if lines++; lines == n {
					return at + int64(i) + 1, nil
				}
			}
		}
		if start == 0 || at > start {
			return at, nil // all of it, or all since a hole
		}
	}
}

// readRange reads [from, to) of the output. Behind a hole it begins later: at.
func readRange(ctx context.Context, c *client.Client, id string, from, to int64) (p []byte, at int64, err error) {
	at = from
	for next := from; next < to; {
		chunk, err := c.Log(ctx, id, next, int(min(to-next, 1<<20)), 0)
		if err != nil {
			return nil, 0, err
		}
		if chunk.Offset > next {
			p, at = p[:0], chunk.Offset
		}
		if len(chunk.Bytes) == 0 {
			break
		}
		p = append(p, chunk.Bytes...)
		next = chunk.Next
	}
	return p, at, nil
}
