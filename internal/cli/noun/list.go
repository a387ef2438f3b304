// Package noun is what the commands of all nouns have in common: those that
// print a list, those that are answered by one document, and those that forget
// something by name. It owns what --json, -q and --watch print. It knows no
// noun; their packages say what a row is, its cells and its id.
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

// List is a command that prints a list. It has no type parameters: generic code
// would be in the program once for each noun.
type List struct {
	// Flags adds those that this list has beyond the common ones, Check takes
	// the arguments and refuses what makes no sense. Both may be nil.
	Flags func(f *pflag.FlagSet)
	Check func(args []string) error

	// Documents are what is printed with --json.
	Documents []env.Document
	Fetch     func(ctx context.Context) (Page, error)
	// Live makes a page of the feed, for --watch, and Client is whose feed; nil
	// where the feed hasn't got the list.
	Live   func(b *live.Board) Page
	Client func() *client.Client

	// IDs is what help calls the rows' ids, Columns those of the table, and Empty
	// what is said to a person when there are no rows.
	IDs     string
	Columns []text.Column
	Empty   string

	json, quiet, watch bool
}

// Page is a list as it was found.
type Page struct {
	Document any
	Rows     []Row
	// Draw prints it where it is no table, and More is said to a person when
	// these aren't all.
	Draw func(w io.Writer) error
	More string
}

// Row is a line. ID is what -q prints of it, nothing where it is empty.
type Row struct {
	ID    string
	Cells []text.Cell
}

// Add adds a row.
func (p *Page) Add(id string, cells ...text.Cell) { p.Rows = append(p.Rows, Row{id, cells}) }

// On makes a command print the list.
func (l *List) On(e *env.Env, cmd *cobra.Command) *cobra.Command {
	f := cmd.Flags()
	if l.Flags != nil {
		l.Flags(f)
	}
	env.JSONFlag(f, &l.json, "print one JSON document", l.Documents...)
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
func Group(e *env.Env, make func() *List, cmd, ls *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	ls.Use, ls.Args = "ls", env.Args(0, 0, "")
	cmd.Args = env.UnknownCommand
	cmd.AddCommand(append([]*cobra.Command{make().On(e, ls)}, subs...)...)
	return make().On(e, cmd)
}

func (l *List) print(ctx context.Context, e *env.Env) error {
	if l.watch {
		return watch.Watch(ctx, e, watch.Dial(l.Client()), func(w io.Writer, b *live.Board) error { return l.write(e, w, l.Live(b)) })
	}
	page, err := l.Fetch(ctx)
	if err != nil {
		return err
	}
	return l.write(e, e.Out, page)
}

func (l *List) write(e *env.Env, w io.Writer, page Page) error {
	switch {
	case l.json:
		return e.WriteJSON(w, page.Document)
	case l.quiet:
		for _, r := range page.Rows {
			if r.ID != "" {
				fmt.Fprintln(w, r.ID)
			}
		}
		return nil
	case len(page.Rows) == 0:
		if l.watch {
			fmt.Fprintln(w, l.Empty)
		} else if e.OutTTY {
			e.Say("%s", l.Empty)
		}
		return nil
	case page.Draw != nil:
		return page.Draw(w)
	}
	t := &text.Table{Columns: l.Columns}
	for _, r := range page.Rows {
		t.Add(r.Cells...)
	}
	if err := t.Write(w, e.Style()); err != nil || page.More == "" || !e.OutTTY {
		return err
	}
	if l.watch {
		_, err := fmt.Fprintln(w, page.More)
		return err
	}
	e.Say("%s", page.More)
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
