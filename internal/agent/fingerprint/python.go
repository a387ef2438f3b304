package fingerprint

import (
	"context"
	"slices"

	"cdui/internal/pyruntime"
)

// Python is the interpreter of runs that name none.
type Python struct {
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
	// Torch is the version of an installed torch, CUDA what it was built for.
	Torch string `json:"torch,omitempty"`
	CUDA  string `json:"cuda,omitempty"`
	// Imports tells whether torch was imported, in a helper.
	Imports bool              `json:"imports_torch"`
	Faults  []pyruntime.Fault `json:"faults,omitempty"`
	// Problem says why there is no interpreter.
	Problem string `json:"problem,omitempty"`
}

func python(ctx context.Context, preferred string, environ []string) Python {
	path, err := pyruntime.Find(ctx, preferred, environ)
	if err != nil {
		return Python{Problem: err.Error()}
	}
	p := Python{Path: path}
	seen, err := pyruntime.ProbeTorch(ctx, path)
	if err != nil {
		// A torch that hangs must not hide the Python around it.
		if seen, err = pyruntime.Probe(ctx, path); err != nil {
			p.Problem = err.Error()
			return p
		}
	}
	p.Version, p.Torch, p.CUDA, p.Faults = seen.Version, seen.Torch, seen.TorchCUDA, seen.Faults
	broken := slices.ContainsFunc(seen.Faults, func(f pyruntime.Fault) bool { return f.Code == "torch_broken" })
	p.Imports = seen.Torch != "" && seen.CUDA != nil && !broken
	return p
}
