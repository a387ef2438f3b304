// Package factscmd is `cdui runs facts`: what a run was executed with and made of.
package factscmd

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
)

type factsOptions struct {
	Run     string
	Sources bool
	JSON    bool
}

// New makes the command. newClient is called when it runs; complete offers run ids
// to the shell and may be nil.
func New(e *env.Env, newClient func() *client.Client, complete cobra.CompletionFunc) *cobra.Command {
	o := &factsOptions{}
	cmd := &cobra.Command{
		Use:   "facts RUN",
		Short: "Show what a run was executed with and made of",
		Example: `  cdui runs facts 3f1c9a
  cdui runs facts 3f1c9a --sources`,
		Args:              env.Args(1, 1, "one run"),
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Run = args[0]
			return facts(cmd.Context(), e, newClient(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Sources, "sources", false, "print the sources of its nodes, as recorded with --provenance")
	env.JSONFlag(f, &o.JSON, "print one JSON document", env.One(known{}))
	return cmd
}

// known is all that is known of what a run was executed with and made of.
type known struct {
	RunID       string            `json:"run_id"`
	Facts       json.RawMessage   `json:"execution_facts"`
	Fingerprint *api.Fingerprint  `json:"fingerprint"`
	Sources     []json.RawMessage `json:"sources"`
}

func facts(ctx context.Context, e *env.Env, c *client.Client, o *factsOptions) error {
	r, err := c.Run(ctx, o.Run)
	if err != nil {
		return err
	}
	k := known{RunID: r.ID, Facts: r.Facts}
	found, err := c.Fingerprint(ctx, r.ID)
	var refused *api.Error
	switch {
	case err == nil:
		k.Fingerprint = &found
	case !errors.As(err, &refused) || refused.Code != api.NotFound:
		return err
	}
	p, err := c.Provenance(ctx, r.ID)
	if err != nil {
		return err
	}
	k.Sources = p.Sources
	switch {
	case o.JSON:
		return e.JSON(k)
	case o.Sources:
		return showSources(e, k.Sources)
	}
	t := &text.Table{Columns: []text.Column{{}, {Flex: true, Min: 20}}}
	var lines [][2]string
	lines = flatten(lines, "", k.Facts)
	if k.Fingerprint != nil {
		lines = append(lines, [2]string{"fingerprint", k.Fingerprint.Digest})
		lines = flatten(lines, "", k.Fingerprint.Document)
	}
	for _, raw := range k.Sources {
		s := sourceOf(raw)
		lines = append(lines, [2]string{"node " + s.Name, s.Kind + " " + s.SHA256[:min(12, len(s.SHA256))]})
	}
	for _, l := range lines {
		t.Add(text.Text(phrase.Clean(l[0]), phrase.Clean(l[1]))...)
	}
	return t.Write(e.Out, e.Style())
}

// flatten adds a line for each member of a document, those of objects in it by
// their path.
func flatten(lines [][2]string, prefix string, doc json.RawMessage) [][2]string {
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil {
		return lines
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		raw := members[name]
		var words []string
		var word string
		switch {
		case string(raw) == "null" || name == "output_tail":
		case json.Unmarshal(raw, &word) == nil:
			lines = append(lines, [2]string{prefix + name, word})
		case json.Unmarshal(raw, &words) == nil:
			lines = append(lines, [2]string{prefix + name, strings.Join(words, " ")})
		case raw[0] == '{':
			lines = flatten(lines, prefix+name+".", raw)
		default:
			lines = append(lines, [2]string{prefix + name, text.Compact(raw)})
		}
	}
	return lines
}

// nodeSource is a record of what a node is made of.
type nodeSource struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
	Source string `json:"source"`
	Error  string `json:"error"`
}

func sourceOf(raw json.RawMessage) nodeSource {
	var s nodeSource
	_ = json.Unmarshal(raw, &s) // what can't be read is shown as nothing
	return s
}

func showSources(e *env.Env, sources []json.RawMessage) error {
	if len(sources) == 0 {
		e.Say("no sources; a run records them with --provenance")
	}
	for _, raw := range sources {
		s := sourceOf(raw)
		e.Print("# %s (%s) %s %s%s", phrase.Clean(s.Name), phrase.Clean(s.Kind), phrase.Clean(s.File), phrase.Clean(s.SHA256), phrase.Clean(s.Error))
		for line := range strings.SplitSeq(strings.TrimRight(s.Source, "\n"), "\n") {
			indent := len(line) - len(strings.TrimLeft(line, " \t"))
			e.Print("%s%s", line[:indent], phrase.Clean(line[indent:]))
		}
	}
	return nil
}
