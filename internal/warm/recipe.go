package warm

import (
	"path/filepath"
	"slices"
	"strings"

	"cdui/internal/protocol"
	"cdui/internal/pyruntime"
)

// Recipe is how a spare is started. Runs with an equal Key can be served by it.
type Recipe struct {
	Key    string
	Device string
	Kind   protocol.Kind
	// Argv and Env start the child; it holds nothing that belongs to one run.
	Argv, Env []string
}

// RecipeOf makes the recipe of a spare that would serve a run like a. False:
// none would, since it is a command, has several devices, or asks for what only
// its own start can give.
func RecipeOf(a protocol.Assignment) (Recipe, bool) {
	if len(a.VisibleDevices) != 1 {
		return Recipe{}, false
	}
	argv, start, ok := pyruntime.Ahead(a.Kind, a.Argv, a.Env)
	if !ok {
		return Recipe{}, false
	}
	r := Recipe{Device: a.VisibleDevices[0], Kind: a.Kind, Argv: argv}
	r.Key = strings.Join(slices.Concat([]string{r.Device, string(r.Kind)}, argv, start), "\x00")
	// Libraries may look for programs when they are imported. What the PATH of
	// the run is comes with the run.
	r.Env = slices.Clone(start)
	for _, entry := range a.Env {
		if strings.HasPrefix(entry, "PATH=") {
			r.Env = append(r.Env, entry)
		}
	}
	return r, true
}

// ScriptFolder is where a script run looks for modules before anywhere else;
// false for other runs.
func ScriptFolder(a protocol.Assignment) (string, bool) {
	if a.Kind != protocol.KindScript || len(a.Argv) < 5 {
		return "", false
	}
	path := a.Argv[4]
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.Dir, path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return filepath.Dir(path), true
}

// Shadowed names a module that a script in a folder with these entries would
// find there, and that a spare has already imported from elsewhere; empty:
// there is none.
func Shadowed(entries, imported []string) string {
	for _, entry := range entries {
		name, _, _ := strings.Cut(entry, ".")
		isModule := slices.Contains([]string{"", ".py", ".pyc", ".so"}, filepath.Ext(entry))
		if isModule && slices.Contains(imported, name) {
			return name
		}
	}
	return ""
}

// Spread says how many of n spares stand by for each device: one for each
// accelerator in order, and the rest for the cpu.
func Spread(n int, devices []string) map[string]int {
	out := map[string]int{}
	for _, d := range devices {
		if d != cpu && n > 0 {
			out[d] = 1
			n--
		}
	}
	if slices.Contains(devices, cpu) && n > 0 {
		out[cpu] = n
	}
	return out
}

const cpu = "cpu"
