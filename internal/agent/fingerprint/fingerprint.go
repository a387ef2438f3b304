// Package fingerprint collects what an agent tells the control plane about its
// machine at each connection. Facts that can't be had
// are missing, never made up, and never keep an agent from starting.
//
// Python is asked in helper processes: the agent itself imports no torch and
// holds no card.
package fingerprint

import (
	"context"
	"log/slog"

	"cdui/internal/hostinfo"
)

// Facts is what is known of a machine. Its JSON is the environment fingerprint
// of hello.
type Facts struct {
	hostinfo.Host
	Python  Python  `json:"python"`
	Catalog Catalog `json:"-"`
}

// Config says where to look.
type Config struct {
	// Python is what the user asked for, Environ what the agent was started in.
	Python  string
	Environ []string
	// Runtime holds the package cdui, NodesDir the user's node types.
	Runtime, NodesDir string
	Logger            *slog.Logger
}

// Collect gathers the facts. Asking torch for its devices may take a minute on
// a cold disk; the context bounds it.
func Collect(ctx context.Context, c Config) Facts {
	f := Facts{Host: hostinfo.Read(), Python: python(ctx, c.Python, c.Environ)}
	if f.Python.Problem != "" {
		c.Logger.WarnContext(ctx, "no usable Python", "error", f.Python.Problem)
	}
	f.Catalog = nodeTypes(ctx, c, f.Python.Path)
	return f
}
