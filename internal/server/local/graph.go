package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cdui/internal/device"
	"cdui/internal/graph"
	"cdui/internal/protocol"
	"cdui/internal/pyruntime"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/submission"
)

// graphInput is what the Python engine is handed on its control pipe.
type graphInput struct {
	RunID   string         `json:"run_id"`
	Graph   graph.Prepared `json:"graph"`
	Options run.Options    `json:"options"`
	// DataRoot holds models/ and images/; SearchDirs are where relative paths
	// of files to read are looked for, in order.
	DataRoot   string   `json:"data_root"`
	SearchDirs []string `json:"search_dirs"`
	NodesDir   string   `json:"nodes_dir"`
	OutputsDir string   `json:"outputs_dir"`
	// APIInputs are the values of a graph that is called as a function.
	APIInputs   map[string]json.RawMessage `json:"api_inputs"`
	MaxParallel int                        `json:"max_parallel"`
}

// badGraph is a graph that can't be executed.
type badGraph struct{ text string }

func (b *badGraph) Error() string          { return b.text }
func (b *badGraph) EndClass() run.EndClass { return run.EndBadGraph }

// graph fills the assignment of a graph run: the graph is expanded, checked and
// levelled here, so that the child only carries it out.
func (s *Surroundings) graph(ctx context.Context, job execution.Job, kept string, a *protocol.Assignment, env *pyruntime.EnvSpec) error {
	prepared, findings := graph.Prepare(job.Row.Graph, s.Catalog(ctx))
	if len(findings) > 0 {
		texts := make([]string, len(findings))
		for i, f := range findings {
			texts[i] = f.Message
		}
		return &badGraph{strings.Join(texts, "; ")}
	}
	interpreter, err := s.find(ctx)
	if err != nil {
		return err
	}
	cwd := submission.FactsOf(job.Row).Cwd
	a.Kind, a.Dir = protocol.KindGraph, s.DataDir
	if info, err := os.Stat(cwd); filepath.IsAbs(cwd) && err == nil && info.IsDir() {
		a.Dir = cwd
	}
	a.Argv = pyruntime.GraphArgv(s.Runtime, interpreter)
	input := graphInput{
		RunID: job.Row.ID, Graph: prepared, Options: job.Row.Options, DataRoot: s.DataDir,
		SearchDirs: []string{a.Dir, s.DataDir, filepath.Join(s.DataDir, "data")},
		NodesDir:   filepath.Join(s.DataDir, "nodes"), OutputsDir: filepath.Join(kept, "outputs"),
		APIInputs: job.Inputs, MaxParallel: s.MaxParallel,
	}
	// Both describe the program of another kind of run.
	input.Options.Script, input.Options.Command = nil, nil
	if a.Input, err = json.Marshal(input); err != nil {
		return fmt.Errorf("hand over the graph of run %s: %w", run.Short(job.Row.ID), err)
	}
	env.Devices = s.cards(job.Row.Devices)
	return nil
}

// cards is what a local graph run sees: all of the machine's cards, never
// renumbered, since its nodes may name any of them; the run's own device is in
// its options.
func (s *Surroundings) cards(own []string) []string {
	var out []string
	for _, d := range s.Devices() {
		if d.Kind == device.CUDA {
			out = append(out, d.Device)
		}
	}
	if len(out) == 0 {
		return own
	}
	return out
}
