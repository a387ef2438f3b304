package demo

import (
	"context"
	"slices"
	"strings"

	"cdui/internal/cli/env"
	"cdui/internal/pyruntime"
)

// Probe asks an interpreter what it is.
type Probe func(ctx context.Context, path string) (pyruntime.Interpreter, error)

// choose finds an interpreter with torch: the one that was asked for, else the
// active environment's, the PATH's, the system's.
func choose(ctx context.Context, e *env.Env, probe Probe, asked string) (path, torch string, err error) {
	if asked != "" {
		path, err := pyruntime.Find(ctx, asked, e.Environ)
		if err != nil {
			return "", "", env.AsUsage(err)
		}
		py, err := probe(ctx, path)
		if err != nil {
			return "", "", env.Failed("%s", err)
		}
		if py.Torch == "" {
			return "", "", env.Failed("%s has no torch; install it with: %s -m pip install torch", path, path)
		}
		return path, py.Torch, nil
	}
	var tried []string
	for _, find := range []func() (string, error){
		func() (string, error) { return pyruntime.Find(ctx, "", e.Environ) },
		func() (string, error) { return pyruntime.Find(ctx, "", withoutEnvironment(e.Environ)) },
		func() (string, error) { return pyruntime.Find(ctx, "/usr/bin/python3", nil) },
	} {
		path, err := find()
		if err != nil || slices.Contains(tried, path) {
			continue
		}
		if py, err := probe(ctx, path); err == nil && py.Torch != "" {
			return path, py.Torch, nil
		}
		tried = append(tried, path)
		if ctx.Err() != nil {
			return "", "", context.Cause(ctx)
		}
	}
	mend := "install it with apt install python3-torch, or pip install torch, or name an interpreter that has it: cdui demo --python PATH"
	if len(tried) == 0 {
		return "", "", env.Failed("no Python is here; install Python 3.9 or newer and PyTorch")
	}
	return "", "", env.Failed("no Python with PyTorch is here (tried %s); %s", strings.Join(tried, ", "), mend)
}

func withoutEnvironment(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		return strings.HasPrefix(kv, "VIRTUAL_ENV=") || strings.HasPrefix(kv, "CONDA_PREFIX=")
	})
}
