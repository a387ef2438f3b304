package fingerprint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/pyruntime"
)

// Catalog is the node types that runs find here, each by the hash of its
// definition.
type Catalog struct {
	Hash  string
	Types map[string]string
}

// nodeTypes lists the built-in types and those of the user's files, which a
// helper reads as a run would.
func nodeTypes(ctx context.Context, c Config, interpreter string) Catalog {
	known, err := catalog.Builtin()
	if err != nil {
		c.Logger.ErrorContext(ctx, "built-in node types", "error", err)
		return Catalog{}
	}
	if interpreter != "" && hasPython(c.NodesDir) {
		defs, problems, err := userTypes(ctx, c, interpreter)
		if err != nil {
			c.Logger.WarnContext(ctx, "node types of the user", "dir", c.NodesDir, "error", err)
		}
		for _, p := range problems {
			c.Logger.WarnContext(ctx, "user file left out", "file", p.File, "error", p.Error)
		}
		known, _ = known.With(defs, nil)
	}
	types, err := known.Hashes()
	if err != nil {
		c.Logger.ErrorContext(ctx, "hash node types", "error", err)
		return Catalog{}
	}
	return Catalog{Hash: catalog.HashOf(types), Types: types}
}

func userTypes(ctx context.Context, c Config, interpreter string) ([]catalog.Definition, []catalog.Problem, error) {
	raw, err := pyruntime.UserNodes(ctx, c.Runtime, interpreter, c.NodesDir, pyruntime.ChildEnv(c.Environ, pyruntime.EnvSpec{}))
	if err != nil {
		return nil, nil, err
	}
	return catalog.ParseDefinitions(raw)
}

func hasPython(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true // let the helper say what is wrong
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".py") && !strings.HasPrefix(e.Name(), ".") {
			return true
		}
	}
	return false
}
