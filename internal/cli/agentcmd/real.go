package agentcmd

import (
	"log/slog"

	"cdui/internal/agent"
	"cdui/internal/blobs"
	"cdui/internal/storage/transfer"
)

// Real is what the commands of the program itself are given.
func Real() Deps {
	return Deps{Work: agent.Run, Storage: func(up agent.Upstream, cache *blobs.Store, log *slog.Logger) agent.Storage {
		return transfer.NewDriver(up, cache, log)
	}}
}
