//go:build !linux

package shim

import (
	"log/slog"

	"cdui/internal/shim/wire"
)

// keep is for systems that can make a process the reaper of orphans.
func keep(_ wire.Start, log *slog.Logger) int {
	log.Error("a keeper does not hold on this system")
	return wire.ExitIsolation
}
