// Package noun is what the commands of all nouns have in common: those that
// print a list, those that are answered by one document, and those that forget
// something by name. It owns what --json, -q and --watch print. It knows no
// noun; their packages say what a row is, its columns and its id.
package noun

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
	"cdui/internal/cli/watch"
	"cdui/internal/client"
	"cdui/internal/client/live"
)

// List is a list of rows R that comes in pages P, the documents of --json.
type List[P, R any] struct {
	// Flags adds those that this list has beyond the common ones, Check takes
	// the arguments and refuses what makes no sense. Both may be nil.
	Flags func(f *pflag.FlagSet)
	Check func(args []string) error

	Fetch func(ctx context.Context) (P, error)
	// Live makes a page of the feed, for --watch, and Client is whose feed; nil
	// where the feed hasn't got the list.
	Live   func(b *live.Board) P
	Client func() *client.Client

	Rows func(page P) []R
	// ID is what -q prints of a row, nothing where it is empty, and IDs what help
	// calls that.
	ID  func(row R) string
	IDs string

	// Columns and Cells are the table. Draw replaces them where the list is
	// none.
	Columns []text.Column
	Cells   func(e *env.Env, row R) []text.Cell
	Draw    func(e *env.Env, w io.Writer, page P) error
	// Empty is said to a person when there are no rows, and what More gives when
	// these aren't all.
	Empty string
	More  func(page P) string

	// Document makes of a page what --json prints, where that is another document
	// than the page; Documents are those.
	Document  func(page P) any
	Documents []env.Document

	json, quiet, watch bool
}

// On makes a command print the list.
func (l *List[P, R]) On(e *env.Env, cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	if l.Flags != nil {
		l.Flags(f)
	}
	env.JSONFlag(f, &l.json, "print one JSON document", append([]env.Document{env.One[P]()}, l.Documents...)...)
	f.BoolVarP(&l.quiet, "quiet", "q", false, "print "+l.IDs+" alone")
	if l.Live != nil {
		f.BoolVarP(&l.watch, "watch", "w", false, "go on, and show it again when it changed")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if l.json && l.quiet {
			return errBoth()
		}
		if l.Check != nil {
			if err := l.Check(args); err != nil {
				return err
			}
		}
		return l.print(cmd.Context(), e)
	}
	return cmd
}

// Group makes a command of subcommands print a list, and gives it the
// subcommand ls, which prints the same.
func Group[P, R any](e *env.Env, make func() *List[P, R], cmd, ls *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	ls.Use, ls.Args = "ls", env.Args(0, 0, "")
	cmd.Args = env.UnknownCommand
	cmd.AddCommand(make().On(e, ls))
	cmd.AddCommand(subs...)
	return make().On(e, cmd)
}

func (l *List[P, R]) print(ctx context.Context, e *env.Env) error {
	if l.watch {
		return watch.Watch(ctx, e, watch.Dial(l.Client()), func(w io.Writer, b *live.Board) error { return l.write(e, w, l.Live(b)) })
	}
	page, err := l.Fetch(ctx)
	if err != nil {
		return err
	}
	return l.write(e, e.Out, page)
}

func (l *List[P, R]) write(e *env.Env, w io.Writer, page P) error {
	rows := l.Rows(page)
	switch {
	case l.json && l.Document != nil:
		return e.WriteJSON(w, l.Document(page))
	case l.json:
		return e.WriteJSON(w, page)
	case l.quiet:
		for _, r := range rows {
			if id := l.ID(r); id != "" {
				fmt.Fprintln(w, id)
			}
		}
		return nil
	case len(rows) == 0:
		if l.watch {
			fmt.Fprintln(w, l.Empty)
		} else if e.OutTTY {
			e.Say("%s", l.Empty)
		}
		return nil
	case l.Draw != nil:
		return l.Draw(e, w, page)
	}
	t := &text.Table{Columns: l.Columns}
	for _, r := range rows {
		t.Add(l.Cells(e, r)...)
	}
	if err := t.Write(w, e.Style()); err != nil || l.More == nil || !e.OutTTY {
		return err
	}
	more := l.More(page)
	switch {
	case more == "":
	case l.watch:
		_, err := fmt.Fprintln(w, more)
		return err
	default:
		e.Say("%s", more)
	}
	return nil
}

// Part is which part of a long list is asked for.
type Part struct {
	Limit, Offset int
}

// Flags adds --limit and --offset.
func (p *Part) Flags(f *pflag.FlagSet) {
	f.IntVarP(&p.Limit, "limit", "n", 30, "how many, 1 to 500")
	f.IntVar(&p.Offset, "offset", 0, "how many of the newest to skip")
}

// Check refuses a part that no list has.
func (p *Part) Check([]string) error {
	switch {
	case p.Limit < 1 || p.Limit > 500:
		return env.Usagef("--limit must be 1 to 500, not %d", p.Limit)
	case p.Offset < 0:
		return env.Usagef("--offset must be 0 or more, not %d", p.Offset)
	}
	return nil
}
