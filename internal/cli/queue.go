package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client/live"
	"cdui/internal/run"
)

func newQueue(e *env.Env) *cobra.Command {
	var key string
	var long bool
	page := func(q api.Queue) noun.Page {
		p := noun.Page{Document: q, Draw: func(w io.Writer) error {
			if long || key != "" {
				return queueLong(q, e.Style()).Write(w, e.Style())
			}
			return queueTable(q, e.Style()).Write(w, e.Style())
		}}
		for _, k := range q.Keys {
			waiting := make([]string, len(k.Waiting))
			for i, w := range k.Waiting {
				waiting[i] = w.RunID
			}
			p.Add(strings.Join(waiting, "\n"))
		}
		return p
	}
	list := &noun.List{
		Flags:     func(f *pflag.FlagSet) { f.BoolVarP(&long, "long", "l", false, "a line for each run") },
		Documents: []env.Document{env.One(api.Queue{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			q, err := e.Client().Queue(ctx)
			if err == nil && key != "" {
				q, err = onlyKey(q, key)
			}
			return page(q), err
		},
		Live: func(b *live.Board) noun.Page {
			q := api.Queue{Keys: []api.QueueKey{}}
			for _, k := range b.Keys() {
				if key == "" || k.Key == key {
					q.Keys = append(q.Keys, k.QueueKey)
				}
			}
			return page(q)
		},
		Client: e.Client,
		IDs:    "the ids of waiting runs, in order,",
		Empty:  "nothing runs and nothing waits",
	}
	list.Check = func(args []string) error {
		if key = strings.ToLower(strings.Join(args, "")); key != "" {
			list.Empty = fmt.Sprintf("nothing runs and nothing waits on %q", key)
		}
		return nil
	}
	cmd := list.On(e, &cobra.Command{
		Use:   "queue [KEY]",
		Short: "Show what runs and what waits, and why",
		Long: `Show each queue: how many runs it takes, which of them run, which wait in which
order, and why the first one waits. With a key, or with --long, every waiting run
has a line of its own.`,
		Example: `  cdui queue
  cdui queue cuda:0
  cdui queue --watch
  cdui queue hold box1/cuda --note 'until the paper is out'
  cdui queue --json`,
		Args: env.Args(0, 1, "one queue key"),
	})
	cmd.AddCommand(newQueueHold(e), newQueueRelease(e))
	return cmd
}

func onlyKey(q api.Queue, key string) (api.Queue, error) {
	var known []string
	for _, k := range q.Keys {
		if k.Key == key {
			return api.Queue{Keys: []api.QueueKey{k}}, nil
		}
		known = append(known, k.Key)
	}
	if len(known) == 0 {
		return q, env.Failed("nothing runs and nothing waits on %q", key)
	}
	return q, &env.Exit{Code: exitNotFound, Text: fmt.Sprintf("no queue is called %q. Known: %s", key, strings.Join(known, ", "))}
}

// queueTable has a line for each key.
func queueTable(q api.Queue, s text.Style) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Title: "KEY"},
		{Title: "CAP"},
		{Title: "RUNNING", Flex: true, Min: 8, Wrap: true},
		{Title: "WAITING (in order)", Flex: true, Min: 12, Wrap: true, Drop: 1},
		{Title: "WHY THE FIRST WAITS", Flex: true, Min: 14, Wrap: true, Drop: 2},
	}}
	for _, k := range q.Keys {
		var waiting []string
		why := ""
		for i, w := range k.Waiting {
			if i == 4 && len(k.Waiting) > 5 {
				waiting = append(waiting, fmt.Sprintf("and %d more", len(k.Waiting)-i))
				break
			}
			name := phrase.Clean(w.Name)
			if name == "" {
				name = run.Short(w.RunID)
			}
			waiting = append(waiting, fmt.Sprintf("%d %s", i+1, s.Crop(name, 24)))
		}
		if len(k.Waiting) > 0 {
			why = reason(k.Waiting[0].Reason)
		} else if k.Held != nil {
			why = reason(k.Held)
		}
		t.Add(text.Text(k.Key, capText(k), orDash(shortIDs(k.Running)), orDash(strings.Join(waiting, ", ")), why)...)
	}
	return t
}

// queueLong has a line for each run.
func queueLong(q api.Queue, s text.Style) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Title: "KEY"},
		{Title: "CAP", Drop: 2},
		{},
		{Title: "RUN"},
		{Title: "NAME", Flex: true, Min: 10, Drop: 1},
		{Title: "PLACE", Right: true},
		{Title: "WHY", Flex: true, Wrap: true, Min: 14},
	}}
	for _, k := range q.Keys {
		key, limit := k.Key, capText(k)
		line := func(entry api.QueueEntry, place, why string, held bool) {
			t.Add(text.Cell{Text: key}, text.Cell{Text: limit},
				text.Cell{Text: s.Mark(entry.Status, held), Colour: text.MarkColour(entry.Status, held)},
				text.Cell{Text: run.Short(entry.RunID)}, text.Cell{Text: phrase.Clean(entry.Name)}, text.Cell{Text: place}, text.Cell{Text: why})
			key, limit = "", ""
		}
		for _, r := range k.Running {
			line(r, string(r.Status), "", false)
		}
		for _, w := range k.Waiting {
			place := ""
			if w.Position > 0 {
				place = text.Ordinal(w.Position)
			}
			line(w, place, reason(w.Reason), w.Reason != nil && w.Reason.Code == run.ReasonHeld)
		}
	}
	return t
}

func capText(k api.QueueKey) string { return fmt.Sprintf("%d/%d", len(k.Running), k.Cap) }

func reason(r *run.Reason) string {
	if r == nil {
		return ""
	}
	return phrase.Clean(r.Code + ": " + r.Text)
}

func shortIDs(list []api.QueueEntry) string {
	var out []string
	for _, r := range list {
		out = append(out, run.Short(r.RunID))
	}
	return strings.Join(out, ", ")
}

func orDash(s string) string {
	if s == "" {
		return text.Dash
	}
	return s
}

func newQueueHold(e *env.Env) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:     "hold KEY",
		Short:   "Keep the runs of a queue from starting; what runs goes on",
		Example: "  cdui queue hold cuda:0\n  cdui queue hold box1/cuda --note 'until the paper is out'",
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for those who wait")
	return queueChange(e, "the queue %[1]s is held; cdui queue release %[1]s lets it go", func(ctx context.Context, args []string) (api.QueueHold, error) {
		return e.Client().HoldQueue(ctx, args[0], note)
	}, cmd)
}

func newQueueRelease(e *env.Env) *cobra.Command {
	return queueChange(e, "the queue %s goes on", func(ctx context.Context, args []string) (api.QueueHold, error) {
		return e.Client().ReleaseQueue(ctx, args[0])
	}, &cobra.Command{
		Use:     "release KEY",
		Short:   "Let the runs of a held queue go",
		Example: "  cdui queue release cuda:0",
	})
}

func queueChange(e *env.Env, said string, ask func(context.Context, []string) (api.QueueHold, error), cmd *cobra.Command) *cobra.Command {
	cmd.Args = env.Args(1, 1, "one queue key")
	answer := noun.Answer[api.QueueHold]{
		Ask: ask,
		ID:  func(h api.QueueHold) string { return h.Key }, IDs: "the key",
		Show: func(h api.QueueHold) error {
			e.Print(said, h.Key)
			return nil
		},
	}
	return answer.On(e, cmd)
}
