package agentcmd

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"cdui/internal/agent"
	"cdui/internal/blobs"
	"cdui/internal/cli/env"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	// Work is the agent; it returns when it has ended.
	Work func(ctx context.Context, cfg agent.Config) error
	// Storage makes what moves the files of runs.
	Storage func(up agent.Upstream, cache *blobs.Store, log *slog.Logger) agent.Storage
}

// New makes `cdui agent`; more are commands of other packages below it.
func New(e *env.Env, d Deps, more ...*cobra.Command) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "agent",
		Short: "Make this machine a worker of a control plane",
		Long: `Make this machine a worker: its agent calls the control plane, takes runs from it and
reports back. It listens on no port. The runs don't depend on the agent, nor on the
line to the control plane: both may go away and come back.`,
		Example: `  cdui agent start --control https://lab:8000 --pin sha256:... --token k3x9aa.8f21...
  cdui agent status
  cdui agent stop`,
	}, append([]*cobra.Command{NewStart(e, d, nil), newStop(e), newStatus(e), newReach(e), newForget(e)}, more...)...)
}
