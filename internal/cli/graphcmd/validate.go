package graphcmd

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphfile"
	"cdui/internal/cli/text"
	"cdui/internal/graph/finding"
)

// ValidateOptions is what `cdui validate` is asked.
type ValidateOptions struct {
	File  string
	Set   []string
	JSON  bool
	Quiet bool
}

// NewValidate makes `cdui validate`. runF replaces the run in tests.
func NewValidate(e *env.Env, d Deps, runF func(context.Context, *ValidateOptions) error) *cobra.Command {
	o := &ValidateOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *ValidateOptions) error { return Validate(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a graph without running it",
		Long: `Check a graph and say all that keeps it from running at once. The exit code is 1
when there is anything. It needs no control plane, but only a running one knows
node types of your own.`,
		Example: `  cdui validate train.json
  cdui validate train.json --set trainer.epochs=5
  cdui validate train.json --json | jq '.issues[].code'`,
		Args: env.Args(1, 1, "one graph file"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			if o.JSON && o.Quiet {
				return env.Usagef("--json and --quiet can't be given together")
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.Set, "set", nil, "check it with this param: node.param=value; may be repeated")
	env.JSONFlag(f, &o.JSON, "print one JSON document", env.One(api.ValidateReply{}))
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print nothing, the exit code says it")
	return cmd
}

// Validate checks a graph file.
func Validate(ctx context.Context, e *env.Env, d Deps, o *ValidateOptions) error {
	path := o.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.Dir, path)
	}
	raw, err := graphfile.Read(path, o.File)
	var malformed *graphfile.Malformed
	if errors.As(err, &malformed) {
		return verdict(e, o, nil, unreadable(malformed.Text))
	}
	if err != nil {
		return err
	}
	return d.ask(ctx, e, func(ctx context.Context, src graphfile.Source) error {
		raw, err := graphfile.Set(ctx, src, raw, o.Set)
		if err != nil {
			return err
		}
		found, err := src.Validate(ctx, raw)
		if err != nil {
			return err
		}
		return verdict(e, o, raw, found)
	})
}

func unreadable(why string) api.ValidateReply {
	message := "the graph can't be read: it " + why
	return api.ValidateReply{
		Errors: []string{message}, Warnings: []api.Issue{},
		Issues: []api.Issue{{Message: message, Code: finding.CodeUnreadable, Params: map[string]any{}}},
	}
}

// verdict prints what was found and makes it the end of the command.
func verdict(e *env.Env, o *ValidateOptions, raw json.RawMessage, found api.ValidateReply) error {
	switch {
	case o.JSON:
		if err := e.JSON(found); err != nil {
			return err
		}
	case o.Quiet:
	case found.Valid:
		e.Print("%s: %s, fine", o.File, text.Plural(graphfile.Size(raw), "node"))
	default:
		for _, line := range graphfile.Findings(o.File, found) {
			e.Print("%s", line)
		}
	}
	if !o.JSON && !o.Quiet {
		for _, line := range graphfile.Warnings(found) {
			e.Print("%s", line)
		}
	}
	if !found.Valid {
		return env.Failed("")
	}
	return nil
}
