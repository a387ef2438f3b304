package shim

import (
	"os"
	"os/signal"
	"syscall"
)

// death is the end of the main child. Other deaths tell the loop nothing.
type death struct{ status syscall.WaitStatus }

// reaper collects every process of the run that dies: the shim is the parent
// of all that have lost their own.
type reaper struct {
	sigchld chan os.Signal
	// deaths brings the main child's death, and is closed when no process of
	// the run is left.
	deaths chan death
	quit   chan struct{}
	done   chan struct{}
}

// newReaper must be made before the child is started, so that no death is
// missed.
func newReaper() *reaper {
	r := &reaper{
		sigchld: make(chan os.Signal, 1), deaths: make(chan death, 1),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	signal.Notify(r.sigchld, syscall.SIGCHLD)
	return r
}

// run reaps until nothing is left. beforeMain is called when the main child is
// dead but still has its entry in /proc.
func (r *reaper) run(main int, beforeMain func()) {
	defer close(r.done)
	defer signal.Stop(r.sigchld)
	for {
		for {
			pid, status, left := reapOne(main, beforeMain)
			if pid == main && pid > 0 {
				r.deaths <- death{status: status}
			}
			if !left {
				close(r.deaths)
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

// stop ends a reaper whose run has processes that won't die.
func (r *reaper) stop() {
	close(r.quit)
	<-r.done
}
