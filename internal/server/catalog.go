package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/pyruntime"
	"cdui/internal/server/catalogs"
)

// composeCatalog makes the source of node types. User nodes are listed by the
// interpreter that would execute them.
func (s *server) composeCatalog(folder *folder, root string) error {
	probe := func(ctx context.Context, dir string) ([]byte, error) {
		interpreter, err := pyruntime.Find(ctx, s.cfg.Python, s.cfg.Environ)
		if err != nil {
			return nil, err
		}
		return pyruntime.UserNodes(ctx, root, interpreter, dir, pyruntime.ChildEnv(s.cfg.Environ, pyruntime.EnvSpec{}))
	}
	var err error
	s.catalog, err = catalogs.New(catalogs.Config{
		NodesDir: folder.path("nodes"), PresetsDir: folder.path("presets"), Probe: probe, Logger: s.log,
	})
	return err
}

// Catalog implements httpapi.Host.
func (s *server) Catalog(ctx context.Context) *catalog.Catalog {
	current, _ := s.catalog.Current(ctx)
	return current
}

// Graph implements httpapi.Host: it reads graphs/<name>.json.
func (s *server) Graph(name string) (json.RawMessage, error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return nil, api.Errorf(api.NotFound, "no graph %q", name)
	}
	raw, err := os.ReadFile(filepath.Join(s.cfg.DataDir, "graphs", name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.NotFound, "no graph %q in the folder graphs/ of the data folder", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read graph %s: %w", name, err)
	}
	return raw, nil
}
