package noun_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/text"
)

type page struct {
	Words []string `json:"words"`
}

func words(list ...string) *noun.List {
	return &noun.List{
		Documents: []env.Document{env.One(page{})},
		Fetch: func(context.Context) (noun.Page, error) {
			p := noun.Page{Document: page{list}, More: "and more"}
			for _, s := range list {
				p.Add(strings.TrimSuffix(s, "-"), text.Text(s)...)
			}
			return p, nil
		},
		IDs:     "words",
		Columns: []text.Column{{Title: "WORD"}},
		Empty:   "no words",
	}
}

func TestWhatCommandsPrint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args    string
		columns int
		make    func(e *clitest.Env, cmd *cobra.Command) *cobra.Command
		out     string
		says    string
		usage   bool
	}{
		{"", 0, on(words("a", "-")), "WORD\na\n-\n", "", false},
		{"", 80, on(words("a")), "WORD\na\n", "and more\n", false},
		{"-q", 0, on(words("a", "-")), "a\n", "", false},
		{"--json", 0, on(words("a")), `{"words":["a"]}` + "\n", "", false},
		{"--json -q", 0, on(words("a")), "", "can't be given together", true},
		{"", 80, on(words()), "", "no words\n", false},
		{"", 0, on(words()), "", "", false},
		{"-q", 0, ask("a"), "a\n", "", false},
		{"-q", 0, ask(""), "", "", false},
		{"", 0, ask("a"), "it is a\n", "", false},
		{"--json", 0, ask("a"), `"a"` + "\n", "", false},
		{"--json -q", 0, ask("a"), "", "can't be given together", true},
		{"a b", 0, forget, "gone a\ngone b\n", "", false},
		{"-q a", 0, forget, "a\n", "", false},
		{"--json a b", 0, forget, `{"removed":["a","b"]}` + "\n", "", false},
	} {
		e := clitest.New(t, c.columns)
		cmd := c.make(e, &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true})
		cmd.SetArgs(append([]string{}, strings.Fields(c.args)...))
		err := cmd.ExecuteContext(t.Context())
		var usage *env.Usage
		if errors.As(err, &usage) {
			e.Say("%v", err)
		}
		if (usage != nil) != c.usage || e.Stdout.String() != c.out || !strings.Contains(e.Stderr.String(), c.says) || c.says == "" && e.Stderr.String() != "" {
			t.Errorf("%q: %v, out %q, err %q", c.args, err, e.Stdout, e.Stderr)
		}
	}
}

// An empty name would reach another route, so nothing is forgotten.
func TestAnEmptyNameForgetsNothing(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	cmd := forget(e, &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true})
	cmd.SetArgs([]string{"a", " "})
	cmd.SetOut(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); err == nil || err.Error() != "the name of a word is empty; cdui words -q lists them" || e.Stdout.String() != "" {
		t.Errorf("%v, %q", err, e.Stdout)
	}
}

func on(l *noun.List) func(*clitest.Env, *cobra.Command) *cobra.Command {
	return func(e *clitest.Env, cmd *cobra.Command) *cobra.Command { return l.On(e.Env, cmd) }
}

func ask(word string) func(*clitest.Env, *cobra.Command) *cobra.Command {
	return func(e *clitest.Env, cmd *cobra.Command) *cobra.Command {
		return noun.Answer[string]{
			Ask: func(context.Context, []string) (string, error) { return word, nil },
			ID:  func(s string) string { return s }, IDs: "the word",
			Show: func(s string) error {
				e.Print("it is %s", s)
				return nil
			},
		}.On(e.Env, cmd)
	}
}

func forget(e *clitest.Env, cmd *cobra.Command) *cobra.Command {
	return noun.Remove{Noun: "a word", Of: "cdui words", Done: "gone", Forget: func(context.Context, string) error { return nil }}.On(e.Env, cmd)
}
