// Package catalogs keeps what the control plane knows of node types and
// presets: those that ship with the program, and those in the user folders
// nodes/ and presets/, which it reads anew when their files change. It never
// runs Python itself: a Probe lists user nodes in a child of its own.
package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"cdui/internal/catalog"
)

// Probe lists the node types that the Python files in dir define, as
// catalog.ParseDefinitions reads them.
type Probe func(ctx context.Context, dir string) ([]byte, error)

// Config is what a Source is made of.
type Config struct {
	NodesDir, PresetsDir string
	Probe                Probe
	Logger               *slog.Logger
}

// Source gives the present catalogue.
type Source struct {
	cfg     Config
	builtin *catalog.Catalog

	mu       sync.Mutex
	seen     string
	current  *catalog.Catalog
	problems []catalog.Problem
}

// New starts with what ships with the program.
func New(cfg Config) (*Source, error) {
	builtin, err := catalog.Builtin()
	if err != nil {
		return nil, err
	}
	return &Source{cfg: cfg, builtin: builtin, current: builtin}, nil
}

// Current gives the catalogue and what is wrong with user files, reading the
// user folders again when a file of theirs has changed.
func (s *Source) Current(ctx context.Context) (*catalog.Catalog, []catalog.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := fingerprint(s.cfg.NodesDir, ".py") + "|" + fingerprint(s.cfg.PresetsDir, ".json")
	if seen == s.seen {
		return s.current, s.problems
	}
	defs, problems := s.userNodes(ctx)
	presets, bad := s.userPresets()
	problems = append(problems, bad...)
	current, clashes := s.builtin.With(defs, presets)
	if ctx.Err() != nil {
		return s.current, s.problems // cut short; the next call reads again
	}
	s.seen, s.current, s.problems = seen, current, append(problems, clashes...)
	for _, p := range s.problems {
		s.cfg.Logger.Warn("user file left out", "file", p.File, "error", p.Error)
	}
	return s.current, s.problems
}

func (s *Source) userNodes(ctx context.Context) ([]catalog.Definition, []catalog.Problem) {
	if fingerprint(s.cfg.NodesDir, ".py") == "" {
		return nil, nil
	}
	raw, err := s.cfg.Probe(ctx, s.cfg.NodesDir)
	var defs []catalog.Definition
	var problems []catalog.Problem
	if err == nil {
		defs, problems, err = catalog.ParseDefinitions(raw)
	}
	if err != nil {
		return nil, []catalog.Problem{{File: s.cfg.NodesDir, Error: fmt.Sprintf("its nodes could not be listed: %v", err)}}
	}
	return defs, problems
}

func (s *Source) userPresets() ([]catalog.Preset, []catalog.Problem) {
	var files []catalog.File
	var problems []catalog.Problem
	for _, name := range filesIn(s.cfg.PresetsDir, ".json") {
		content, err := os.ReadFile(filepath.Join(s.cfg.PresetsDir, name))
		if err != nil {
			problems = append(problems, catalog.Problem{File: name, Error: err.Error()})
			continue
		}
		files = append(files, catalog.File{Name: name, Content: content})
	}
	presets, bad := catalog.ParsePresets(files)
	return presets, append(problems, bad...)
}

// fingerprint changes when a file of dir does; empty without files.
func fingerprint(dir, suffix string) string {
	var b strings.Builder
	for _, name := range filesIn(dir, suffix) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "%s %d %d;", name, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}

func filesIn(dir, suffix string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), suffix) && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out
}
