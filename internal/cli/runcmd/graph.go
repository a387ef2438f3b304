package runcmd

import (
	"context"
	"path/filepath"
	"strings"

	"cdui/internal/cli/env"
	"cdui/internal/cli/graphfile"
	"cdui/internal/cli/phrase"
	"cdui/internal/run"
)

// isGraphFile tells by its name whether a file is a graph.
func isGraphFile(path string) bool { return strings.EqualFold(filepath.Ext(path), ".json") }

// fits refuses flags that mean nothing for what is to run.
func (o *Options) fits() error {
	if err := o.codeFits(); err != nil {
		return err
	}
	graph := o.File != "" && isGraphFile(o.File)
	for _, f := range []struct {
		name  string
		given bool
		// graphs says whom the flag is for.
		graphs bool
	}{
		{"--set", len(o.Set) > 0, true},
		{"--error-mode", o.ErrorMode != "", true},
		{"--max-retries", o.MaxRetries != 0, true},
		{"--env", len(o.Env) > 0, false},
		{"--python", o.Python != "", false},
		{"--venv", o.Venv != "", false},
		{"--conda", o.Conda != "", false},
	} {
		switch {
		case !f.given || f.graphs == graph:
		case f.graphs:
			return env.Usagef("%s is for graphs; arguments of a script or command come after --", f.name)
		default:
			return env.Usagef("%s is for scripts and commands; a graph runs in the Python of the control plane (its setting PYTHON)", f.name)
		}
	}
	if graph && len(o.Args) > 0 {
		return env.Usagef("a graph takes no arguments, but got %q after --; change its params with --set node.param=value", o.Args[0])
	}
	if o.MaxRetries != 0 {
		if o.ErrorMode == "" {
			o.ErrorMode = "retry"
		}
		if o.ErrorMode != "retry" {
			return env.Usagef("--max-retries goes with --error-mode retry, not %s", o.ErrorMode)
		}
	}
	return nil
}

// checked changes the graph as --set asks and has it checked, so that nothing
// is queued that can't run.
func checked(ctx context.Context, e *env.Env, src graphfile.Source, o *Options, f *found) error {
	raw, err := graphfile.Set(ctx, src, f.graph, o.Set)
	if err != nil {
		return err
	}
	f.graph = raw
	reply, err := src.Validate(ctx, raw)
	if err != nil {
		return err
	}
	for _, line := range graphfile.Findings(o.File, reply) {
		e.Say("%s", line)
	}
	if !reply.Valid {
		return env.Failed("")
	}
	for _, line := range graphfile.Warnings(reply) {
		e.Say("%s", strings.TrimSpace(line))
	}
	return nil
}

// graphName names the run of a graph after its file, as far as names may be
// long; nil for a file without a name that can be shown.
func graphName(file string) *string {
	name := []rune(phrase.Clean(filepath.Base(file)))
	name = name[:min(len(name), run.MaxNameChars)]
	if len(name) == 0 {
		return nil
	}
	s := string(name)
	return &s
}
