package env

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"cdui/internal/cli/text"
	"cdui/internal/config"
	"cdui/internal/fsinfo"
)

// Env is a command's surroundings.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	// OutTTY and ErrTTY tell whether a person looks at the stream.
	OutTTY, ErrTTY bool
	// Columns gives the terminal's width at the moment, 0 when unknown.
	Columns func() int
	// Rows gives its height; nil or 0 when unknown.
	Rows func() int
	// Environ is the process's environment, KEY=VALUE.
	Environ []string
	// Dir is the working directory.
	Dir string
	UID int
	Now func() time.Time
	// Exe is the path of this program, Argv the words that it was called with,
	// nil where it can't be called again like that.
	Exe  string
	Argv []string
	// Alive tells whether a process of this machine exists.
	Alive func(pid int) bool
	// UserAgent names this program to the control plane.
	UserAgent string

	// Flags are the flags that every command has.
	Flags Flags
}

// Flags are the flags that every command has.
type Flags struct {
	Server  string
	Context string
	Data    string
	// Listen and those for TLS belong to commands that start a control plane,
	// Isolate, Warm and LogFormat to those that start an agent, too.
	Listen          string
	TLSCert, TLSKey string
	TLSSelfSigned   bool
	Isolate, Warm   string
	LogFormat       string
}

// Getenv reads a variable of the environment.
func (e *Env) Getenv(name string) string {
	value := ""
	for _, kv := range e.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			value = v // the last one holds, as in a child
		}
	}
	return value
}

// Height is the number of lines that the terminal shows.
func (e *Env) Height() int {
	if e.Rows != nil {
		if n := e.Rows(); n > 0 {
			return n
		}
	}
	return 24
}

// Style says how to print on Out.
func (e *Env) Style() text.Style { return e.style(e.OutTTY) }

// ErrStyle says how to print on Err.
func (e *Env) ErrStyle() text.Style { return e.style(e.ErrTTY) }

func (e *Env) style(tty bool) text.Style {
	s := text.Style{Unicode: e.unicode()}
	if tty {
		s.Width = e.Columns()
		s.Colour = e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
	}
	return s
}

// unicode tells whether the locale's encoding is UTF-8.
func (e *Env) unicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(e.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// Settings looks the settings up.
func (e *Env) Settings() (config.Values, error) {
	file, err := config.ReadFile(config.FilePath(e.Getenv))
	if err != nil {
		return config.Values{}, &Usage{Text: err.Error()}
	}
	flags := map[string]string{
		config.Server: e.Flags.Server, config.ContextName: e.Flags.Context, config.Home: e.Flags.Data,
		config.Listen: e.Flags.Listen, config.Isolate: e.Flags.Isolate, config.Warm: e.Flags.Warm,
		config.LogFormat: e.Flags.LogFormat,
		config.TLSCert:   e.Abs(e.Flags.TLSCert), config.TLSKey: e.Abs(e.Flags.TLSKey),
	}
	if e.Flags.TLSSelfSigned {
		flags[config.TLSSelfSigned] = "yes"
	}
	return config.Load(config.Sources{
		Flags:  flags,
		Getenv: e.Getenv,
		File:   file,
	}), nil
}

// DataFolder chooses the data folder.
func (e *Env) DataFolder() (config.Folder, error) {
	vs, err := e.Settings()
	if err != nil {
		return config.Folder{}, err
	}
	return config.DataFolder(vs, e.Getenv, e.UID, fsinfo.Network)
}

// Logger makes the log of a process that goes on, on Err, which a background
// start has pointed at a file.
func (e *Env) Logger(vs config.Values) *slog.Logger {
	level := slog.LevelInfo
	_ = level.UnmarshalText([]byte(vs.Text(config.LogLevel))) // the setting's choices are levels
	opts := &slog.HandlerOptions{Level: level}
	if vs.Text(config.LogFormat) == "json" {
		return slog.New(slog.NewJSONHandler(e.Err, opts))
	}
	return slog.New(slog.NewTextHandler(e.Err, opts))
}

// Abs makes a path absolute that was given in the working directory.
func (e *Env) Abs(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.Dir, path)
}

// Say prints a line for people on Err.
func (e *Env) Say(format string, args ...any) {
	fmt.Fprintf(e.Err, format+"\n", args...)
}

// Print prints a line on Out.
func (e *Env) Print(format string, args ...any) {
	fmt.Fprintf(e.Out, format+"\n", args...)
}
