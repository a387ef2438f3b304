package shim

import (
	"time"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/shim/launch"
	"cdui/internal/shim/wire"
)

// finishUnstarted leaves the run as one that ends before it began.
func (r *shimRun) finishUnstarted(f *launch.Fault) {
	r.reports.Abandon()
	r.unstarted = f
}

// finish records the end: what was still waiting, the node's last word, what
// was killed, faulty or lost, and the end itself. The order is the contract.
func (r *shimRun) finish() error {
	if r.child != nil {
		r.takeLastReports()
		r.begun(nil)
		r.sink.flush()
	}
	if err := r.output.w.Close(); err != nil {
		r.log.Warn("console is not closed", "error", err)
	}
	if lost := r.output.w.Lost(); lost > 0 {
		r.sink.dropped["console_bytes"] += lost
	}
	f := r.verdict()
	if r.reportsNode() && r.child != nil {
		errText, errType := "", ""
		if nodeStatus(f) == run.NodeError {
			errText, errType = f.Error, f.ErrorType
		}
		r.sink.event(run.EventNodeStatus, run.NodeStatus(r.a.NodeID, nodeStatus(f), errText, errType), true)
	}
	if len(r.killed) > 0 {
		r.sink.warn("processes_killed", map[string]any{"count": len(r.killed), "processes": r.killed}, true)
	}
	if r.faulty > 0 {
		r.sink.warn("faulty_reports", map[string]any{"count": r.faulty}, true)
	}
	if len(r.sink.dropped) > 0 {
		r.sink.warn("records_dropped", map[string]any{"dropped": r.sink.dropped}, true)
		f.Dropped = r.sink.dropped
	}
	r.sink.put(protocol.Record{Type: protocol.RunFinished, Finished: &f}, true)
	r.nudge(time.Now())

	exit := wire.Exit{RunID: r.a.RunID, Attempt: r.a.Attempt, TS: time.Now().UTC().Truncate(time.Millisecond), Finished: f}
	durable := !r.awaitLastAck()
	if durable {
		if err := r.sink.w.Sync(); err != nil {
			r.log.Error("last records are not synced", "error", err)
		}
	}
	err := wire.WriteExit(r.start.Dir, exit, durable)
	r.tidy()
	return err
}

func (r *shimRun) takeLastReports() {
	for {
		select {
		case p := <-r.reports.Lines:
			r.takeReport(p)
		default:
			return
		}
	}
}

func (r *shimRun) verdict() protocol.Finished {
	e := end{startFault: r.unstarted, status: r.status.Status, said: r.said, stuck: r.stuck, wait: r.start.StuckAfter}
	e.limit = time.Duration(r.a.MaxRunMS) * time.Millisecond
	if r.stop != nil {
		e.cause, e.killed, e.grace = r.stop.cause, r.stop.killed, r.stop.grace
	}
	if r.child != nil && e.cause == notStopped && len(r.stuck) == 0 && !(e.status.Exited() && e.status.ExitStatus() == 0) {
		suspicious := e.status.Signaled() && e.status.Signal() == 9 || e.status.ExitStatus() == 137
		e.oom = r.oom.Evidence(suspicious)
	}
	f := verdict(e)
	f.Killed = r.killed
	f.ActiveMS = time.Since(r.began).Milliseconds()
	if f.Status == string(run.Failed) || f.Status == string(run.Interrupted) {
		f.OutputTail = r.output.tailText()
	}
	return f
}

// awaitLastAck gives a host that follows the run a moment to store the end.
func (r *shimRun) awaitLastAck() bool {
	timeout := time.NewTimer(ackWait)
	defer timeout.Stop()
	for r.host != nil && r.acked < r.sink.last() {
		select {
		case in := <-r.hosts.In:
			r.hear(in)
		case <-timeout.C:
			return false
		}
	}
	return r.acked >= r.sink.last()
}

// tidy lets go of what the run held. A stuck process keeps its pipes; the
// goroutines that read them end with this process.
func (r *shimRun) tidy() {
	if r.oom != nil {
		r.oom.Close()
	}
	if len(r.stuck) > 0 {
		r.reaper.Stop()
	}
	if err := r.sink.w.Close(); err != nil {
		r.log.Warn("spool is not closed", "error", err)
	}
}
