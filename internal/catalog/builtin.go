package catalog

import (
	"embed"
	"errors"
	"fmt"
	"path"
)

//go:embed builtin.json presets/*.json
var builtin embed.FS

// Builtin gives the catalogue that ships with the program.
func Builtin() (*Catalog, error) {
	raw, err := builtin.ReadFile("builtin.json")
	if err != nil {
		return nil, fmt.Errorf("read built-in node types: %w", err)
	}
	defs, problems, err := ParseDefinitions(raw)
	if err != nil {
		return nil, fmt.Errorf("read built-in node types: %w", err)
	}
	entries, err := builtin.ReadDir("presets")
	if err != nil {
		return nil, fmt.Errorf("list built-in presets: %w", err)
	}
	files := make([]File, 0, len(entries))
	for _, e := range entries {
		content, err := builtin.ReadFile(path.Join("presets", e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read built-in preset %s: %w", e.Name(), err)
		}
		files = append(files, File{Name: e.Name(), Content: content})
	}
	presets, bad := ParsePresets(files)
	problems = append(problems, bad...)
	c, clashes := New(defs, presets)
	for _, p := range append(problems, clashes...) {
		err = errors.Join(err, fmt.Errorf("read built-in %s: %s", p.File, p.Error))
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}
