package shim

import (
	"time"

	"cdui/internal/protocol"
)

// rung is one act of a stop.
type rung int

// The acts, mild to hard.
const (
	// sendFlag sets the flag that cdui.should_stop reads.
	sendFlag rung = iota
	// termMain sends SIGTERM to the main process alone: its helpers must live
	// while it saves.
	termMain
	// termTree sends SIGTERM to every process of the run.
	termTree
	// killTree sends SIGKILL to every process of the run until none is left.
	killTree
)

// step is one act and when it is due, counted from the start of the stop.
type step struct {
	after time.Duration
	do    rung
}

// killDelay is how long a script that was sent SIGTERM at the end of its grace
// has until SIGKILL.
const killDelay = 5 * time.Second

// stopQuery is what the ladder depends on.
type stopQuery struct {
	kind  protocol.Kind
	grace time.Duration
	force bool
	// mainCatches and mainIgnores say what the main process does with SIGTERM;
	// watches says that somebody in the run looks at the flag.
	mainCatches, mainIgnores, watches bool
}

// ladder gives the steps of a stop, in order. The last one is always killTree.
func ladder(q stopQuery) []step {
	grace := max(0, q.grace)
	switch {
	case q.force:
		return []step{{0, killTree}}
	case q.kind == protocol.KindCommand:
		return []step{{0, sendFlag}, {0, termTree}, {grace, killTree}}
	case q.mainCatches:
		// It asked to be told: it has the whole grace to save.
		return []step{{0, sendFlag}, {0, termMain}, {grace, killTree}}
	case !q.watches && !q.mainIgnores:
		// Nobody would notice the flag, and SIGTERM ends it at once.
		return []step{{0, termTree}, {grace, killTree}}
	default:
		return []step{{0, sendFlag}, {grace, termTree}, {grace + killDelay, killTree}}
	}
}
