package isolation

import (
	"os"
	"os/signal"
	"syscall"
)

// MaxListed bounds the processes that one record lists.
const MaxListed = 32

// Death is the end of the main child. Other deaths tell the loop nothing.
type Death struct{ Status syscall.WaitStatus }

// Reaper collects every process of the run that dies: the shim is the parent
// of all that have lost their own.
type Reaper struct {
	sigchld chan os.Signal
	// Deaths brings the main child's death, and is closed when no process of
	// the run is left.
	Deaths chan Death
	quit   chan struct{}
	done   chan struct{}
}

// NewReaper must be made before the child is started, so that no death is
// missed.
func NewReaper() *Reaper {
	r := &Reaper{
		sigchld: make(chan os.Signal, 1), Deaths: make(chan Death, 1),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	signal.Notify(r.sigchld, syscall.SIGCHLD)
	return r
}

// Run reaps until nothing is left. beforeMain is called when the main child is
// dead but still has its entry in /proc.
func (r *Reaper) Run(main int, beforeMain func()) {
	defer close(r.done)
	defer signal.Stop(r.sigchld)
	for {
		for {
			pid, status, left := reapOne(main, beforeMain)
			if pid == main && pid > 0 {
				r.Deaths <- Death{Status: status}
			}
			if !left {
				close(r.Deaths)
				return
			}
			if pid == 0 {
				break
			}
		}
		select {
		case <-r.sigchld:
		case <-r.quit:
			return
		}
	}
}

// Stop ends a reaper whose run has processes that won't die.
func (r *Reaper) Stop() {
	close(r.quit)
	<-r.done
}
