package graphcmd

import (
	"context"
	"encoding/json"
	"errors"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphfile"
	"cdui/internal/client"
	"cdui/internal/graph"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	Client func() *client.Client
}

// ask puts a question to the control plane, else to what ships with the
// program. A control plane that was named and doesn't answer is an error.
func (d Deps) ask(ctx context.Context, e *env.Env, question func(context.Context, graphfile.Source) error) error {
	c := d.Client()
	var gone *client.Unreachable
	place, err := c.Where()
	if err == nil {
		err = question(ctx, c)
		if place.Local == nil {
			return err
		}
	}
	if !errors.As(err, &gone) {
		return err
	}
	e.Say("no control plane runs here, so node types and presets of your own are unknown")
	builtin, err := catalog.Builtin()
	if err != nil {
		return err
	}
	return question(ctx, shipped{builtin})
}

// shipped is a Source without a control plane.
type shipped struct{ *catalog.Catalog }

func (s shipped) Validate(_ context.Context, raw json.RawMessage) (api.ValidateReply, error) {
	report := graph.Inspect(raw, s.Catalog)
	return reply(report), nil
}

func (s shipped) Nodes(context.Context) ([]catalog.Definition, error) { return s.Catalog.Nodes(), nil }

func (s shipped) Presets(context.Context) ([]catalog.Preset, error) {
	return s.Catalog.Presets(), nil
}

// reply says what a control plane would.
func reply(r graph.Report) api.ValidateReply {
	out := api.ValidateReply{
		Valid: len(r.Findings) == 0, Errors: []string{},
		Issues: api.IssuesOf(r.Findings), Warnings: api.IssuesOf(r.Warnings),
	}
	for _, f := range r.Findings {
		out.Errors = append(out.Errors, f.Message)
	}
	return out
}
