package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// File is the config file, read.
type File struct {
	Path string
	// Settings maps lower-case setting names to their text. That of the context
	// is the key current_context.
	Settings map[string]string
	// Current names the context that commands use when nothing else is said.
	Current  string
	Contexts map[string]Context
	// Unknown lists keys that mean nothing, sorted.
	Unknown []string
}

// Context is a control plane that has a name in the config file.
type Context struct {
	URL       string `toml:"url"`
	TokenFile string `toml:"token_file"`
	CA        string `toml:"ca"`
	Pin       string `toml:"pin"`
}

// Local is the context that is always there: the control plane of this machine
// and data folder. One of the file that is called so is used in its place.
const Local = "local"

// The keys of the file that are about contexts.
const (
	currentKey  = "current_context"
	contextsKey = "contexts"
)

// FilePath is where the config file lies.
func FilePath(getenv func(string) string) string {
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		base = filepath.Join(home(getenv), ".config")
	}
	return filepath.Join(base, "cdui", "config.toml")
}

// ReadFile reads the config file. One that isn't there is an empty one.
func ReadFile(path string) (File, error) {
	f := File{Path: path, Settings: map[string]string{}, Contexts: map[string]Context{}}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read config file: %w", err)
	}
	var named struct {
		Current  string             `toml:"current_context"`
		Contexts map[string]Context `toml:"contexts"`
	}
	var all map[string]any
	if _, err := toml.Decode(string(b), &named); err != nil {
		return f, fmt.Errorf("read config file %s: %w", path, err)
	}
	if _, err := toml.Decode(string(b), &all); err != nil {
		return f, fmt.Errorf("read config file %s: %w", path, err)
	}
	f.Current = named.Current
	if named.Contexts != nil {
		f.Contexts = named.Contexts
	}
	for key, v := range all {
		switch {
		case key == currentKey:
			f.Settings[strings.ToLower(ContextName)] = f.Current
		case key == contextsKey:
		case known(key):
			f.Settings[strings.ToLower(key)] = fmt.Sprint(v)
		default:
			f.Unknown = append(f.Unknown, key)
		}
	}
	slices.Sort(f.Unknown)
	return f, nil
}

func known(key string) bool {
	return slices.ContainsFunc(Settings(), func(s Setting) bool { return s.Name != ContextName && strings.EqualFold(s.Name, key) })
}

func home(getenv func(string) string) string {
	if h := getenv("HOME"); filepath.IsAbs(h) {
		return h
	}
	if h, err := os.UserHomeDir(); err == nil {
		return h
	}
	return "/"
}
