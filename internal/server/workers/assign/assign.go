// Package assign turns placed runs into the assignments that workers get.
package assign

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/graph"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
)

// Destination is the worker that a run's files have to reach.
type Destination struct {
	Name         string
	SameMachine  bool
	Capabilities protocol.Capabilities
	Mounts       map[string]string
	// FingerprintDigest is that of its environment.
	FingerprintDigest string
}

// Shipper fills an assignment with how the files of its run get to the worker
// and back: Code, Storage, and the paths of the program that go with them.
type Shipper interface {
	Ship(ctx context.Context, job execution.Job, to Destination, a *protocol.Assign) error
}

// Builder makes assignments.
type Builder struct {
	// Catalog gives the server's node types.
	Catalog func(ctx context.Context) *catalog.Catalog
	// Shipper may be nil: paths are then taken as the worker's own.
	Shipper                 Shipper
	PayloadCap, MaxParallel int
}

// lacking is a run that its worker can't execute.
type lacking struct{ text string }

func (l *lacking) Error() string          { return l.text }
func (l *lacking) EndClass() run.EndClass { return run.EndBadGraph }

// Build turns a placed run into what its worker needs.
func (b Builder) Build(ctx context.Context, job execution.Job, hello *protocol.Hello, to Destination) (*protocol.Assign, error) {
	row := job.Row
	options, err := json.Marshal(row.Options)
	if err != nil {
		return nil, fmt.Errorf("hand over the options of run %s: %w", run.Short(row.ID), err)
	}
	a := &protocol.Assign{
		RunID: row.ID, Attempt: row.Attempt, NodeID: job.Program.NodeID, Options: options,
		Device: row.Options.Device, Devices: row.Devices,
		GraceS: protocol.SecondsOf(job.Grace), MaxRunS: protocol.Seconds(row.Options.MaxRunSeconds),
		PayloadCap: b.PayloadCap, FingerprintDigest: to.FingerprintDigest,
	}
	if a.MemoryBudgets, err = budgets(row, to); err != nil {
		return nil, err
	}
	switch p := job.Program; {
	case p.Script != nil:
		a.Kind = protocol.KindScript
		a.Script = &protocol.Script{
			Path: p.Script.Path, Args: p.Script.Args, Env: p.Script.Env, Cwd: p.Script.Cwd,
			Interpreter: p.Script.Interpreter, Venv: p.Script.Venv, Params: p.Script.Params,
		}
	case p.Command != nil:
		a.Kind = protocol.KindCommand
		a.Command = &protocol.Command{Argv: p.Command.Argv, Env: p.Command.Env, Cwd: p.Command.Cwd, Venv: p.Command.Venv}
	default:
		a.Kind = protocol.KindGraph
		if a.Graph, err = b.graph(ctx, job, hello); err != nil {
			return nil, err
		}
	}
	if b.Shipper != nil {
		if err := b.Shipper.Ship(ctx, job, to, a); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// budgets gives what a run's memory budget means for each of its cards. A worker
// that can't hold the run to it would let it take the memory of others.
func budgets(row run.Row, to Destination) (map[string]int64, error) {
	mib := row.Options.Target.BudgetMiB()
	var out map[string]int64
	for _, d := range row.Devices {
		if mib == 0 || device.Kind(d) != device.CUDA {
			continue
		}
		if !to.Capabilities.Has(protocol.CapMemoryBudget) {
			return nil, fmt.Errorf("worker %s can't hold a run to a memory budget; submit the run without --memory, or for another worker", to.Name)
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[d] = mib
	}
	return out, nil
}

// graph expands, checks and levels a graph here, so that the child only carries
// it out; the worker must know its node types (CAT-06).
func (b Builder) graph(ctx context.Context, job execution.Job, hello *protocol.Hello) (*protocol.Graph, error) {
	prepared, findings := graph.Prepare(job.Row.Graph, b.Catalog(ctx))
	if len(findings) > 0 {
		texts := make([]string, len(findings))
		for i, f := range findings {
			texts[i] = f.Message
		}
		return nil, &lacking{strings.Join(texts, "; ")}
	}
	if hello.Catalog != nil {
		var missing []string
		for _, name := range prepared.Types() {
			if _, ok := hello.Catalog.Types[name]; !ok {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			return nil, &lacking{fmt.Sprintf("worker %s doesn't know the node types %s", hello.Name, strings.Join(missing, ", "))}
		}
	}
	raw, err := json.Marshal(prepared)
	if err != nil {
		return nil, fmt.Errorf("hand over the graph of run %s: %w", run.Short(job.Row.ID), err)
	}
	return &protocol.Graph{Prepared: raw, Inputs: job.Inputs, MaxParallel: b.MaxParallel}, nil
}
